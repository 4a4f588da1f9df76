// Optimizers, learning rates, moving averages and what a checkpoint of them reads like.
#include "models/averages.hpp"
#include "models/optimizers.hpp"
#include "tests/models/figures.hpp"

using namespace backbeat;
using namespace backbeat::test;

namespace {

const std::vector<ParameterSpec> specs{{"w", {3, 2}}, {"kept", {1}, {}, false}, {"b", {3}}};
constexpr Tolerance exact_in_f64{1e-12, 0, 1e-13};

// An update of the loss that the figures of optimizers were made with.
Program descent(const Optimizer& optimizer) {
  return record("step", [&](Recorder& r) {
    const Parameters p(r, "net", specs, DType::f64);
    Tensor loss = scalar_like(p("w"), 0);
    for (Tensor v : p.tensors()) loss = loss + sum(square(v) * 0.5 + sine(3.0 * v));
    update(r, p, grad(loss, p.tensors()), optimizer);
  });
}

}  // namespace

TEST_CASE("optimizers: five updates") {
  const std::pair<const char*, Optimizer> rows[] = {
      {"sgd", Sgd{0.1, 0}},
      {"momentum", Sgd{0.1, 0.9}},
      {"rmsprop", RmsProp{0.01, 0.9, 1e-4}},
      {"rmsprop of tensorflow 1", RmsProp{0.01, 0.9, 1e-4, 0, RmsForm::tensorflow1}},
      {"adam", Adam{0.05, 0.5, 0.9, 1e-4}},
      {"adamw", AdamW{0.05, 0.9, 0.999, 1e-4, 0.1}},
      {"sgd, exponential rate", Sgd{ExponentialRate{0.1, 0.5, 1}, 0}},
      {"adam, exponential rate", Adam{ExponentialRate{0.05, 0.5, 1}, 0.5, 0.9, 1e-4}},
  };
  for (const auto& [name, optimizer] : rows) {
    const Figures f = figures(concat("optimizer ", name));
    const Program step = descent(optimizer);
    for (const NamedDevice& device : all_devices()) {
      INFO(std::string(name), " on ", std::string(device.name));
      StateStore state;
      initialize(state, "net", specs, 0, DType::f64);
      initialize_optimizer(state, "net", specs, optimizer, DType::f64);
      for (const auto& [key, value] : f.inputs) state.set("net/" + key, value.clone());
      const auto executable = device.make()->compile(step);
      for (int i = 0; i < 5; ++i) executable->run({}, state);
      for (const auto& [key, value] : f.outputs) CHECK(difference(state.at("net/" + key), value, exact_in_f64) == "");
      CHECK(state.at("optimizer/net/updates").item() == 5);
      for (const auto& [key, value] : state.arrays()) CHECK(key.find("optimizer/net/kept") == std::string::npos);
    }
  }
}

TEST_CASE("optimizers: parameters of half precision step by counts and rates kept in f32") {
  // Adam's first steps are the rate, whatever the gradient; 1 - 0.999^t in bfloat16 would be 0.
  const std::vector<ParameterSpec> one{{"w", {2}, initial::constant(1)}};
  const Optimizer adam = Adam{0.125, 0.9, 0.999, 1e-8};
  const Program step = record("step", [&](Recorder& r) {
    const Parameters p(r, "net", one, DType::bf16);
    update(r, p, grad(sum(p("w") * 3.0), p.tensors()), adam);
  });
  for (const NamedDevice& device : all_devices()) {
    StateStore state;
    initialize(state, "net", one, 0, DType::bf16);
    initialize_optimizer(state, "net", one, adam, DType::bf16);
    device.make()->compile(step)->run({}, state);
    CHECK(state.at("net/w").at(0) == doctest::Approx(0.875).epsilon(0.01));
  }
}

