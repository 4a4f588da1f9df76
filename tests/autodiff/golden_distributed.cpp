// distributed.json, what one device can compute of it: the critic over the whole batch, the penalties that are wrong,
// the norm of a zero gradient, and five steps of two optimizers.
#include <algorithm>
#include <array>

#include "tests/autodiff/golden.hpp"

using namespace backbeat;
using namespace backbeat::test;

namespace {

const Json& file() {
  static const Json json = read_data("distributed.json");
  return json;
}
const Json& wgan() { return file().at("wgan_gp"); }
const Json& leaky() { return wgan().at("leaky_relu"); }

// Numbers, vectors and matrices as nested lists.
Array array(const Json& json) {
  Shape shape;
  for (const Json* level = &json; level->is_array(); level = &level->at(0))
    shape.push_back(static_cast<int64_t>(level->size()));
  std::vector<double> values;
  const std::function<void(const Json&)> collect = [&](const Json& j) {
    if (!j.is_array())
      values.push_back(number(j));
    else
      for (const Json& part : j) collect(part);
  };
  collect(json);
  return Array::from<double>(shape, values);
}

const std::vector<std::string> parameter_names{"W1", "W2", "W3", "b1", "b2", "b3"};

Arrays inputs() {
  Arrays result{
      {"real", array(wgan().at("real"))}, {"fake", array(wgan().at("fake"))}, {"eps", array(wgan().at("eps"))}};
  for (const std::string& name : parameter_names) result[name] = array(wgan().at("params").at(name));
  return result;
}

// x [n, 2] -> [n]; a layer is x W^T + b.
Tensor critic(const Named& in, Tensor x) {
  for (int i = 1; i <= 3; ++i) {
    x = dot_general(x, in.at(concat('W', i)), {{}, {}, {1}, {1}}) + in.at(concat('b', i));
    if (i < 3) x = leaky_relu(x, 0.2);
  }
  return reshape(x, {x.dim(0)});
}

Tensor mixed(const Named& in) {
  Tensor eps = reshape(in.at("eps"), {in.at("eps").dim(0), 1});
  return eps * in.at("real") + (1.0 - eps) * in.at("fake");
}

Tensor wasserstein(const Named& in) { return mean(critic(in, in.at("fake"))) - mean(critic(in, in.at("real"))); }

Tensor input_gradients(const Named& in) {
  Tensor x = mixed(in);
  return grad(sum(critic(in, x)), x);
}

Tensor two_sided(Tensor slopes) { return mean(square(norm(slopes, {1}) - 1.0)); }
double lambda() { return wgan().at("lambda"); }

std::vector<Tensor> parameter_grads(const Named& in, Tensor y) {
  std::vector<Tensor> parameters;
  for (const std::string& name : parameter_names) parameters.push_back(in.at(name));
  return grad(y, parameters, {.cotangent = {}, .unused = Unused::zeros});
}

// The schema of the file: relative 1e-12 for values and 1e-11 for gradients. An element of an array that nearly cancels
// is as good as the array's largest.
Tolerance tolerance(DType dtype, bool gradient) {
  return {0, 0, dtype == DType::f32 ? 1e-4 : gradient ? 1e-11 : 1e-12};
}

void reproduce_in_both(const std::string& name, const Arrays& in, const Arrays& expected, const Build& build) {
  for (DType dtype : {DType::f64, DType::f32})
    reproduce(name, in, expected, build, dtype,
              [&](const std::string& output) { return tolerance(dtype, output.rfind("grad", 0) == 0); });
}

}  // namespace

TEST_SUITE_BEGIN("golden distributed");

TEST_CASE("the critic over the whole batch") {
  const Json& global = leaky().at("global");
  Arrays expected;
  for (const char* name :
       {"critic_real", "critic_fake", "interp", "grad_norms", "wasserstein", "penalty", "lambda_times_penalty", "loss"})
    expected[name] = array(global.at(name));
  expected["gradient of the input"] = array(global.at("input_grads"));
  for (const char* group : {"grads", "grads_wasserstein", "grads_lambda_penalty"})
    for (const std::string& name : parameter_names)
      expected[concat(group, '/', name)] = array(global.at(group).at(name));

  reproduce_in_both("global", inputs(), expected, [](const Named& in) {
    Tensor slopes = input_gradients(in), w = wasserstein(in), penalty = two_sided(slopes),
           weighted = lambda() * penalty, loss = w + weighted;
    Named out{{"critic_real", critic(in, in.at("real"))},
              {"critic_fake", critic(in, in.at("fake"))},
              {"interp", mixed(in)},
              {"grad_norms", norm(slopes, {1})},
              {"wasserstein", w},
              {"penalty", penalty},
              {"lambda_times_penalty", weighted},
              {"loss", loss},
              {"gradient of the input", slopes}};
    for (const auto& [group, y] :
         Named{{"grads", loss}, {"grads_wasserstein", w}, {"grads_lambda_penalty", weighted}}) {
      const auto grads = parameter_grads(in, y);
      for (size_t i = 0; i < grads.size(); ++i) out[concat(group, '/', parameter_names[i])] = grads[i];
    }
    return out;
  });
}

