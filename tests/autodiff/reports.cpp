// What other engines were reported to get wrong about derivatives of derivatives, asked of this one. A case names the public
// report (project#number); the right values were derived by hand or stand in the golden file that the case names.
#include <unistd.h>

#include <cmath>
#include <fstream>

#include "autodiff/rules.hpp"
#include "engine/passes.hpp"
#include "tests/autodiff/derivatives.hpp"

using namespace backbeat;
using namespace backbeat::test;

namespace {

using Body = std::function<void(Recorder&)>;

// The outputs on the reference device; the cpu device must agree, whole optimizer included.
std::vector<Array> outputs(const Body& body, const std::vector<Array>& inputs = {}) {
  const Program program = record("report", body);
  const std::vector<Array> expected = run(program, inputs), got = run(optimize(program), inputs, all_devices()[1]);
  for (size_t i = 0; i < expected.size(); ++i)
    for (int64_t j = 0; j < expected[i].size(); ++j) {
      const double a = expected[i].at(j), b = got[i].at(j);
      CHECK_MESSAGE((a == b || (a != a && b != b) || std::abs(a - b) <= 1e-12 * std::max(1.0, std::abs(a))),
                    program.outputs[i].name, ": reference ", a, ", cpu ", b);
    }
  return expected;
}

Array vector(const std::vector<double>& values) { return Array::from<double>({static_cast<int64_t>(values.size())}, values); }

// f, f', f'', ... at one number.
std::vector<double> derivatives_at(double x, int order, const std::function<Tensor(Tensor)>& f) {
  std::vector<double> values;
  for (const Array& a : outputs(
           [&](Recorder& r) {
             const Tensor input = r.input("x", DType::f64, {});
             Tensor y = f(input);
             for (int k = 0; k <= order; ++k) {
               r.output(concat("d", k), y);
               y = grad(y, input, {.cotangent = {}, .unused = Unused::zeros});
             }
           },
           {Array::scalar(x)}))
    values.push_back(a.item());
  return values;
}

bool finite(const Array& a) {
  for (int64_t i = 0; i < a.size(); ++i)
    if (!std::isfinite(a.at(i))) return false;
  return true;
}
bool zero(const Array& a) {
  bool all = true;
  for (int64_t i = 0; i < a.size(); ++i) all = all && a.at(i) == 0;
  return all;
}

Tensor layer_norm(Tensor x, double epsilon) {
  const int64_t last = x.rank() - 1;
  Shape kept = x.shape();
  kept[last] = 1;
  const Tensor centred = x - reshape(mean(x, {last}), kept);
  return centred * rsqrt(reshape(mean(square(centred), {last}), kept) + epsilon);
}

Tensor batch_norm(Tensor x) { return transpose(layer_norm(transpose(x, {1, 0}), 1e-3), {1, 0}); }

Tensor two_sided(Tensor critic, Tensor x) { return mean(square(norm(flatten(grad(sum(critic), x)), {1}) - 1.0)); }

WindowDims pooling(Reduction kind, int64_t window, int64_t stride) {
  return {kind, {1, 1, window, window}, {1, 1, stride, stride}, {0, 0, 0, 0}, {0, 0, 0, 0}, {1, 1, 1, 1}, {1, 1, 1, 1}};
}

Tensor upsampled(Tensor x) {  // [n, c, h, w], twice as large
  const Shape s = x.shape();
  return reshape(broadcast_in_dim(x, {s[0], s[1], s[2], 2, s[3], 2}, {0, 1, 2, 4}), {s[0], s[1], 2 * s[2], 2 * s[3]});
}

Tensor log_softmax(Tensor x) {
  const Tensor shifted = x - reshape(stop_gradient(reduce(x, Reduction::max, {1})), {x.dim(0), 1});
  return shifted - reshape(log(reduce_sum(exp(shifted), {1})), {x.dim(0), 1});
}

Tensor bce_with_logits(Tensor x, Tensor target) { return softplus(x) - x * target; }

int64_t resident_bytes() {
  std::ifstream in("/proc/self/statm");
  int64_t total = 0, resident = 0;
  in >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// Records, differentiates, compiles and runs a thousand times.
void stays_flat(const Body& body, const std::vector<Array>& inputs) {
#if defined(__SANITIZE_ADDRESS__)
  (void)body, (void)inputs;  // the sanitizer keeps freed memory; it finds leaks by itself
#else
  const auto device = make_cpu_device();
  int64_t before = 0;
  for (int i = 0; i < 1000; ++i) {
    StateStore state;
    device->compile(record("flat", body))->run(inputs, state);
    if (i == 100) before = resident_bytes();
  }
  CHECK(resident_bytes() - before < 1 << 20);
#endif
}

}  // namespace

TEST_SUITE_BEGIN("reports");

TEST_CASE("1, 5: pytorch#2421, autograd#151: the norm of nothing has gradient 0, to every order") {
  const auto out = outputs(
      [](Recorder& r) {
        const Tensor x = r.input("x", DType::f64, {3}), n = norm(x, {0}), g = grad(n, x);
        r.output("n", n), r.output("g", g), r.output("h", hessian(n, x)), r.output("third", grad(sum(grad(sum(g), x)), x));
      },
      {vector({0, 0, 0})});
  for (const Array& a : out) CHECK(zero(a));
}

TEST_CASE("2: keras-io#910: the penalty of a critic without slope is finite, and so is its gradient") {
  const auto out = outputs(
      [](Recorder& r) {
        const Tensor x = r.input("x", DType::f64, {4, 2}), w = r.input("w", DType::f64, {2, 1});
        const Tensor penalty = two_sided(matmul(x, w), x);
        r.output("penalty", penalty), r.output("dw", grad(penalty, w));
      },
      {any({4, 2}), Array::zeros(DType::f64, {2, 1})});
  CHECK(same(out[0], {1}));
  CHECK(zero(out[1]));
}

TEST_CASE("3: pytorch#2534: ten thousand steps of a small critic stay finite") {
  const auto train = [](Recorder& r) {
    const Tensor x = r.input("x", DType::f32, {8, 2}), w = r.state("w", DType::f32, {2, 8}), v = r.state("v", DType::f32, {8, 1});
    const Tensor critic = matmul(relu(matmul(x, w)), v);
    const Tensor loss = 10.0 * two_sided(critic, x) + mean(critic);
    const auto g = grad(loss, std::vector{w, v});
    r.update("w", w - 1e-3 * g[0]), r.update("v", v - 1e-3 * g[1]);
    r.output("loss", loss);
  };
  const auto step = make_cpu_device()->compile(optimize(record("train", train)));
  StateStore state;
  state.set("w", any({2, 8}, 3).converted(DType::f32)), state.set("v", Array::zeros(DType::f32, {8, 1}));
  Array x = any({8, 2}, 4).converted(DType::f32);
  x.data<float>()[0] = x.data<float>()[1] = 0;  // a sample on which every unit is off
  for (int i = 0; i < 10000; ++i)
    if (const double loss = step->run(std::span(&x, 1), state)[0].item(); !std::isfinite(loss)) FAIL("not finite after step ", i);
  CHECK(finite(state.at("w")));
}

TEST_CASE("4, 6: jax#3058, jax#21723, pytorch#6394: at 0 the sum of squares is smooth, abs and norm give 0, sqrt(x^2) does not") {
  CHECK(derivatives_at(0, 2, [](Tensor x) { return square(x); }) == std::vector<double>{0, 0, 2});
  CHECK(derivatives_at(0, 2, [](Tensor x) { return square(norm(reshape(x, {1}), {0})); }) == std::vector<double>{0, 0, 0});
  CHECK(derivatives_at(0, 1, [](Tensor x) { return abs(x); })[1] == 0);
  CHECK(std::isnan(derivatives_at(0, 1, [](Tensor x) { return sqrt(square(x)); })[1]));  // 0 * (1/2) / 0: written by hand, so meant
}

TEST_CASE("7, 8, 9: pytorch#4661, #7343, #2309, #51978: a gradient of a gradient leaks nothing") {
  SUBCASE("of parameters") {
    stays_flat(
        [](Recorder& r) {
          const Tensor x = r.input("x", DType::f64, {4, 3}), w = r.input("w", DType::f64, {3, 3});
          r.output("dw", grad(two_sided(tanh(matmul(x, w)), x), w));
        },
        {any({4, 3}), any({3, 3})});
  }
  SUBCASE("through batch norm") {
    stays_flat(
        [](Recorder& r) {
          const Tensor x = r.input("x", DType::f64, {4, 3});
          r.output("dx", grad(sum(square(grad(sum(tanh(batch_norm(x))), x))), x));
        },
        {any({4, 3})});
  }
  SUBCASE("with grad called inside of a derivative of one's own") {
    stays_flat(
        [](Recorder& r) {
          const Tensor x = r.input("x", DType::f64, {4});
          const auto cube = [](const std::vector<Tensor>& t) { return std::vector{t[0] * t[0] * t[0]}; };
          CallOptions own;
          own.vjp = [&](const CompositeCall& c) {
            const Tensor again = c.operands[0] * c.operands[0] * c.operands[0];
            return std::vector{c.seeds[0] * grad(sum(again), c.operands[0])};
          };
          const Tensor y = call("cube", cube, {x}, own)[0];
          r.output("h", grad(sum(grad(sum(y), x)), x));
        },
        {any({4})});
  }
}

TEST_CASE("10, 12: pytorch#4422, #186256: batch norm in training, to third order") {
  third_order([](const Tensors& t) { return tanh(batch_norm(t[0]) * t[1] + t[2]); }, {any({5, 3}), positive({3}), any({3}, 2)});
}

TEST_CASE("11: pytorch#175754: layer norm, to third order") {
  third_order([](const Tensors& t) { return layer_norm(t[0], 1e-3) * t[1] + t[2]; }, {any({3, 5}), positive({5}), any({5}, 2)});
}

TEST_CASE("13: pytorch#196700: layer norm, forward over forward") {
  // Of (-t, t) with epsilon 1 the first entry is f = -t / sqrt(1 + t^2), and f'' = 3 t / (1 + t^2)^(5/2).
  const double t = 0.7;
  const auto out = outputs(
      [](Recorder& r) {
        const Tensor x = r.input("t", DType::f64, {}), one = r.input("one", DType::f64, {}), flat = reshape(x, {1, 1});
        const Tensor y = layer_norm(concatenate({-flat, flat}, 1), 1);
        const Tensor first = reshape(slice(y, {0, 0}, {1, 1}, {1, 1}), {});
        r.output("f''", jvp(jvp(first, x, one), x, one));
      },
      {Array::scalar(t), Array::scalar(1.0)});
  CHECK(out[0].item() == doctest::Approx(3 * t / std::pow(1 + t * t, 2.5)).epsilon(1e-13));
  CHECK(out[0].item() == doctest::Approx(0.774914).epsilon(1e-6));
}

TEST_CASE("14, 15: pytorch PR 41595, mlx#3220: a gradient is the same whether it is differentiated again or not, in its own shape") {
  const std::vector<Array> inputs{any({3, 4}), positive({4})};
  const auto first = [](Recorder& r) {
    const Tensor x = r.input("x", DType::f64, {3, 4}), gain = r.input("gain", DType::f64, {4});
    return std::pair{x, grad(sum(tanh(layer_norm(x, 1e-3) * gain)), x)};
  };
  const auto once = outputs([&](Recorder& r) { r.output("g", first(r).second); }, inputs);
  const auto twice = outputs(
      [&](Recorder& r) {
        const auto [x, g] = first(r);
        r.output("g", g), r.output("h", grad(sum(square(g)), x));
      },
      inputs);
  CHECK(bitwise_equal(once[0], twice[0]));
  CHECK(twice[1].shape() == Shape{3, 4});
}

TEST_CASE("16: mlx#4114: sort and the largest k, twice; indices carry no derivative") {
  third_order([](const Tensors& t) { return tanh(sort(square(t[0]), 1) * t[1]); }, {any({2, 5}), any({2, 5}, 2)});
  third_order([](const Tensors& t) { return square(slice(reverse(sort(t[0], 0), {0}), {0}, {2}, {1})); }, {any({6})});
  outputs([](Recorder& r) {
    const Tensor x = constant(r.tape(), any({4}));
    CHECK_FALSE(depends_on(convert(argsort(x, 0), DType::f64), x));
    CHECK_FALSE(depends_on(convert(argmax(x, 0), DType::f64), x));
    r.output("x", x);
  });
}

TEST_CASE("17: mlx#1815: a nested gradient is not 0: the Laplacian of sin(a) cos(2 b) is -5 times it") {
  const auto out = outputs(
      [](Recorder& r) {
        const Tensor a = r.input("a", DType::f64, {}), b = r.input("b", DType::f64, {}), u = sine(a) * cosine(2.0 * b);
        r.output("u", u), r.output("laplacian", grad(grad(u, a), a) + grad(grad(u, b), b));
      },
      {Array::scalar(0.3), Array::scalar(0.8)});
  CHECK(out[1].item() == doctest::Approx(-5 * out[0].item()).epsilon(1e-14));
}

TEST_CASE("18: mlx#610: a broadcast in between keeps the gradient") {
  const auto out = outputs(
      [](Recorder& r) {
        const Tensor a = r.input("a", DType::f64, {3, 3});
        r.output("g", grad(sum(square(broadcast_to(a, {3, 3, 3}) + 1.0)), a));
      },
      {Array::full(DType::f64, {3, 3}, 1)});
  CHECK(same(out[0], std::vector<double>(9, 12)));
}

TEST_CASE("19, 20: tensorflow#11435, pytorch#4497, PR 98582: max pooling, to third order") {
  for (auto [window, stride] : {std::pair<int64_t, int64_t>{2, 2}, {3, 2}})
    third_order([=](const Tensors& t) { return tanh(reduce_window(square(t[0]), pooling(Reduction::max, window, stride))); },
                {any({1, 2, 5, 5})});
}

TEST_CASE("21: tensorflow#22208, #33751: the penalty of a critic that enlarges its input") {
  third_order([](const Tensors& t) { return two_sided(tanh(upsampled(t[0]) * t[1]), t[0]); }, {any({2, 1, 2, 2}), any({1, 1, 4, 4}, 2)});
}

TEST_CASE("22: pytorch#5112: a transposed convolution with dilation and output padding, to third order") {
  ConvDims d;
  d.lhs_dilation = {2, 2}, d.kernel_dilation = {2, 2}, d.pad_low = {2, 2}, d.pad_high = {3, 3};
  third_order([=](const Tensors& t) { return tanh(convolution(t[0], t[1], d)); }, {any({1, 2, 3, 3}), any({2, 2, 3, 3}, 2)});
}

TEST_CASE("23: pytorch#63314: the input gradient of a transposed convolution of stride 2 and kernel 1") {
  ConvDims d;
  d.lhs = d.kernel = d.out = {0, 1, {2}};
  d.strides = {1}, d.pad_low = d.pad_high = {0}, d.lhs_dilation = {2}, d.kernel_dilation = {1};
  const auto out = outputs(
      [&](Recorder& r) {
        const Tensor x = r.input("x", DType::f64, {1, 1, 2}), w = r.input("w", DType::f64, {1, 1, 1});
        const Tensor dy = constant(r.tape(), Array::from<double>({1, 1, 3}, {1.5, 0, 0.7}));
        r.output("dx", grad(convolution(x, w, d), x, {.cotangent = dy, .unused = Unused::error}));
      },
      {any({1, 1, 2}), Array::from<double>({1, 1, 1}, {-0.7767})});
  CHECK(out[0].at(0) == doctest::Approx(-1.16505).epsilon(1e-14));
  CHECK(out[0].at(1) == doctest::Approx(-0.54369).epsilon(1e-14));
}

TEST_CASE("24: pytorch-trpo#13, caogang/wgan-gp#16: dilated convolution and instance norm in a penalty") {
  ConvDims dilated;
  dilated.kernel_dilation = {2, 2}, dilated.pad_low = dilated.pad_high = {2, 2};
  const auto critic = [&](Tensor x, Tensor w) {
    const Tensor y = convolution(x, w, dilated);
    const Tensor centred = y - reshape(mean(y, {2, 3}), {2, 2, 1, 1});
    return sum(tanh(centred * rsqrt(reshape(mean(square(centred), {2, 3}), {2, 2, 1, 1}) + 1e-3)) * y);
  };
  third_order([&](const Tensors& t) { return critic(t[0], t[1]); }, {any({2, 1, 4, 4}), any({2, 1, 3, 3}, 2)});
  const auto out = outputs(
      [&](Recorder& r) {
        const Tensor x = r.input("x", DType::f64, {2, 1, 4, 4}), w = r.input("w", DType::f64, {2, 1, 3, 3});
        r.output("dw", grad(two_sided(critic(x, w), x), w));
      },
      {any({2, 1, 4, 4}), any({2, 1, 3, 3}, 2)});
  CHECK_FALSE(zero(out[0]));
}

TEST_CASE("25: caogang/wgan-gp#27: the norm is taken for each sample, over all that it holds") {
  const auto out = outputs([](Recorder& r) {
    const Tensor slope = full(r.tape(), DType::f64, {2, 3, 4, 4}, 1);
    r.output("norm", norm(flatten(slope), {1}));
  });
  CHECK(out[0].shape() == Shape{2});
  CHECK(out[0].at(1) == doctest::Approx(std::sqrt(48)).epsilon(1e-15));
}

TEST_CASE("26: mlpack#2891, AiDotNet#1844: the penalty's gradient reaches the weights of every layer") {
  const auto out = outputs(
      [](Recorder& r) {
        const Tensor x = r.input("x", DType::f64, {4, 2}), w = r.input("w", DType::f64, {2, 3}), v = r.input("v", DType::f64, {3, 1});
        for (Tensor g : grad(two_sided(matmul(tanh(matmul(x, w)), v), x), std::vector{w, v})) r.output("g", g);
      },
      {any({4, 2}), any({2, 3}, 2), any({3, 1}, 3)});
  for (const Array& g : out) CHECK((finite(g) && !zero(g)));
}

TEST_CASE("27, 28: pytorch#19024, #16532, #47562: the mean over two halves of a batch is the whole; an all_reduce is differentiable") {
  const std::vector<Array> inputs{any({4, 2}), any({2, 3}, 2), any({3}, 3)};
  const auto out = outputs(
      [](Recorder& r) {
        const Tensor x = r.input("x", DType::f64, {4, 2}), w = r.input("w", DType::f64, {2, 3}), b = r.input("b", DType::f64, {3});
        const auto gradients = [&](Tensor part) { return grad(two_sided(tanh(matmul(part, w) + b), part), std::vector{w, b}); };
        const auto whole = gradients(x), low = gradients(slice(x, {0, 0}, {2, 2}, {1, 1})), high = gradients(slice(x, {2, 0}, {4, 2}, {1, 1}));
        for (size_t i = 0; i < 2; ++i) r.output("difference", whole[i] - 0.5 * (low[i] + high[i]));
        r.output("h", grad(sum(square(grad(all_reduce(sum(tanh(b)), Reduction::sum, 1), b))), b));
        r.output("h alone", grad(sum(square(grad(sum(tanh(b)), b))), b));
      },
      inputs);
  for (size_t i = 0; i < 2; ++i)
    for (int64_t j = 0; j < out[i].size(); ++j) CHECK(std::abs(out[i].at(j)) < 1e-15);
  CHECK(bitwise_equal(out[2], out[3]));
}

TEST_CASE("29: tensorflow#48662: a scaled loss is scaled back before the norm is taken") {
  const auto out = outputs(
      [](Recorder& r) {
        const Tensor x = r.input("x", DType::f64, {4, 2}), w = r.input("w", DType::f64, {2, 3});
        const Tensor critic = sum(tanh(matmul(x, w)));
        const auto penalty = [&](Tensor slope) { return mean(square(norm(slope, {1}) - 1.0)); };
        const Tensor scaled = grad(1024.0 * critic, x);
        r.output("plain", grad(penalty(grad(critic, x)), w));
        r.output("scaled back", grad(1024.0 * penalty(scaled * (1.0 / 1024)), w) * (1.0 / 1024));
        r.output("forgotten", grad(1024.0 * penalty(scaled), w) * (1.0 / 1024));
      },
      {any({4, 2}), any({2, 3}, 2)});
  CHECK(bitwise_equal(out[0], out[1]));  // powers of two: no rounding
  CHECK(std::abs(out[2].at(0)) > 100 * std::abs(out[0].at(0)));
}

TEST_CASE("30, 31: pytorch#5261, #9229, tensorflow#5985: LSTM and GRU cells, to third order") {
  const auto gate = [](Tensor z, int64_t i, int64_t n) { return slice(z, {0, i * n}, {z.dim(0), (i + 1) * n}, {1, 1}); };
  third_order(
      [&](const Tensors& t) {
        const Tensor z = matmul(t[0], t[2]) + matmul(t[1], t[3]);
        const Tensor c = logistic(gate(z, 0, 2)) * t[1] + logistic(gate(z, 1, 2)) * tanh(gate(z, 2, 2));
        return logistic(gate(z, 3, 2)) * tanh(c);
      },
      {any({2, 3}), any({2, 2}, 2), any({3, 8}, 3), any({2, 8}, 4)});
  third_order(
      [&](const Tensors& t) {
        const Tensor z = matmul(t[0], t[2]), h = matmul(t[1], t[3]);
        const Tensor reset = logistic(gate(z, 0, 2) + gate(h, 0, 2)), update = logistic(gate(z, 1, 2) + gate(h, 1, 2));
        return (1.0 - update) * tanh(gate(z, 2, 2) + reset * gate(h, 2, 2)) + update * t[1];
      },
      {any({2, 3}), any({2, 2}, 2), any({3, 6}, 3), any({2, 6}, 4)});
}

TEST_CASE("32, 33: pytorch#59477, #18945, #79609: binary cross-entropy with logits, summed and averaged, in both modes") {
  const Array target = Array::from<double>({4}, {0, 1, 1, 0});
  for (const bool averaged : {false, true}) {
    const auto loss = [&](Tensor x, Tensor y) { return averaged ? mean(bce_with_logits(x, y)) : sum(bce_with_logits(x, y)); };
    third_order([&](const Tensors& t) { return loss(t[0], t[1]); }, {any({4}), target});
    const auto out = outputs(
        [&](Recorder& r) {
          const Tensor x = r.input("x", DType::f64, {4}), y = r.input("y", DType::f64, {4}), l = loss(x, y);
          r.output("forward over reverse", hvp(l, x, ones_like(x))), r.output("reverse over reverse", grad(sum(grad(l, x)), x));
        },
        {any({4}), target});
    for (int64_t i = 0; i < 4; ++i) {
      const double s = 1 / (1 + std::exp(-any({4}).at(i)));
      for (const Array& h : out) CHECK(h.at(i) == doctest::Approx(s * (1 - s) / (averaged ? 4 : 1)).epsilon(1e-13));
    }
  }
}

TEST_CASE("34: pytorch#2210: log_softmax, to third order") {
  third_order([](const Tensors& t) { return log_softmax(t[0]) * t[1]; }, {any({2, 4}), any({2, 4}, 2)});
}

TEST_CASE("35: pytorch#95180, tensorflow#35011: powers of 0, to fifth order") {
  CHECK(derivatives_at(0, 5, [](Tensor x) { return power(x, scalar_like(x, 4)); }) == std::vector<double>{0, 0, 0, 0, 24, 0});
  CHECK(derivatives_at(0, 3, [](Tensor x) { return power(x, scalar_like(x, 2)); }) == std::vector<double>{0, 0, 2, 0});
}

TEST_CASE("36: jax#40315: the curvature of a product with a saturated tanh") {
  const auto d = derivatives_at(1, 2, [](Tensor v) {
    const Tensor u = -1e8 * v;
    return tanh(u) * square(u);
  });
  CHECK(d[2] == doctest::Approx(-2e16).epsilon(1e-14));
}

TEST_CASE("37: saiunit PR 114: a branch that is not taken does no harm if its input is safe") {
  const auto safe = [](Tensor x) {
    const Tensor positive = x > 0.0;
    return select(positive, log(select(positive, x, scalar_like(x, 1))), scalar_like(x, 0));
  };
  CHECK(derivatives_at(0, 3, safe) == std::vector<double>{0, 0, 0, 0});
  // The other way to write it multiplies the infinite slope of log at 0 by zero.
  const auto unsafe = [](Tensor x) { return select(x > 0.0, log(x), scalar_like(x, 0)); };
  CHECK(std::isnan(derivatives_at(0, 1, unsafe)[1]));
}

TEST_CASE("38: ReverseDiff.jl#45, ForwardDiff.jl#83: a derivative inside of a derivative keeps to its own variable") {
  const auto nested = [](bool product) {
    return outputs(
        [=](Recorder& r) {
          const Tensor x = r.input("x", DType::f64, {}), y = r.input("y", DType::f64, {}), one = r.input("one", DType::f64, {});
          const Tensor inner = product ? x * y : x + y;
          r.output("reverse", grad(x * grad(inner, y), x, {.cotangent = {}, .unused = Unused::zeros}));
          r.output("forward", jvp(x * jvp(inner, y, one), x, one));
        },
        {Array::scalar(product ? 4.0 : 1.0), Array::scalar(1.0), Array::scalar(1.0)});
  };
  for (const Array& a : nested(false)) CHECK(a.item() == 1);
  for (const Array& a : nested(true)) CHECK(a.item() == 8);
}

TEST_CASE("39, 41: tensorflow#41510, pytorch#181581: a gradient is on the tape or refused, never lost") {
  const auto out = outputs(
      [](Recorder& r) {
        const Tensor y = r.input("y", DType::f64, {}), v = r.input("v", DType::f64, {});
        r.output("d2w/dydv", grad(grad(square(y) * v, y), v));
      },
      {Array::scalar(2.0), Array::scalar(3.0)});
  CHECK(out[0].item() == 4);
  Tape one, other;
  const Tensor x = constant(one, Array::scalar(1.0));
  const Tensor outside = constant(other, Array::scalar(1.0));
  CHECK_THROWS_WITH_AS(grad(x * x, outside), doctest::Contains("on another tape than y"), Error);
}

TEST_CASE("40: tensorflow#34503, jax#21220: a derivative of one's own counts at every level") {
  const auto out = outputs(
      [](Recorder& r) {
        const Tensor x = r.input("x", DType::f64, {});
        CallOptions own;  // of x^3: three times what it should be, so that one sees whose it is
        own.vjp = [](const CompositeCall& c) { return std::vector{c.seeds[0] * (9.0 * square(c.operands[0]))}; };
        own.jvp = [](const CompositeCall& c) { return std::vector{c.seeds[0] * (9.0 * square(c.operands[0]))}; };
        const auto cube = [](const std::vector<Tensor>& t) { return std::vector{t[0] * t[0] * t[0]}; };
        const Tensor y = call("cube", cube, {x}, own)[0];
        r.output("y", y), r.output("dy", grad(y, x)), r.output("d2y", grad(grad(y, x), x)), r.output("jvp", jvp(y, x, ones_like(x)));
      },
      {Array::scalar(2.0)});
  CHECK(out[0].item() == 8);
  CHECK(out[1].item() == 36);
  CHECK(out[2].item() == 36);
  CHECK(out[3].item() == 36);
}

TEST_CASE("42: pytorch#102223, #33999: a checkpoint with input gradients gives what the plain network gives") {
  const std::vector<Array> inputs{any({4, 2}), any({2, 3}, 2), any({3, 1}, 3)};
  const auto penalized = [](Recorder& r, bool kept) {
    const Tensor x = r.input("x", DType::f64, {4, 2}), w = r.input("w", DType::f64, {2, 3}), v = r.input("v", DType::f64, {3, 1});
    const auto layer = [](const std::vector<Tensor>& t) { return std::vector{tanh(matmul(t[0], t[1]))}; };
    const Tensor h = kept ? layer({x, w})[0] : checkpoint(layer, {x, w})[0];
    const Tensor critic = matmul(h, v), loss = two_sided(critic, x) + mean(critic);
    for (Tensor g : grad(loss, std::vector{w, v})) r.output("g", g);
  };
  const auto plain = outputs([&](Recorder& r) { penalized(r, true); }, inputs);
  const auto again = outputs([&](Recorder& r) { penalized(r, false); }, inputs);
  for (size_t i = 0; i < plain.size(); ++i)
    for (int64_t j = 0; j < plain[i].size(); ++j) CHECK(again[i].at(j) == doctest::Approx(plain[i].at(j)).epsilon(1e-14));
}

TEST_CASE("43: pytorch#39141: weights that are updated between two backward passes: both see the old ones") {
  const Program program = record("update", [](Recorder& r) {
    const Tensor x = r.input("x", DType::f64, {}), w = r.state("w", DType::f64, {});
    const Tensor loss = square(w * x), first = grad(loss, w);
    r.update("w", w - 0.1 * first);
    r.output("first", first), r.output("second", grad(square(first), w));
  });
  for (const NamedDevice& device : all_devices()) {
    StateStore state;
    state.set("w", Array::scalar(3.0));
    const Array x = Array::scalar(2.0);
    const auto out = device.make()->compile(program)->run(std::span(&x, 1), state);
    CHECK(out[0].item() == 24);             // 2 w x^2
    CHECK(out[1].item() == 2 * 24 * 8);     // 2 (2 w x^2) (2 x^2)
    CHECK(state.at("w").item() == doctest::Approx(3 - 2.4));
  }
}

TEST_CASE("44: tinygrad#2584, #5858: the second derivative is not the first again") {
  const auto d = derivatives_at(2, 2, [](Tensor x) { return exp(3.0 * x); });
  CHECK(d[1] == doctest::Approx(3 * std::exp(6)).epsilon(1e-14));
  CHECK(d[2] == doctest::Approx(3630.859).epsilon(1e-6));
}

TEST_CASE("45, 46: candle#2462, mxnet#12529, mlx#1771: every differentiable primitive has both rules") {
  for (int i = 0; i < static_cast<int>(Op::count_); ++i) {
    const Op op = static_cast<Op>(i);
    CAPTURE(name_of(op));
    const bool needed = is_differentiable(op) && op != Op::call;  // a call's are those of its body
    CHECK((rules_of(op).vjp != nullptr) == needed);
    CHECK((rules_of(op).jvp != nullptr) == needed);
  }
}

TEST_SUITE_END();
