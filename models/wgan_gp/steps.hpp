// WGAN-GP as Programs: one critic step, one generator step, and the generator alone. They share one StateStore.
#pragma once
#include "engine/program.hpp"
#include "models/optimizers.hpp"
#include "models/wgan_gp/loss.hpp"

namespace backbeat::wgan_gp {

struct Config {
  std::string data = "fashion-mnist";  // the toys "8gaussians", "25gaussians", "swissroll"; anything else is images
  int64_t batch = 0;                   // 0: the original's, 256 for toys and 50 for images
  double lambda = -1;                  // negative: the original's, 0.1 for toys and 10 for images
  Penalty penalty = Penalty::two_sided;
  Activation activation = Activation::relu;  // of the toy; the image critic is leaky
  Precision precision = Precision::standard;
  Optimizer optimizer = Adam{};
  uint64_t seed = 0;
};

bool is_toy(const std::string& data);

class Model {
 public:
  explicit Model(const Config& config);  // fills in the defaults

  const Config& config() const { return config_; }
  const Networks& networks() const { return networks_; }

  // Inputs real, fake [batch, sample...]. Outputs wasserstein, loss; with a penalty also penalty, norm_mean, norm_spread.
  Program critic_step() const;
  // No inputs: its noise comes from the state's key. Outputs loss.
  Program generator_step() const;
  // Input draw u32[]: which noise. Output samples [count, sample...]. The same draw gives the same samples.
  Program generate(int64_t count) const;
  // Input points [count, sample...]; output values [count].
  Program criticize(int64_t count) const;

  StateStore initial_state() const;
  std::vector<std::string> parameter_names() const;

 private:
  Config config_;
  Networks networks_;
};

}  // namespace backbeat::wgan_gp
