// doublebackward.json: first to third order gradients that another engine computed. A case is a row: its name and how
// to record what it gives.
#include <algorithm>
#include <numbers>
#include <set>

#include "tests/autodiff/golden.hpp"

using namespace backbeat;
using namespace backbeat::test;

namespace {

struct Case {
  std::string name;
  Json attributes;
  Arrays inputs, outputs;
  double relative = 0, absolute = 0;
};

Arrays arrays(const Json& json) {
  Arrays result;
  for (const auto& [name, entry] : json.items()) {
    Array a(entry.at("dtype") == "int64" ? DType::i64 : DType::f64,
            Shape(entry.at("shape").get<std::vector<int64_t>>()));
    for (int64_t i = 0; i < a.size(); ++i) a.set(i, number(entry.at("data").at(static_cast<size_t>(i))));
    result[name] = a;
  }
  return result;
}

const std::vector<Case>& all_cases() {
  static const std::vector<Case> cases = [] {
    std::vector<Case> result;
    const Json file = read_data("doublebackward.json");
    for (const Json& c : file.at("cases"))
      result.push_back(
          {c.at("name"), c.at("attrs"), arrays(c.at("inputs")), arrays(c.at("outputs")), c.at("rtol"), c.at("atol")});
    return result;
  }();
  return cases;
}

std::set<std::string>& compared() {
  static std::set<std::string> names;
  return names;
}

// Every case whose name starts with `prefix`: there must be `count` of them.
void golden(const std::string& prefix, int count, const std::function<Named(const Case&, const Named&)>& build) {
  int found = 0;
  for (const Case& c : all_cases()) {
    if (c.name.rfind(prefix, 0) != 0) continue;
    ++found;
    compared().insert(c.name);
    for (DType dtype : {DType::f64, DType::f32}) {
      const Tolerance tolerance = dtype == DType::f64 ? Tolerance{c.relative, c.absolute, 0} : Tolerance{0, 0, 1e-4};
      reproduce(
          c.name, c.inputs, c.outputs, [&](const Named& in) { return build(c, in); }, dtype,
          [&](const std::string&) { return tolerance; });
    }
  }
  CHECK(found == count);
}

// d y / d x under the name PREFIX + x, for every input but those left out; zeros where y does not depend on x.
void add_grads(Named& out, const std::string& prefix, Tensor y, const Named& inputs,
               const std::vector<std::string>& names) {
  std::vector<Tensor> xs;
  for (const std::string& name : names) xs.push_back(inputs.at(name));
  const auto grads = grad(y, xs, {.cotangent = {}, .unused = Unused::zeros});
  for (size_t i = 0; i < names.size(); ++i) out[prefix + names[i]] = grads[i];
}

std::vector<std::string> names_of(const Named& inputs) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : inputs) names.push_back(name);
  return names;
}

Tensor inner(Tensor a, Tensor b) { return sum(a * b); }

Tensor activation(const std::string& name, Tensor x) {
  if (name == "tanh") return tanh(x);
  if (name == "relu") return relu(x);
  REQUIRE(name == "leaky_relu_0.2");
  return leaky_relu(x, 0.2);
}

// Over every axis but the first, or over the last `axes` ones.
Tensor normalized(Tensor x, double eps, const Dims& axes) {
  Shape kept = x.shape();
  for (int64_t axis : axes) kept[axis] = 1;
  Tensor centred = x - reshape(mean(x, axes), kept);
  return centred * rsqrt(reshape(mean(square(centred), axes), kept) + eps);
}

// Layers W0 b0, W1 b1, ... under a prefix; with gains g0 ... and shifts be0 ... a layer norm stands before the
// activation.
Tensor multilayer(const Named& in, const std::string& prefix, Tensor x, const std::function<Tensor(Tensor)>& curve,
                  double ln_eps) {
  for (int i = 0; in.count(concat(prefix, 'W', i)); ++i) {
    x = matmul(x, in.at(concat(prefix, 'W', i))) + in.at(concat(prefix, 'b', i));
    if (!in.count(concat(prefix, 'W', i + 1))) break;
    if (in.count(concat('g', i))) x = normalized(x, ln_eps, {1}) * in.at(concat('g', i)) + in.at(concat("be", i));
    x = curve(x);
  }
  return x;
}

Tensor penalty_of(const std::string& kind, Tensor norms) {
  if (kind == "r1") return 0.5 * mean(square(norms));
  if (kind == "one_sided") return mean(square(relu(norms - 1.0)));
  REQUIRE(kind == "two_sided");
  return mean(square(norms - 1.0));
}

