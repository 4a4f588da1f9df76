// Training a WGAN-GP for real, on any device: critic steps, generator steps, metrics, pictures, checkpoints.
#pragma once
#include <functional>
#include <optional>

#include "devices/device.hpp"
#include "engine/passes.hpp"
#include "engine/precision.hpp"
#include "models/data/dataset.hpp"
#include "models/data/metrics.hpp"
#include "models/wgan_gp/steps.hpp"

namespace backbeat::wgan_gp {

struct TrainOptions {
  int64_t iterations = 100;   // generator steps
  int64_t critic_steps = 5;   // for each
  std::string out;            // a directory: checkpoint, losses, pictures. Empty: nothing is written
  bool resume = false;        // go on from the checkpoint in `out`, or begin if there is none
  bool overwrite = false;     // begin anew even if `out` holds a run
  double checkpoint_seconds = 20;
  PassOptions passes;
  std::vector<PrecisionRule> precisions;  // of products; see engine/precision.hpp
  CompileOptions compile;
  std::string device_recipe;  // what of the device decides the numbers
  bool check_finite = false;  // look at every result; of the first that is not finite, find the operation
};

// Of the last critic step of one iteration, and of its generator step.
struct Losses {
  int64_t iteration = 0;
  double wasserstein = 0, critic = 0, penalty = 0, norm_mean = 0, norm_spread = 0, generator = 0;
};

struct Observer {
  std::function<void(int64_t done)> begin = [](int64_t) {};  // compiled, and about to go on after `done` iterations
  std::function<void(const Losses&)> iteration = [](const Losses&) {};
  std::function<void(const std::string&)> note = [](const std::string&) {};
  std::function<bool()> interrupted = [] { return false; };
};

struct ToyScore {
  double sliced_wasserstein = 0;
  ModeCoverage modes;  // empty for the swiss roll
};

struct TrainResult {
  int64_t iterations = 0, resumed_at = 0;
  bool interrupted = false;
  std::vector<Losses> losses;
  std::string parameters_sha256;
  std::optional<ToyScore> score;      // of 4000 samples; toys only
  int64_t compiled_programs = 0;
  std::vector<std::string> written;   // paths
  std::optional<Cost> critic_cost;    // of one critic step; none on a measured device that ran no step
};

// RunError if a loss stops being finite; the last checkpoint stays. With check_finite the error names the operation, its
// order, phase, scope and source line, and the step.
TrainResult train(const Model& model, Device& device, const Dataset& data, const TrainOptions& options,
                  const Observer& observer = {});

}  // namespace backbeat::wgan_gp
