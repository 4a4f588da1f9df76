#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "autodiff/grad.hpp"
#include "engine/passes.hpp"
#include "models/wgan_gp/train.hpp"
#include "sim/chip.hpp"
#include "devices/tpu/tpu.hpp"

using namespace backbeat;
using wgan_gp::Activation;
using wgan_gp::Config;
using wgan_gp::Model;
using wgan_gp::Penalty;

namespace {

Config toy(Activation activation = Activation::relu, Penalty penalty = Penalty::two_sided, int64_t batch = 256) {
  Config c;
  c.data = "8gaussians", c.activation = activation, c.penalty = penalty, c.batch = batch;
  return c;
}

// Nodes of one operation by order, after dead-code elimination alone.
std::array<int, 4> by_order(const Program& recorded, Op op) {
  const Program p = optimize(recorded, passes_from_text("dce"));
  std::array<int, 4> count{};
  for (NodeId id = 0; id < p.tape.size(); ++id)
    if (p.tape[id].op == op) ++count[static_cast<size_t>(std::min(p.tape[id].order, 3))];
  return count;
}

struct Folder {
  std::filesystem::path path = std::filesystem::temp_directory_path() / ("backbeat-test-" + std::to_string(::getpid()));
  Folder() { std::filesystem::remove_all(path); }
  ~Folder() { std::filesystem::remove_all(path); }
};

}  // namespace

TEST_CASE("wgan-gp: parameter counts of the original networks") {
  const Model plane(toy());
  CHECK(wgan_gp::parameter_count(plane.networks().critic) == 527361);
  CHECK(wgan_gp::parameter_count(plane.networks().generator) == 527874);
  const Model image{Config{}};
  CHECK(wgan_gp::parameter_count(image.networks().critic) == 1030145);
  CHECK(wgan_gp::parameter_count(image.networks().generator) == 1554177);
}

TEST_CASE("wgan-gp: products of the toy critic step by order") {
  using Counts = std::array<int, 4>;
  CHECK(by_order(Model(toy(Activation::relu)).critic_step(), Op::dot_general) == Counts{11, 18, 7, 0});
  CHECK(by_order(Model(toy(Activation::leaky_relu)).critic_step(), Op::dot_general) == Counts{11, 18, 7, 0});
  CHECK(by_order(Model(toy(Activation::tanh)).critic_step(), Op::dot_general) == Counts{11, 18, 12, 0});
  CHECK(by_order(Model(toy(Activation::relu, Penalty::one_sided)).critic_step(), Op::dot_general) == Counts{11, 18, 7, 0});
  for (Activation a : {Activation::relu, Activation::leaky_relu, Activation::tanh})
    CHECK(by_order(Model(toy(a, Penalty::none)).critic_step(), Op::dot_general) == Counts{8, 14, 0, 0});
}

TEST_CASE("wgan-gp: convolutions of the image critic step by order") {
  // Forward 3 x 3; first backward 2 x (3 kernels + 2 inputs) + 3 inputs of the penalty; second backward 3 kernels + 3 inputs.
  CHECK(by_order(Model(Config{}).critic_step(), Op::convolution) == std::array<int, 4>{9, 13, 6, 0});
}

TEST_CASE("wgan-gp: a detached penalty is refused") {
  const auto recorded = [](bool detached) {
    record("step", [&](Recorder& r) {
      const Tensor w = r.state("w", DType::f32, {2, 1}), x = r.input("x", DType::f32, {4, 2});
      Tensor slope = grad(sum(tanh(matmul(x, w))), x);
      if (detached) slope = stop_gradient(slope);
      wgan_gp::penalized(mean(x), slope, {w}, Penalty::two_sided, 10);
    });
  };
  CHECK_NOTHROW(recorded(false));
  CHECK_THROWS_WITH(recorded(true), doctest::Contains("[wgan_gp] the penalty does not depend on the critic's parameters"));
}