Named penalized(const Case& c, const Named& in, Tensor critic) {
  REQUIRE(c.attributes.at("eps_inside_sqrt") == 0.0);
  Named out{{"critic", critic}};
  Tensor slope = grad(sum(critic), in.at("x"));
  Tensor norms = norm(flatten(slope), {1});
  Tensor penalty = penalty_of(c.attributes.at("kind"), norms);
  out["input_grad"] = slope, out["grad_norm"] = norms, out["penalty"] = penalty;
  add_grads(out, "d_penalty/d_", penalty, in, names_of(in));
  return out;
}

WindowDims pooling(Reduction kind, int64_t size) {
  return {kind, {1, 1, size, size}, {1, 1, size, size}, {0, 0, 0, 0}, {0, 0, 0, 0}, {1, 1, 1, 1}, {1, 1, 1, 1}};
}

ConvDims square_window(int64_t stride, int64_t padding, int64_t dilation = 1, int64_t groups = 1) {
  ConvDims d;
  d.strides = {stride, stride}, d.kernel_dilation = {dilation, dilation}, d.feature_groups = groups;
  d.pad_low = d.pad_high = {padding, padding};
  return d;
}

Tensor with_bias(Tensor images, Tensor bias) { return images + reshape(bias, {1, bias.dim(0), 1, 1}); }

// s = <gx,vx> + <gK,vK> + <gb,vb>, with the g the cotangents of x, K, b for gy; and the gradients of s.
Named doubly_differentiated(const Named& in, Tensor y) {
  Named out{{"y", y}};
  const auto grads =
      grad(y, std::vector{in.at("x"), in.at("K"), in.at("b")}, {.cotangent = in.at("gy"), .unused = Unused::error});
  out["gx"] = grads[0], out["gK"] = grads[1], out["gb"] = grads[2];
  Tensor s = inner(grads[0], in.at("vx")) + inner(grads[1], in.at("vK")) + inner(grads[2], in.at("vb"));
  out["s"] = s;
  add_grads(out, "ds/d", s, in, {"x", "K", "gy"});
  return out;
}

// s1 = sum(w * y), s2 = <v, grad s1>, s3 = <q, grad s2>, and the gradients of each.
Named to_third_order(const Named& in, Tensor y) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : in)
    if (in.count("v_" + name)) names.push_back(name);
  Named out{{"y", y}};
  Tensor s = inner(y, in.at("w"));
  for (int k = 1; k <= 3; ++k) {
    out[concat('s', k)] = s;
    add_grads(out, concat("ds", k, "/d_"), s, in, names);
    if (k == 3) break;
    Tensor next;
    for (const std::string& name : names) {
      Tensor part = inner(out.at(concat("ds", k, "/d_", name)), in.at((k == 1 ? "v_" : "q_") + name));
      next = next.defined() ? next + part : part;
    }
    s = next;
  }
  return out;
}

// The derivatives of an elementwise function: NAME.d0, NAME.d1, ...
void add_derivatives(Named& out, const std::string& name, Tensor x, const std::function<Tensor(Tensor)>& f, int order) {
  Tensor y = f(x);
  for (int k = 0; k <= order; ++k) {
    out[concat(name, ".d", k)] = y;
    y = grad(sum(y), x, {.cotangent = {}, .unused = Unused::zeros});
  }
}

// Element i of a vector.
Tensor element(Tensor x, int64_t i) { return reshape(slice(x, {i}, {i + 1}, {1}), {}); }

Tensor softmax(Tensor x) {
  Tensor e = exp(x - reshape(reduce(x, Reduction::max, {1}), {x.dim(0), 1}));
  return e / reshape(reduce_sum(e, {1}), {x.dim(0), 1});
}

// At 0 the identity's side: its second derivative there is 0.
Tensor elu(Operand x) { return select(compare(x, zeros_like(x), Direction::ge), x, exp(x) - 1.0); }

}  // namespace

TEST_SUITE_BEGIN("golden double backward");

TEST_CASE("gp_mlp: a gradient penalty through a multilayer critic") {
  golden("gp_mlp_", 5, [](const Case& c, const Named& in) {
    const auto curve = [&](Tensor x) { return activation(c.attributes.at("act"), x); };
    return penalized(c, in, multilayer(in, "", in.at("x"), curve, c.attributes.value("ln_eps", 0.0)));
  });
}

