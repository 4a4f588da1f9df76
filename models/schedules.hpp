// Learning rates that change with the step. The step is the number of updates done before this one (0 at first) and comes
// from the state, so a Program is compiled once; decays count from step 0, with a warm-up or without.
#pragma once
#include <string>
#include <variant>
#include <vector>

#include "engine/ops.hpp"

namespace backbeat {

// rates[i] from step boundaries[i - 1] on (PyTorch's MultiStepLR; TensorFlow's piecewise_constant changes one step later).
// There is one rate more than boundaries, which ascend.
struct PiecewiseRate {
  std::vector<int64_t> boundaries;
  std::vector<double> rates;
};
// rate * factor^(step / period): TensorFlow's exponential_decay; a staircase rounds the exponent down.
struct ExponentialRate {
  double rate, factor;
  int64_t period;
  bool staircase = false;
};
// From rate to rate * floor over `steps`, along half a cosine: TensorFlow's cosine_decay, PyTorch's CosineAnnealingLR.
struct CosineRate {
  double rate;
  int64_t steps;
  double floor = 0;
};
// From rate to rate * floor over `steps`, along a line: the ResNet of the WGAN-GP code, to 0.
struct LinearRate {
  double rate;
  int64_t steps;
  double floor = 0;
};

struct Schedule {
  using Form = std::variant<double, PiecewiseRate, ExponentialRate, CosineRate, LinearRate>;

  Schedule(double constant);
  Schedule(PiecewiseRate rate);
  Schedule(ExponentialRate rate);
  Schedule(CosineRate rate);
  Schedule(LinearRate rate);
  // The same, times min((step + 1) / steps, 1).
  Schedule warmed_up(int64_t steps) const;

  std::shared_ptr<const Form> form;
  int64_t warmup = 0;
};

// The rate at step [], in its dtype, which is f32 or f64. In f32 steps are exact below 2^24.
Tensor rate_at(const Schedule& schedule, Operand step);
// In words for a checkpoint's recipe, with the shortest numbers that read back as the same; a constant is its number alone.
std::string describe(const Schedule& schedule);

}  // namespace backbeat