TEST_CASE("optimizers: f16 parameters without a gradient stay, where an epsilon of f16 would be 0") {
  const std::vector<ParameterSpec> specs{{"w", {2}, initial::constant(1)}};
  const Program program = record("step", [&](Recorder& r) {
    const Parameters p(r, "net", specs, DType::f16);
    const Tensor g = r.input("g", DType::f16, {2});
    update(r, p, {g}, AdamW{});
  });
  StateStore state;
  initialize(state, "net", specs, 1, DType::f16);
  initialize_optimizer(state, "net", specs, AdamW{}, DType::f16);
  const Array g = Array::from<float>({2}, {0, 1e-4f}).converted(DType::f16);
  make_cpu_device()->compile(program)->run(std::span(&g, 1), state);
  CHECK(state.at("net/w").dtype() == DType::f16);
  CHECK(state.at("net/w").at(0) == 1);
  CHECK(state.at("net/w").at(1) < 1);
  CHECK(state.at("optimizer/net/w/second_moment").dtype() == DType::f32);
}

TEST_CASE("optimizers: gradients clipped by their global norm") {
  for (const auto& [name, limit] : {std::pair("clip_by_global_norm", 1.5), std::pair("clip_by_global_norm, below", 50.0)}) {
    const Figures f = figures(name);
    const Build build = [limit = limit](const Named& in) {
      const std::vector<Tensor> g{in.at("a"), in.at("b")}, clipped = clip_by_global_norm(g, limit);
      return Named{{"a", clipped[0]}, {"b", clipped[1]}, {"norm", global_norm(g)}};
    };
    reproduce(name, f.inputs, f.outputs, build, DType::f64, [](const std::string&) { return Tolerance{1e-14}; });
    reproduce(name, f.inputs, f.outputs, build, DType::f32, [](const std::string&) { return Tolerance{1e-6}; });
    check_derivatives(f, [&](const Named& in) {
      const Named out = build(in);
      return Named{{"y", sum(exp(out.at("a"))) + sum(sine(out.at("b")))}};
    });
  }
}

TEST_CASE("learning rates: figures, by the step in the state") {
  const std::pair<const char*, Schedule> rows[] = {
      {"piecewise", PiecewiseRate{{3, 7}, {0.1, 0.01, 0.001}}},
      {"staircase", ExponentialRate{0.1, 0.1, 3, true}},
      {"exponential", ExponentialRate{0.1, 0.5, 5}},
      {"cosine", CosineRate{0.1, 8, 0.1}},
      {"linear", LinearRate{0.1, 8, 0.25}},
  };
  for (const auto& [name, schedule] : rows) {
    const Figures f = figures(concat("rate ", name));
    for (DType dtype : {DType::f64, DType::f32}) {
      const Program p = record("rate", [&, schedule = schedule](Recorder& r) {
        r.output("y", rate_at(schedule, r.input("step", dtype, {})));
      });
      for (const NamedDevice& device : all_devices()) {
        INFO(std::string(name), " on ", std::string(device.name));
        const auto executable = device.make()->compile(p);
        StateStore state;
        for (int64_t i = 0; i < 12; ++i) {
          const Array step = Array::full(dtype, {}, f.inputs.at("steps").at(i));
          const double rate = executable->run(std::vector<Array>{step}, state)[0].item();
          CHECK(rate == doctest::Approx(f.outputs.at("rates").at(i)).epsilon(dtype == DType::f64 ? 1e-13 : 1e-6));
        }
      }
    }
  }
}

TEST_CASE("learning rates: a warm-up multiplies what comes after it") {
  // A quarter of the rate at first and a quarter more each step.
  const Figures f = figures("rate warm-up");
  const Program p = record("rate", [&](Recorder& r) {
    const Tensor step = r.input("step", DType::f64, {});
    r.output("constant", rate_at(Schedule(0.1).warmed_up(4), step));
    r.output("staircase", rate_at(Schedule(ExponentialRate{0.1, 0.1, 3, true}).warmed_up(4), step));
  });
  const Figures staircase = figures("rate staircase");
  for (int64_t i = 0; i < 12; ++i) {
    const auto out = run(p, {Array::scalar(static_cast<double>(i))});
    CHECK(out[0].item() == doctest::Approx(f.outputs.at("rates").at(i)).epsilon(1e-13));
    const double expected = staircase.outputs.at("rates").at(i) * f.outputs.at("rates").at(i) / 0.1;
    CHECK(out[1].item() == doctest::Approx(expected).epsilon(1e-13));
  }
}