TEST_CASE("gp_conv: a gradient penalty through a convolutional critic") {
  golden("gp_conv_", 2, [](const Case& c, const Named& in) {
    const ConvDims window = square_window(c.attributes.at("stride"), c.attributes.at("padding"));
    REQUIRE(c.attributes.at("layernorm") == false);
    const auto curve = [&](Tensor x) { return activation(c.attributes.at("act"), x); };
    Tensor h = curve(with_bias(convolution(in.at("x"), in.at("K0"), window), in.at("b0")));
    h = curve(with_bias(convolution(h, in.at("K1"), window), in.at("b1")));
    return penalized(c, in, matmul(flatten(h), in.at("W")) + in.at("c"));
  });
}

TEST_CASE("wgan_gp_full_step: both losses and the gradients of both networks") {
  golden("wgan_gp_full_step", 1, [](const Case& c, const Named& in) {
    const auto critic = [&](Tensor x) {
      return multilayer(
          in, "D.", x, [](Tensor h) { return leaky_relu(h, 0.2); }, 0);
    };
    Tensor generated = multilayer(in, "G.", in.at("z"), relu, 0), fake = stop_gradient(generated);
    Tensor wasserstein = mean(critic(fake)) - mean(critic(in.at("real")));
    Tensor mixed = in.at("u") * in.at("real") + (1.0 - in.at("u")) * fake;
    Tensor penalty = penalty_of("two_sided", norm(grad(sum(critic(mixed)), mixed), {1}));
    Tensor critic_loss = wasserstein + c.attributes.at("lambda").get<double>() * penalty;
    Tensor generator_loss = -mean(critic(generated));
    Named out{{"wasserstein", wasserstein},
              {"penalty", penalty},
              {"critic_loss", critic_loss},
              {"generator_loss", generator_loss}};
    for (const std::string& name : names_of(in)) {
      if (name[0] == 'D') add_grads(out, "d_critic/d_", critic_loss, in, {name});
      if (name[0] == 'G') add_grads(out, "d_generator/d_", generator_loss, in, {name});
    }
    return out;
  });
}

TEST_CASE("conv2d_dd: twice through a convolution") {
  golden("conv2d_dd_", 5, [](const Case& c, const Named& in) {
    const Json& a = c.attributes;
    const ConvDims window = square_window(a.at("stride"), a.at("padding"), a.at("dilation"), a.at("groups"));
    return doubly_differentiated(in, with_bias(convolution(in.at("x"), in.at("K"), window), in.at("b")));
  });
}

TEST_CASE("conv_transpose2d_dd: twice through a transposed convolution") {
  golden("conv_transpose2d_dd_", 2, [](const Case& c, const Named& in) {
    REQUIRE(c.attributes.at("output_padding") == 0);
    const int64_t stride = c.attributes.at("stride"),
                  padding = in.at("K").dim(2) - 1 - c.attributes.at("padding").get<int64_t>();
    ConvDims d = square_window(1, padding);
    d.lhs_dilation = {stride, stride};
    d.kernel = {1, 0, {2, 3}};  // IOHW, mirrored
    return doubly_differentiated(in, with_bias(convolution(in.at("x"), reverse(in.at("K"), {2, 3}), d), in.at("b")));
  });
}

TEST_CASE("gp_zero_norm_linear_critic: the norm's subgradient, eps inside the root, and the raw root's NaN") {
  golden("gp_zero_norm_linear_critic", 1, [](const Case&, const Named& in) {
    Named out;
    const auto add = [&](const std::string& name, const std::function<Tensor(Tensor)>& norms) {
      Tensor slope = grad(sum(matmul(in.at("x"), in.at("W"))), in.at("x"));
      Tensor penalty = mean(square(norms(slope) - 1.0));
      out[name + ".penalty"] = penalty;
      add_grads(out, name + ".d_penalty/d_", penalty, in, {"W"});
    };
    add("vector_norm", [](Tensor g) { return norm(g, {1}); });
    add("eps_1e-12", [](Tensor g) { return sqrt(reduce_sum(square(g), {1}) + 1e-12); });
    add("raw_sqrt", [](Tensor g) { return sqrt(reduce_sum(square(g), {1})); });
    return out;
  });
}

TEST_CASE("l2_norm_zero_and_hessian") {
  golden("l2_norm_zero_and_hessian", 1, [](const Case&, const Named& in) {
    Tensor v = in.at("v"), g = grad(norm(v, {0}), v);
    return Named{{"norm.d1_at_zero", grad(norm(in.at("zero"), {0}), in.at("zero"))},
                 {"norm.d1_at_304", g},
                 {"norm.hessian_at_304", jacobian(g, v)}};
  });
}

