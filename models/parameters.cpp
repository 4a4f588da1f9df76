#include "models/parameters.hpp"

#include <algorithm>
#include <cmath>

#include "models/data/rng.hpp"

namespace backbeat {

namespace {

// A stream of random numbers for each parameter name (FNV-1a), so that adding a layer does not move the others.
uint32_t stream_of(const std::string& name) {
  uint32_t h = 2166136261u;
  for (unsigned char c : name) h = (h ^ c) * 16777619u;
  return h;
}

constexpr double below_minus_two = 0.022750131948179207;  // of a standard normal

double draw(HostRandom& random, Initial initial) {
  switch (initial.law) {
    case Initial::Law::uniform: return (2 * random.uniform() - 1) * initial.value * std::sqrt(3.0);
    case Initial::Law::normal: return random.normal() * initial.value;
    // One number of the law that drawing again leads to.
    case Initial::Law::truncated_normal:
      return normal_quantile(below_minus_two + random.uniform() * (1 - 2 * below_minus_two)) * initial.value;
    case Initial::Law::constant: break;
  }
  return initial.value;
}

}  // namespace

double he_deviation(int64_t fan_in) { return std::sqrt(2.0 / static_cast<double>(fan_in)); }
double lecun_deviation(int64_t fan_in) { return std::sqrt(1.0 / static_cast<double>(fan_in)); }
double glorot_deviation(double fan_in, double fan_out) { return std::sqrt(2.0 / (fan_in + fan_out)); }
double he_glorot_deviation(double fan_in, double fan_out) { return std::sqrt(4.0 / (fan_in + fan_out)); }

Parameters::Parameters(Recorder& recorder, std::string network, const std::vector<ParameterSpec>& specs, DType dtype)
    : network_(std::move(network)) {
  for (const ParameterSpec& spec : specs) {
    const std::string name = network_ + '/' + spec.name;
    (spec.trained ? names_ : kept_names_).push_back(name);
    (spec.trained ? tensors_ : kept_).push_back(recorder.state(name, dtype, spec.shape));
  }
}

Parameters::Parameters(std::string network, const std::vector<std::string>& names, std::vector<Tensor> tensors)
    : network_(std::move(network)), tensors_(std::move(tensors)) {
  if (names.size() != tensors_.size())
    fail("parameters", network_, ": ", names.size(), " names for ", tensors_.size(), " tensors");
  for (const std::string& name : names) names_.push_back(network_ + '/' + name);
}

const Tensor* Parameters::find(const std::string& name) const {
  const std::string full = network_ + '/' + name;
  for (const auto& [names, tensors] : {std::pair(&names_, &tensors_), std::pair(&kept_names_, &kept_)}) {
    const auto found = std::find(names->begin(), names->end(), full);
    if (found != names->end()) return &(*tensors)[static_cast<size_t>(found - names->begin())];
  }
  return nullptr;
}

Tensor Parameters::operator()(const std::string& name) const {
  const Tensor* found = find(name);
  if (!found) fail("parameters", network_, " has no parameter '", name, "'");
  return *found;
}

bool Parameters::contains(const std::string& name) const { return find(name) != nullptr; }

void initialize(StateStore& store, const std::string& network, const std::vector<ParameterSpec>& specs, uint64_t seed,
                DType dtype) {
  for (const ParameterSpec& spec : specs) {
    const std::string name = network + '/' + spec.name;
    Array value(dtype, spec.shape);
    HostRandom random(seed, stream_of(name), 0);
    for (int64_t i = 0; i < value.size(); ++i) value.set(i, draw(random, spec.initial));
    store.set(name, value);
  }
}

void append(std::vector<ParameterSpec>& network, std::vector<ParameterSpec> layer) {
  for (ParameterSpec& spec : layer) network.push_back(std::move(spec));
}

}  // namespace backbeat
