// Does it learn? The 8-gaussians toy, as far as a person would let it run. Figures of the last run: docs/slow.md.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>

#include "devices/tpu/tpu.hpp"
#include "models/wgan_gp/train.hpp"
#include "sim/chip.hpp"

using namespace backbeat;

namespace {

// Trains with the original's settings and prints a row of the table.
wgan_gp::ToyScore train_toy(Device& device, uint64_t seed, int64_t iterations) {
  wgan_gp::Config config;
  config.data = "8gaussians", config.seed = seed;
  const wgan_gp::Model model(config);
  wgan_gp::TrainOptions options;
  options.iterations = iterations;
  const wgan_gp::TrainResult result = wgan_gp::train(model, device, open_dataset("8gaussians"), options);

  const ModeCoverage& modes = result.score->modes;
  std::printf("| %s | %llu | %lld | %.1f %% | %.1f %% | %.4f |\n", device.name().c_str(), static_cast<unsigned long long>(seed),
              static_cast<long long>(iterations), 100 * *std::min_element(modes.share.begin(), modes.share.end()), 100 * modes.near_a_mode,
              result.score->sliced_wasserstein);
  std::fflush(stdout);
  return *result.score;
}

// Of 4000 samples, within 0.2 of each mode's centre.
void expect_all_modes(const wgan_gp::ToyScore& score) {
  REQUIRE(score.modes.share.size() == 8);
  for (double share : score.modes.share) CHECK(share >= 0.02);
}

}  // namespace

TEST_SUITE("ci") {
  TEST_CASE("toy: 8 gaussians, 1500 generator steps, seed 0, cpu") {
    const auto device = make_cpu_device();
    CHECK(train_toy(*device, 0, 0).sliced_wasserstein > 0.5);
    CHECK(train_toy(*device, 0, 1500).sliced_wasserstein < 0.25);  // half-way: the modes are not all covered yet
  }
}

TEST_SUITE("slow") {
  TEST_CASE("toy: 8 gaussians, 3000 generator steps, cpu") {
    const auto device = make_cpu_device();
    for (uint64_t seed : {0, 1, 2}) expect_all_modes(train_toy(*device, seed, 3000));
  }
  TEST_CASE("toy: 8 gaussians, 3000 generator steps, simulated tpu-v3 in bf16") {
    const auto device = make_tpu_device(sim::load_chip("tpu-v3"));
    for (uint64_t seed : {0, 1, 2}) expect_all_modes(train_toy(*device, seed, 3000));
  }
}