TEST_CASE("gp_one_dead_sample_relu: a zero gradient does not poison the other rows") {
  golden("gp_one_dead_sample_relu", 1, [](const Case&, const Named& in) {
    Tensor x = in.at("x");
    Tensor slope = grad(sum(matmul(relu(matmul(x, in.at("W1")) + in.at("b1")), in.at("W2"))), x);
    Tensor norms = norm(slope, {1}), penalty = penalty_of("two_sided", norms);
    Named out{{"input_grad", slope}, {"grad_norm", norms}, {"penalty", penalty}};
    add_grads(out, "d_penalty/d_", penalty, in, {"W1", "b1", "W2"});
    return out;
  });
}

TEST_CASE("rosenbrock_third_order: all mixed partial derivatives") {
  golden("rosenbrock_third_order", 1, [](const Case&, const Named& in) {
    Tensor x = in.at("x"), a = element(x, 0), b = element(x, 1);
    Tensor f = 100.0 * square(b - square(a)) + square(1.0 - a), g = grad(f, x), h = hessian(f, x);
    return Named{{"f", f}, {"grad", g}, {"hessian", h}, {"third", jacobian(h, x)}};
  });
}

TEST_CASE("elementwise_to_third_order") {
  golden("elementwise_to_third_order", 1,
         [](const Case&, const Named& in) {
           Named out;
           using F = Tensor (*)(Operand);
           const std::map<std::string, F> functions{{"tanh", F(tanh)},
                                                    {"sigmoid", logistic},
                                                    {"softplus", softplus},
                                                    {"exp", F(exp)},
                                                    {"log", F(log)},
                                                    {"sqrt", F(sqrt)},
                                                    {"rsqrt", rsqrt},
                                                    {"square", square},
                                                    {"sin", sine},
                                                    {"cos", cosine},
                                                    {"relu", relu},
                                                    {"abs", [](Operand x) { return abs(x); }},
                                                    {"reciprocal", [](Operand x) { return 1.0 / x; }},
                                                    {"cube", [](Operand x) { return x * x * x; }},
                                                    {"pow_2.5", [](Operand x) { return power(x, scalar_like(x, 2.5)); }},
                                                    {"leaky_relu_0.2", [](Operand x) { return leaky_relu(x, 0.2); }},
                                                    {"elu", elu},
                                                    {"silu", [](Operand x) { return x * logistic(x); }},
                                                    {"logsigmoid", [](Operand x) { return -softplus(-x); }},
                                                    {"gelu_erf", [](Operand x) { return x * 0.5 * (1.0 + erf(x * std::numbers::sqrt2 * 0.5)); }},
                                                    {"erf", erf},
                                                    {"log1p", log1p}};
           for (const auto& [name, f] : functions) add_derivatives(out, name, in.at(name), f, 3);
           return out;
         });
}

TEST_CASE("kinks_at_zero") {
  golden("kinks_at_zero_torch_convention", 1,
         [](const Case&, const Named& in) {
           Named out;
           Tensor x = in.at("x");
           add_derivatives(out, "relu", x, relu, 2);
           add_derivatives(
               out, "leaky_relu_0.2", x, [](Tensor t) { return leaky_relu(t, 0.2); }, 2);
           add_derivatives(
               out, "abs", x, [](Tensor t) { return abs(t); }, 2);
           add_derivatives(out, "square", x, square, 2);
           add_derivatives(
               out, "cube", x, [](Tensor t) { return power(t, scalar_like(t, 3)); }, 2);
           add_derivatives(
               out, "pow_1", x, [](Tensor t) { return power(t, scalar_like(t, 1)); }, 2);
           add_derivatives(out, "elu", x, elu, 2);
           add_derivatives(out, "softplus", x, softplus, 2);
           add_derivatives(
               out, "clamp_0_1", x, [](Tensor t) { return clamp(0, t, 1); }, 2);
           return out;
         });
}

TEST_CASE("power_all_orders") {
  golden("power_all_orders", 1, [](const Case&, const Named& in) {
    Tensor x = in.at("x"), y = power(x, scalar_like(x, 5));
    std::vector<Tensor> derivatives;
    for (int k = 0; k <= 6; ++k) {
      derivatives.push_back(reshape(y, {1}));
      y = grad(y, x, {.cotangent = {}, .unused = Unused::zeros});
    }
    return Named{{"derivatives", concatenate(derivatives, 0)}};
  });
}

