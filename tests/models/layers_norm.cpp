// Norms, activations, softmax and losses.
#include <limits>

#include "tests/models/figures.hpp"

using namespace backbeat;
using namespace backbeat::test;

namespace {
Build elementwise(Tensor (*f)(Operand)) {
  return layer([=](const Parameters&, Tensor x) { return f(x); });
}
Build along(Tensor (*f)(Operand, int64_t)) {
  return layer([=](const Parameters&, Tensor x) { return f(x, 1); });
}
Build loss(Tensor (*f)(Operand, Operand), const char* other) {
  return [=](const Named& in) { return Named{{"y", f(in.at("x"), in.at(other))}}; };
}
}  // namespace

TEST_CASE("layers: norms") {
  check_layers({
      {"layer_norm", layer([](const Parameters& p, Tensor x) { return layer_norm(p, "l", x, {1}); })},
      {"layer_norm, image", layer([](const Parameters& p, Tensor x) { return layer_norm(p, "l", x, {1, 2, 3}); })},
      {"group_norm", layer([](const Parameters& p, Tensor x) { return group_norm(p, "l", x, 2); })},
      {"instance_norm", layer([](const Parameters& p, Tensor x) { return instance_norm(p, "l", x); })},
      {"batch_norm", layer([](const Parameters& p, Tensor x) { return batch_norm(p, "l", x); })},
      {"batch_norm_inference", layer([](const Parameters& p, Tensor x) { return batch_norm_inference(p, "l", x, 1e-3); })},
  });
}

TEST_CASE("layers: batch norm moves its averages, and optimizers leave them alone") {
  const Figures f = figures("batch_norm_training, two steps");
  const std::vector<ParameterSpec> specs = batch_norm_parameters("l", 4);
  const Shape batch{3, 2, 3, 4};
  const Program step = record("step", [&](Recorder& r) {
    const Parameters p(r, "net", specs, DType::f64);
    CHECK(p.names() == std::vector<std::string>{"net/l/scale", "net/l/offset"});
    r.output("y", batch_norm_training(r, p, "l", r.input("x", DType::f64, batch)));
  });
  const Program inference = record("inference", [&](Recorder& r) {
    const Parameters p(r, "net", specs, DType::f64);
    r.output("y", batch_norm_inference(p, "l", r.input("x", DType::f64, batch)));
  });
  for (const NamedDevice& device : all_devices()) {
    StateStore state;
    initialize(state, "net", specs, 0, DType::f64);
    CHECK(same(state.at("net/l/moving_variance"), {1, 1, 1, 1}));
    for (const auto& [name, value] : f.inputs)
      if (name != "x") state.set("net/" + name, value.clone());
    const auto executable = device.make()->compile(step);
    Array y(DType::f64, {2, 3, 2, 3, 4}), x(DType::f64, batch);
    for (int64_t n = 0; n < 2; ++n) {
      for (int64_t i = 0; i < x.size(); ++i) x.set(i, f.inputs.at("x").at(n * x.size() + i));
      const Array out = executable->run(std::vector<Array>{x}, state)[0];
      for (int64_t i = 0; i < x.size(); ++i) y.set(n * x.size() + i, out.at(i));
    }
    const Tolerance tight{1e-13, 0, 1e-13};
    CHECK(difference(y, f.outputs.at("y"), tight) == "");
    CHECK(difference(state.at("net/l/moving_mean"), f.outputs.at("moving_mean"), tight) == "");
    CHECK(difference(state.at("net/l/moving_variance"), f.outputs.at("moving_variance"), tight) == "");
    device.make()->compile(inference)->run(std::vector<Array>{x}, state);
    CHECK(difference(state.at("net/l/moving_mean"), f.outputs.at("moving_mean"), tight) == "");
  }
}

TEST_CASE("layers: activations") {
  check_layers({{"gelu", elementwise(gelu)},
                {"elu", elementwise(elu)},
                {"silu", elementwise(silu)},
                {"hard_sigmoid", elementwise(hard_sigmoid)}});
}

TEST_CASE("layers: softmax") {
  check_layers({{"softmax", along(softmax)},
                {"log_softmax", along(log_softmax)},
                {"log_sum_exp", along(log_sum_exp)},
                {"softmax, far apart", along(softmax), false},
                {"log_softmax, far apart", along(log_softmax), false}});
}