TEST_CASE("with leaky_relu the penalty's gradient of every bias is exactly zero") {
  for (const auto& [name, value] : file().at("checks").at("penalty_bias_grads_exactly_zero_with_leaky_relu").items())
    CHECK(value == 0.0);
  Arrays zeros;
  for (const char* name : {"b1", "b2", "b3"}) zeros[name] = Array::zeros(DType::f64, inputs().at(name).shape());
  reproduce_in_both("bias", inputs(), zeros, [](const Named& in) {
    const auto grads = parameter_grads(in, two_sided(input_gradients(in)));
    return Named{{"b1", grads[3]}, {"b2", grads[4]}, {"b3", grads[5]}};
  });
}

TEST_CASE("six penalties that are wrong, and how wrong") {
  using Penalty = std::function<Tensor(Tensor)>;  // of the input gradients [n, 2]
  const std::map<std::string, Penalty> penalties{
      {"square_of_mean_norm_minus_1", [](Tensor g) { return square(mean(norm(g, {1})) - 1.0); }},
      {"norm_of_batch_mean_gradient", [](Tensor g) { return square(norm(mean(g, {0}), {0}) - 1.0); }},
      {"norm_over_whole_batch",
       [](Tensor g) {
         return square(norm(g, {0, 1}) - 1.0);
       }},
      {"elementwise_no_norm", [](Tensor g) { return mean(square(abs(g) - 1.0)); }},
      {"sum_over_batch", [](Tensor g) { return sum(square(norm(g, {1}) - 1.0)); }},
      {"one_sided", [](Tensor g) { return mean(square(relu(norm(g, {1}) - 1.0))); }}};
  const Json& wrong = leaky().at("d_wrong_penalties_global");
  CHECK(wrong.size() == penalties.size());
  for (const auto& [name, penalty] : penalties) {
    const Json& json = wrong.at(name);
    Arrays expected{{"penalty", array(json.at("penalty"))},
                    {"loss", array(json.at("loss"))},
                    {"grad_rel_error_vs_global", array(json.at("grad_rel_error_vs_global"))}};
    if (json.contains("grads"))
      for (const std::string& parameter : parameter_names)
        expected["grads/" + parameter] = array(json.at("grads").at(parameter));
    reproduce_in_both(name, inputs(), expected, [&, penalty = penalty](const Named& in) {
      Tensor slopes = input_gradients(in), w = wasserstein(in), p = penalty(slopes), loss = w + lambda() * p;
      Named out{{"penalty", p}, {"loss", loss}};
      const auto grads = parameter_grads(in, loss), right = parameter_grads(in, w + lambda() * two_sided(slopes));
      Tensor off = zeros_like(loss), size = zeros_like(loss);
      for (size_t i = 0; i < grads.size(); ++i) {
        out["grads/" + parameter_names[i]] = grads[i];
        off = off + sum(square(grads[i] - right[i])), size = size + sum(square(right[i]));
      }
      out["grad_rel_error_vs_global"] = sqrt(off / size);
      return out;
    });
  }
}

TEST_CASE("mean of squares = square of mean + variance") {
  const Json& json = leaky().at("d_identity_mean_sq_equals_sq_mean_plus_variance");
  const Arrays expected{{"mean_of_per_sample", array(json.at("mean_of_per_sample"))},
                        {"square_of_mean", array(json.at("square_of_mean"))},
                        {"population_variance_of_norms", array(json.at("population_variance_of_norms"))}};
  reproduce_in_both("identity", inputs(), expected, [](const Named& in) {
    Tensor norms = norm(input_gradients(in), {1}), m = mean(norms);
    return Named{{"mean_of_per_sample", mean(square(norms - 1.0))},
                 {"square_of_mean", square(m - 1.0)},
                 {"population_variance_of_norms", mean(square(norms - m))}};
  });
}