TEST_CASE("max ties: reduce shares its cotangent equally, argmax and windows take the first") {
  golden("max_ties_torch_convention", 1, [](const Case&, const Named& in) {
    Tensor x = in.at("x"), image = in.at("x_pool");
    return Named{{"amax.d1", grad(sum(reduce(x, Reduction::max, {1})), x)},
                 {"max_dim.d1", grad(sum(take(x, argmax(x, 1), 1)), x)},
                 {"max_pool2d.d1", grad(sum(reduce_window(image, pooling(Reduction::max, 2))), image)}};
  });
}

TEST_CASE("third order: matmul") {
  golden("matmul_third_order", 1,
         [](const Case&, const Named& in) { return to_third_order(in, tanh(matmul(in.at("A"), in.at("B")))); });
}
TEST_CASE("third order: layer norm") {
  golden("layernorm_third_order", 1, [](const Case& c, const Named& in) {
    return to_third_order(in, normalized(in.at("x"), c.attributes.at("eps"), {1}) * in.at("gamma") + in.at("beta"));
  });
}
TEST_CASE("third order: softmax") {
  golden("softmax_last_axis", 1, [](const Case&, const Named& in) { return to_third_order(in, softmax(in.at("x"))); });
}
TEST_CASE("third order: mean, variance, standard deviation") {
  golden("reduce_mean_var_std", 1, [](const Case&, const Named& in) {
    Tensor x = in.at("x"), m = mean(x, {0});
    return to_third_order(in, m * sqrt(mean(square(x - m), {0}) + 0.1));
  });
}
TEST_CASE("third order: slice, pad, concatenate, transpose, reshape") {
  golden("slice_pad_concat_transpose_reshape", 1, [](const Case&, const Named& in) {
    Tensor x = in.at("x");
    Tensor joined = concatenate({slice(x, {0, 1}, {2, 3}, {1, 1}), pad(x, {{0, 1}, {0, 1}, {0, 0}})}, 1);
    Tensor weights = iota(x.tape(), x.dtype(), {14}, 0) + 1.0;
    return to_third_order(in, sine(reshape(transpose(joined, {1, 0}), {14})) * weights);
  });
}
TEST_CASE("third order: max and average pooling") {
  golden("max_pool2d_no_ties", 1, [](const Case&, const Named& in) {
    return to_third_order(in, tanh(reduce_window(in.at("x"), pooling(Reduction::max, 2))));
  });
  golden("avg_pool2d", 1, [](const Case&, const Named& in) {
    return to_third_order(in, tanh(reduce_window(in.at("x"), pooling(Reduction::sum, 2)) * 0.25));
  });
}
TEST_CASE("third order: an embedding with a repeated index") {
  golden("embedding_repeated_index", 1, [](const Case& c, const Named& in) {
    const auto index = c.attributes.at("idx").get<std::vector<int64_t>>();
    Tensor rows = take(in.at("E"), constant(in.at("E").tape(), Array::from<int64_t>({4}, index)), 0);
    return to_third_order(in, tanh(matmul(rows, in.at("M"))));
  });
}
TEST_CASE("third order: the error unit of PredNet") {
  golden("prednet_error_unit", 1, [](const Case&, const Named& in) {
    Tensor error = concatenate({relu(in.at("p") - in.at("t")), relu(in.at("t") - in.at("p"))}, 1);
    return to_third_order(in, error * error);
  });
}
TEST_CASE("third order: binary cross entropy with logits") {
  golden("bce_with_logits", 1, [](const Case& c, const Named& in) {
    Tensor x = in.at("x");
    const auto target = c.attributes.at("target").get<std::vector<double>>();
    Tensor t = constant(x.tape(), Array::from<double>({1, 3}, target).converted(x.dtype()));
    return to_third_order(in, softplus(x) - x * t);
  });
}
TEST_CASE("third order: two steps of a ConvLSTM") {
  golden("convlstm_two_steps", 1, [](const Case& c, const Named& in) {
    const ConvDims window = square_window(1, c.attributes.at("padding"));
    Tensor h = in.at("h0"), cell = in.at("c0");
    for (const char* x : {"x1", "x2"}) {
      Tensor gates =
          with_bias(convolution(in.at(x), in.at("Wx"), window) + convolution(h, in.at("Wh"), window), in.at("b"));
      const auto gate = [&](int64_t i) { return slice(gates, {0, 2 * i, 0, 0}, {1, 2 * i + 2, 3, 3}, {1, 1, 1, 1}); };
      cell = logistic(gate(1)) * cell + logistic(gate(0)) * tanh(gate(3));
      h = logistic(gate(2)) * tanh(cell);
    }
    return to_third_order(in, concatenate({h, cell}, 1));
  });
}