TEST_CASE("layers: a masked softmax is the softmax of what the mask leaves") {
  const Array x = any({3, 4});
  Array mask(DType::boolean, {3, 4});
  for (int64_t i = 0; i < 12; ++i) mask.set(i, i / 4 == 0 ? i != 1 : i / 4 == 2);  // but one, none, all
  const Build build = [&](const Named& in) { return Named{{"y", masked_softmax(in.at("x"), in.at("mask"), 1)}}; };
  Array expected = Array::zeros(DType::f64, {3, 4});
  for (int64_t row = 0; row < 3; ++row) {
    double total = 0;
    for (int64_t i = 4 * row; i < 4 * row + 4; ++i)
      if (mask.at(i) != 0) total += std::exp(x.at(i));
    for (int64_t i = 4 * row; i < 4 * row + 4; ++i)
      if (mask.at(i) != 0) expected.set(i, std::exp(x.at(i)) / total);
  }
  for (DType dtype : {DType::f64, DType::f32})
    reproduce("masked_softmax", {{"x", x}, {"mask", mask}}, {{"y", expected}}, build, dtype,
              [&](const std::string&) { return Tolerance{dtype == DType::f64 ? 1e-14 : 1e-6, 0, 1e-7}; });
  check_derivatives({{{"x", x}, {"mask", mask}}, {}}, build);
}

TEST_CASE("layers: a masked softmax of very negative numbers is still that of what the mask leaves") {
  for (const auto& [dtype, far] : {std::pair(DType::f16, -6.2e4), std::pair(DType::f32, -2e30)}) {
    const Program program = record("far", [&, dtype = dtype](Recorder& r) {
      const Tensor x = r.input("x", dtype, {3});
      r.output("y", masked_softmax(x, r.input("mask", DType::boolean, {3}), 0));
    });
    Array mask = Array::full(DType::boolean, {3}, 1);
    mask.set(2, 0);
    const Array y = on_reference(program, std::vector<Array>{Array::full(dtype, {3}, far), mask})[0];
    CHECK(y.at(0) == 0.5);
    CHECK(y.at(1) == 0.5);
    CHECK(y.at(2) == 0);
  }
}

TEST_CASE("losses: an i64 beyond i32 is no small number") {
  constexpr int64_t beyond = int64_t{1} << 32;
  const Program program = record("beyond", [](Recorder& r) {
    const Tensor x = r.input("x", DType::f32, {2, 3});
    r.output("loss", softmax_cross_entropy(x, r.input("labels", DType::i64, {2})));
    r.output("mean", masked_mean(x, r.input("count", DType::i64, {})));
  });
  const std::vector<Array> inputs{Array::full(DType::f32, {2, 3}, 1), Array::from<int64_t>({2}, {1, beyond + 1}),
                                  Array::scalar<int64_t>(beyond)};
  const std::vector<Array> out = on_reference(program, inputs);
  CHECK(out[0].at(0) == doctest::Approx(std::log(3.0)));
  CHECK(std::isnan(out[0].at(1)));
  CHECK(out[1].item() == 0x1p-31);  // both samples are among the first 2^32: 6 / (3 * 2^32)
}

TEST_CASE("layers: nothing in makes nothing out, or the bias") {
  const Program program = record("nothing", [](Recorder& r) {
    const Parameters p(r, "net", {{"dense/weight", {0, 2}}, {"dense/bias", {2}}, {"norm/moving_mean", {0}},
                                {"norm/moving_variance", {0}}});
    r.output("dense", dense(p, "dense", r.input("x", DType::f32, {4, 3, 0})));
    r.output("norm", batch_norm_training(r, p, "norm", r.input("z", DType::f32, {4, 0})));
  });
  CHECK(program.tape[program.outputs[0].node].shape == Shape{4, 3, 2});
  CHECK(program.tape[program.outputs[1].node].shape == Shape{4, 0});
}

TEST_CASE("losses: figures and derivatives") {
  check_layers({{"softmax_cross_entropy", loss(softmax_cross_entropy, "labels")},
                {"soft_cross_entropy", loss(soft_cross_entropy, "targets")},
                {"binary_cross_entropy", loss(binary_cross_entropy, "targets")},
                {"binary_cross_entropy, far", loss(binary_cross_entropy, "targets"), false}});
}