TEST_CASE("optimizers: two steps by hand") {
  struct Row {
    const char* name;
    Optimizer optimizer;
    double expected;
  };
  const double g = 0.5;  // the gradient of sum(0.5 w) at any w
  const auto adam = [&] {
    double w = 1, m = 0, v = 0;
    for (int t = 1; t <= 2; ++t) {
      m = 0.5 * m + 0.5 * g, v = 0.9 * v + 0.1 * g * g;
      w -= 0.1 * (m / (1 - std::pow(0.5, t))) / (std::sqrt(v / (1 - std::pow(0.9, t))) + 1e-8);
    }
    return w;
  };
  const auto rms = [&] {
    double w = 1, s = 0;
    for (int t = 0; t < 2; ++t) s = 0.9 * s + 0.1 * g * g, w -= 0.1 * g / (std::sqrt(s) + 1e-8);
    return w;
  };
  const Row rows[] = {{"sgd", Sgd{0.1, 0}, 1 - 2 * 0.1 * g},
                      {"momentum", Sgd{0.1, 0.9}, 1 - 0.1 * g - 0.1 * (0.9 * g + g)},
                      {"adam", Adam{0.1, 0.5, 0.9, 1e-8}, adam()},
                      {"rmsprop", RmsProp{0.1, 0.9, 1e-8, 0}, rms()},
                      {"rmsprop, clipped", RmsProp{0.1, 0.9, 1e-8, 0.01}, -0.01}};  // 1 -> 0.01 -> -0.01
  for (const Row& row : rows) {
    CAPTURE(std::string(row.name));
    const std::vector<ParameterSpec> specs{{"w", {3}}};
    const Program step = record("step", [&](Recorder& r) {
      const Parameters p(r, "net", specs);
      update(r, p, grad(sum(0.5 * p("w")), p.tensors()), row.optimizer);
    });
    for (const auto& make : {make_reference_device, make_cpu_device}) {
      StateStore state;
      initialize_optimizer(state, "net", specs, row.optimizer);
      state.set("net/w", Array::full(DType::f32, {3}, 1));
      const auto executable = make()->compile(optimize(step));
      executable->run({}, state);
      executable->run({}, state);
      CHECK(state.at("net/w").at(1) == doctest::Approx(row.expected).epsilon(1e-6));
      CHECK(state.at("optimizer/net/updates").item() == 2);
    }
  }
}

TEST_CASE("train: resumed equals undisturbed, each Program compiled once, losses finite") {
  const Model model(toy(Activation::relu, Penalty::two_sided, 16));
  const Dataset data = open_dataset("8gaussians");
  std::vector<std::unique_ptr<Device>> devices;
  devices.push_back(make_cpu_device());
  devices.push_back(make_tpu_device(sim::load_chip("tpu-v3")));
  for (const auto& device : devices) {
    CAPTURE(device->name());
    Folder folder;
    wgan_gp::TrainOptions options;
    options.iterations = 6;
    const std::string undisturbed = wgan_gp::train(model, *device, data, options).parameters_sha256;

    options.out = folder.path.string();
    options.iterations = 2;
    const wgan_gp::TrainResult first = wgan_gp::train(model, *device, data, options);
    CHECK(first.parameters_sha256 != undisturbed);
    CHECK_THROWS_WITH(wgan_gp::train(model, *device, data, options), doctest::Contains("holds a run already"));
    options.iterations = 6;
    options.resume = true;
    const wgan_gp::TrainResult second = wgan_gp::train(model, *device, data, options);
    CHECK(second.resumed_at == 2);
    CHECK(second.parameters_sha256 == undisturbed);
    CHECK(second.losses.size() == 6);
    for (const wgan_gp::Losses& l : second.losses) CHECK(std::isfinite(l.critic + l.penalty + l.generator));
    // critic, generator, generate; and the critic on the plot's grid at the end
    CHECK(second.compiled_programs == 4);
    CHECK(std::filesystem::exists(folder.path / "critic.png"));

    options.critic_steps = 4;
    CHECK_THROWS_WITH(wgan_gp::train(model, *device, data, options), doctest::Contains("critic steps 5"));
  }
}

TEST_CASE("train: other seeds and penalties give other parameters, the same seed the same") {
  const Dataset data = open_dataset("swissroll");
  const auto device = make_cpu_device();
  const auto hash = [&](uint64_t seed, Penalty penalty) {
    Config c = toy(Activation::leaky_relu, penalty, 16);
    c.data = "swissroll", c.seed = seed;
    wgan_gp::TrainOptions options;
    options.iterations = 1;
    return wgan_gp::train(Model(c), *device, data, options).parameters_sha256;
  };
  const std::string one = hash(1, Penalty::two_sided);
  CHECK(one == hash(1, Penalty::two_sided));
  CHECK(one != hash(2, Penalty::two_sided));
  CHECK(one != hash(1, Penalty::one_sided));
  CHECK(one != hash(1, Penalty::none));
}