TEST_CASE("rounding to bf16, and a product of what was rounded") {
  golden("bf16_round_to_nearest_even", 1, [](const Case&, const Named& in) {
    return Named{{"y", convert(convert(in.at("x"), DType::bf16), in.at("x").dtype())}};
  });
  golden("bf16_matmul_exact_accumulate", 1, [](const Case&, const Named& in) {
    const auto rounded = [&](const char* name) { return convert(convert(in.at(name), DType::bf16), in.at(name).dtype()); };
    return Named{{"C", matmul(rounded("A"), rounded("B"))}};
  });
}

TEST_CASE("softmax_ce_hessian") {
  golden("softmax_ce_hessian", 1, [](const Case&, const Named& in) {
    Tensor x = in.at("x");
    Tensor classes = iota(x.tape(), DType::i64, {2, 4}, 1);
    Tensor chosen = convert(compare(classes, reshape(in.at("target"), {2, 1}), Direction::eq), x.dtype());
    Tensor loss = -mean(reduce_sum(log(softmax(x)) * chosen, {1}));
    Tensor g = grad(loss, x), hv = grad(inner(g, in.at("v")), x);
    return Named{{"loss", loss},
                 {"grad", g},
                 {"hessian", reshape(hessian(loss, x), {8, 8})},
                 {"hv", hv},
                 {"d(v'Hv)", grad(inner(hv, in.at("v")), x)}};
  });
}

TEST_CASE("gp_batchnorm_coupling: the gradient of the sum is not the per-sample one") {
  golden("gp_batchnorm_coupling", 1, [](const Case& c, const Named& in) {
    Tensor x = in.at("x");
    Tensor d = matmul(tanh(normalized(matmul(x, in.at("W1")), c.attributes.at("eps"), {0})), in.at("W2"));
    Tensor slope = grad(sum(d), x), penalty = penalty_of("two_sided", norm(slope, {1}));
    std::vector<Tensor> diagonal;
    for (int64_t i = 0; i < 4; ++i)
      diagonal.push_back(slice(grad(element(reshape(d, {4}), i), x), {i, 0}, {i + 1, 2}, {1, 1}));
    Named out{{"input_grad_of_sum", slope}, {"per_sample_diagonal", concatenate(diagonal, 0)}, {"penalty", penalty}};
    add_grads(out, "d_penalty/d_", penalty, in, {"W1", "W2"});
    return out;
  });
}

TEST_CASE("maml_one_inner_step: a gradient through a gradient step, whole and first-order") {
  golden("maml_one_inner_step", 1, [](const Case& c, const Named& in) {
    Tensor w = in.at("W");
    const auto loss = [&](Tensor weights, const char* set) {
      return mean(square(tanh(matmul(in.at(concat('x', set)), weights)) - in.at(concat('y', set))));
    };
    Tensor inner_gradient = grad(loss(w, "t"), w);
    const double rate = c.attributes.at("lr");
    Tensor outer = loss(w - rate * inner_gradient, "v");
    return Named{{"outer_loss", outer},
                 {"d_full", grad(outer, w)},
                 {"d_first_order", grad(loss(w - rate * stop_gradient(inner_gradient), "v"), w)}};
  });
}

TEST_CASE("gp_two_towers_equal_one") {
  golden("gp_two_towers_equal_one", 1, [](const Case&, const Named& in) {
    Named out;
    const auto add = [&](const std::string& prefix, Tensor x) {
      Tensor d = multilayer(
          in, "", x, [](Tensor h) { return leaky_relu(h, 0.2); }, 0);
      Tensor penalty = penalty_of("two_sided", norm(grad(sum(d), x), {1}));
      add_grads(out, prefix, penalty, in, {"W0", "W1", "b0", "b1"});
      return penalty;
    };
    out["penalty"] = add("full_", in.at("x"));
    add("tower0_", slice(in.at("x"), {0, 0}, {3, 3}, {1, 1}));
    add("tower1_", slice(in.at("x"), {3, 0}, {6, 3}, {1, 1}));
    return out;
  });
}

TEST_CASE("no case of the file is left out") {
  CHECK(all_cases().size() == 40);
  CHECK(compared().size() == 40);
}

TEST_SUITE_END();