TEST_CASE("zero_norm: a critic of zeros") {
  Arrays in = inputs();
  for (const std::string& name : parameter_names) in[name] = Array::zeros(DType::f64, in[name].shape());
  for (const Json& row : file().at("zero_norm").at("rows")) {
    const double eps = row.at("eps_inside_sqrt");
    const bool nan = row.at("grad_is_nan");
    const Program program = record("zero_norm", [&](Recorder& r) {
      Named named;
      for (const auto& [name, value] : in) named[name] = r.input(name, DType::f64, value.shape());
      Tensor squares = reduce_sum(square(input_gradients(named)), {1});
      Tensor penalty = mean(square((eps == 0 ? sqrt(squares) : sqrt(squares + eps)) - 1.0));
      r.output("penalty", penalty);
      for (Tensor g : parameter_grads(named, penalty)) r.output("g", g);
    });
    std::vector<Array> values;
    for (const auto& [name, value] : in) values.push_back(value);
    for (const NamedDevice& device : all_devices()) {
      INFO("eps ", eps, " on ", std::string(device.name));
      const auto out = run(program, values, device);
      CHECK(out[0].item() == doctest::Approx(row.at("penalty").get<double>()).epsilon(1e-12));
      bool any_nan = false;
      for (size_t i = 1; i < out.size(); ++i)
        for (int64_t k = 0; k < out[i].size(); ++k) any_nan = any_nan || std::isnan(out[i].at(k));
      CHECK(any_nan == nan);
    }
  }
  // The safe rule of the file: penalty 1, parameter gradients 0.
  Arrays safe{{"penalty", Array::scalar(1.0)}};
  for (const std::string& name : parameter_names) safe[name] = in[name];
  reproduce_in_both("safe norm", in, safe, [](const Named& named) {
    Named out{{"penalty", two_sided(input_gradients(named))}};
    const auto grads = parameter_grads(named, out["penalty"]);
    for (size_t i = 0; i < grads.size(); ++i) out[parameter_names[i]] = grads[i];
    return out;
  });
}

namespace {

// The new value of a parameter from its gradient, recorded; slots are state that starts as zeros.
using Update = std::function<Tensor(Recorder& r, const std::string& name, Tensor weight, Tensor gradient, Tensor step)>;

void five_steps(const std::string& name, const Update& update) {
  const Json& expected = file().at("optimizer_5_steps_R4").at(name).at("mean");
  for (DType dtype : {DType::f64, DType::f32}) {
    Arrays start = inputs();
    for (auto& [key, value] : start) value = value.converted(dtype);
    const auto record_step = [&](bool updates) {
      return record("step", [&](Recorder& r) {
        Named in;
        for (const auto& [key, value] : start) {
          const bool parameter = key[0] == 'W' || key[0] == 'b';
          in[key] = parameter ? r.state(key, dtype, value.shape()) : r.input(key, dtype, value.shape());
        }
        Tensor penalty = two_sided(input_gradients(in)), loss = wasserstein(in) + lambda() * penalty;
        r.output("loss", loss), r.output("penalty", penalty);
        if (!updates) return;
        const auto grads = parameter_grads(in, loss);
        Tensor step = r.state("step", dtype, {}) + 1.0;
        r.update("step", step);
        for (size_t i = 0; i < grads.size(); ++i)
          r.update(parameter_names[i], update(r, parameter_names[i], in.at(parameter_names[i]), grads[i], step));
      });
    };
    const Program training = record_step(true), measuring = record_step(false);
    for (const NamedDevice& device : all_devices()) {
      INFO(name, " in ", std::string(name_of(dtype)), " on ", std::string(device.name));
      StateStore state;
      for (const Program::State& s : training.states) {
        const Tensor t(const_cast<Tape&>(training.tape), s.read);
        state.set(s.name, start.count(s.name) ? start.at(s.name).clone() : Array::zeros(dtype, t.shape()));
      }
      std::vector<Array> values;
      for (const Program::Port& port : training.inputs) values.push_back(start.at(port.name));
      const auto instance = device.make();
      const auto step = instance->compile(training);
      const double relative = dtype == DType::f64 ? 1e-12 : 1e-4;
      const auto close = [&](double got, const Json& value) {
        INFO("got ", got, ", expected ", value.get<double>());
        CHECK(std::abs(got - value.get<double>()) <= relative * std::abs(value.get<double>()));
      };
      for (const Json& loss : expected.at("loss_before_each_step")) close(step->run(values, state)[0].item(), loss);
      const auto after = instance->compile(measuring)->run(values, state);
      close(after[0].item(), expected.at("global_loss_after"));
      close(after[1].item(), expected.at("global_penalty_after"));
      double change = 0;
      for (const std::string& parameter : parameter_names)
        for (int64_t i = 0; i < state.at(parameter).size(); ++i)
          change += std::pow(state.at(parameter).at(i) - start.at(parameter).at(i), 2);
      close(std::sqrt(change), expected.at("param_change_l2"));
    }
  }
}

}  // namespace

TEST_CASE("five steps of SGD, rate 0.001") {
  five_steps("sgd_lr_0.001", [](Recorder&, const std::string&, Tensor weight, Tensor gradient, Tensor) {
    return weight - 0.001 * gradient;
  });
}

TEST_CASE("five steps of Adam, rate 1e-4, betas 0 and 0.9") {
  five_steps("adam_1e-4_0_0.9", [](Recorder& r, const std::string& name, Tensor weight, Tensor gradient, Tensor step) {
    Tensor second = 0.9 * r.state("second/" + name, weight.dtype(), weight.shape()) + 0.1 * square(gradient);
    r.update("second/" + name, second);
    Tensor corrected = second / (1.0 - power(scalar_like(step, 0.9), step));
    return weight - 1e-4 * gradient / (sqrt(corrected) + 1e-8);
  });
}

TEST_SUITE_END();
