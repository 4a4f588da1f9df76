// The models that the command line knows by name, as Programs that any device can compile.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/program.hpp"

namespace backbeat {

// What can be asked of a model, in the words of the command line. What is left empty takes the model's own default.
struct ModelOptions {
  std::string data, penalty = "two-sided", activation, precision = "default", optimizer = "adam";
  int64_t batch = 0, critic_steps = 5;
  std::optional<double> lambda, rate, momentum, clip;
  uint64_t seed = 0;
};

struct RegisteredModel {
  std::string name;
  std::vector<std::string> steps;  // the first is the default of `anatomy`
  // The Programs of a step and how often each runs in it. Unoptimized.
  std::function<std::vector<std::pair<Program, int64_t>>(const ModelOptions&, const std::string& step)> programs;
  std::function<StateStore(const ModelOptions&)> initial_state;
  std::function<int64_t(const ModelOptions&)> batch;  // samples a step
};

void register_model(RegisteredModel model);
const RegisteredModel& find_model(const std::string& name);  // Error with the list of names
std::vector<RegisteredModel>& registered_models();

}  // namespace backbeat