TEST_CASE("learning rates: in words, and what is refused") {
  CHECK(describe(Schedule(0.1)) == "0.1");
  CHECK(describe(Schedule(PiecewiseRate{{75}, {1e-3, 1e-4}})) == "piecewise 0.001,1e-04 from 75");
  CHECK(describe(Schedule(ExponentialRate{0.1, 0.1, 136718, true}).warmed_up(5)) ==
        "staircase 0.1 * 0.1 every 136718 after 5 of warm-up");
  CHECK(describe(Optimizer(Adam{CosineRate{0.1, 8}})) == "adam cosine 0.1 over 8 to 0 0.5 0.9");
  CHECK(describe(Optimizer(Adam{1e-4, 0.5, 0.9, 1e-3})) == "adam 1e-04 0.5 0.9 epsilon 0.001");
  CHECK(describe(Optimizer(RmsProp{5e-5, 0.9, 1e-3})) == "rmsprop 5e-05 0.9 clip 0 epsilon 0.001");
  CHECK(describe(Optimizer(AdamW{})) == "adamw 0.001 0.9 0.999 1e-08 decay 0.01");
  CHECK_THROWS_WITH(Schedule(PiecewiseRate{{3, 2}, {1, 2, 3}}), doctest::Contains("[schedule] expected ascending boundaries"));
  CHECK_THROWS_WITH(Schedule(PiecewiseRate{{3}, {1}}), doctest::Contains("one rate more, got rates 1 from 3"));
  CHECK_THROWS_WITH(Schedule(ExponentialRate{1, 0.5, 0}), doctest::Contains("[schedule] the period must be at least 1 step, got 0"));
  CHECK_THROWS_WITH(Schedule(0.1).warmed_up(0), doctest::Contains("[schedule] a warm-up"));
}

TEST_CASE("moving averages: figures, and a network that reads them") {
  const std::tuple<const char*, MovingAverage> rows[] = {{"average", {0.3, false}},
                                                         {"average, warm-up", {0.9999, true}},
                                                         {"average, past its warm-up", {0.15, true}}};
  for (const auto& [name, average] : rows) {
    const Figures f = figures(name);
    const std::vector<ParameterSpec> one{{"w", {3, 2}}, {"kept", {1}, {}, false}};
    const Program step = record("step", [&, average = average](Recorder& r) {
      const Parameters p(r, "net", one, DType::f64);
      update_average(r, p, {r.input("w", DType::f64, {3, 2})}, average);
    });
    const Program reads = record("reads", [&](Recorder& r) {
      const Parameters p = averaged(r, "net", one, DType::f64);
      r.output("w", p("w")), r.output("kept", p("kept"));
    });
    for (const NamedDevice& device : all_devices()) {
      INFO(std::string(name), " on ", std::string(device.name));
      StateStore state;
      initialize(state, "net", one, 0, DType::f64);
      state.set("net/w", f.inputs.at("w").clone()), state.set("net/kept", Array::full(DType::f64, {1}, 7));
      initialize_average(state, "net", one);
      const auto executable = device.make()->compile(step);
      const Array& values = f.inputs.at("values");
      for (int64_t n = 0; n < 5; ++n) {
        Array w(DType::f64, {3, 2});
        for (int64_t i = 0; i < 6; ++i) w.set(i, values.at(6 * n + i));
        executable->run(std::vector<Array>{w}, state);
      }
      CHECK(difference(state.at("average/net/w"), f.outputs.at("w"), exact_in_f64) == "");
      CHECK(bitwise_equal(state.at("net/w"), f.inputs.at("w")));
      const auto out = device.make()->compile(reads)->run({}, state);
      CHECK(bitwise_equal(out[0], state.at("average/net/w")));
      CHECK(out[1].item() == 7);
    }
  }
}