TEST_CASE("losses: at a logit of 0 the cross-entropy has the slope 1/2 - t and the curvature 1/4") {
  const Program p = record("kink", [](Recorder& r) {
    const Tensor x = r.input("x", DType::f64, {2}), t = r.input("t", DType::f64, {2});
    const Tensor slope = grad(sum(binary_cross_entropy(x, t)), x);
    r.output("slope", slope), r.output("curvature", grad(sum(slope), x));
  });
  for (const NamedDevice& device : all_devices()) {
    const auto out = run(p, {Array::zeros(DType::f64, {2}), Array::from<double>({2}, {0, 0.75})}, device);
    CHECK(same(out[0], {0.5, -0.25}));
    CHECK(same(out[1], {0.25, 0.25}));
  }
}

TEST_CASE("losses: a label outside of the classes gives NaN, the others what they were") {
  const Program p = record("labels", [](Recorder& r) {
    const Tensor x = r.input("x", DType::f32, {3, 2}), labels = r.input("labels", DType::i32, {3});
    r.output("y", softmax_cross_entropy(x, labels));
  });
  for (const NamedDevice& device : all_devices()) {
    const Array y = run(p, {Array::zeros(DType::f32, {3, 2}), Array::from<int32_t>({3}, {2, 1, -1})}, device)[0];
    CHECK(std::isnan(y.at(0)));
    CHECK(y.at(1) == doctest::Approx(std::log(2.0)).epsilon(1e-6));
    CHECK(std::isnan(y.at(2)));
  }
}

TEST_CASE("losses: the mean of a padded batch counts its samples alone") {
  const Build build = [](const Named& in) { return Named{{"y", masked_mean(in.at("x"), in.at("count"))}}; };
  Array x = any({5, 2});
  const double all[] = {x.at(0), x.at(1), x.at(2), x.at(3), x.at(4), x.at(5)};
  x.set(7, std::numeric_limits<double>::quiet_NaN());
  double total = 0;
  for (double v : all) total += v;
  const std::pair<int, double> rows[] = {{3, total / 6}, {1, (all[0] + all[1]) / 2}, {0, 0}};
  for (const auto& [count, expected] : rows)
    for (DType dtype : {DType::f64, DType::f32})
      reproduce("masked_mean", {{"x", x}, {"count", Array::scalar<int32_t>(count)}}, {{"y", Array::scalar<double>(expected)}},
                build, dtype, [&](const std::string&) { return Tolerance{dtype == DType::f64 ? 1e-15 : 1e-6, 1e-7, 0}; });
  check_derivatives({{{"x", any({5, 2})}, {"count", Array::scalar<int32_t>(3)}}, {}}, [&](const Named& in) {
    return build({{"x", exp(in.at("x"))}, {"count", in.at("count")}});
  });
}

TEST_CASE("losses: weight decay is half of the sum of squares") {
  const Program p = record("decay", [](Recorder& r) {
    r.output("y", l2_loss({r.input("a", DType::f64, {2}), r.input("b", DType::f64, {1, 2})}, 0.004));
    const Tensor c = r.input("c", DType::f64, {}), d = r.input("d", DType::f64, {});
    r.output("e", squared_error(c, d));
  });
  const auto out = run(p, {Array::from<double>({2}, {1, -2}), Array::from<double>({1, 2}, {3, 4}), Array::scalar(1.0),
                           Array::scalar(-2.0)});
  CHECK(out[0].item() == doctest::Approx(0.002 * 30).epsilon(1e-15));
  CHECK(out[1].item() == 9);
}

TEST_CASE("layers: what norms, softmax and losses refuse") {
  record("refused", [](Recorder& r) {
    const Tensor x = r.input("x", DType::f32, {2, 3, 4}), labels = r.input("labels", DType::i32, {3});
    const Parameters p("net", {}, {});
    CHECK_THROWS_WITH(group_norm(p, "l", x, 3), doctest::Contains("[group_norm] 4 channels of f32[2,3,4] make no 3 groups"));
    CHECK_THROWS_WITH(instance_norm(p, "l", reshape(x, {6, 4})), doctest::Contains("[instance_norm] expected [n, positions..., c]"));
    CHECK_THROWS_WITH(masked_softmax(x, x, 1), doctest::Contains("[masked_softmax] expected a bool mask"));
    CHECK_THROWS_WITH(softmax_cross_entropy(reshape(x, {6, 4}), labels),
                      doctest::Contains("[softmax_cross_entropy] expected logits [n, classes] and their labels or targets, "
                                        "got f32[6,4] and i32[3]"));
    CHECK_THROWS_WITH(masked_mean(x, x), doctest::Contains("[masked_mean]"));
    CHECK_THROWS_WITH(l2_loss({}, 1), doctest::Contains("[l2_loss]"));
  });
}
