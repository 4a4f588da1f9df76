#include "models/wgan_gp/options.hpp"

#include <filesystem>

#include <cmath>

namespace backbeat::wgan_gp {

namespace {

Optimizer optimizer_from(const ModelOptions& o) {
  const auto refuse = [&](const char* flag, bool given) {
    if (given) fail("optimizer", o.optimizer, " has no --", flag);
  };
  if (o.rate && !(std::isfinite(*o.rate) && *o.rate >= 0)) fail("optimizer", "the rate must be at least 0, got ", *o.rate);
  if (o.momentum && !(*o.momentum >= 0 && *o.momentum < 1))
    fail("optimizer", "the momentum must be at least 0 and below 1, got ", *o.momentum);
  if (o.clip && !(std::isfinite(*o.clip) && *o.clip > 0)) fail("optimizer", "--clip must be above 0, got ", *o.clip);
  if (o.optimizer == "adam") {
    refuse("momentum", o.momentum.has_value());
    refuse("clip", o.clip.has_value());
    Adam adam;
    if (o.rate) adam.rate = *o.rate;
    return adam;
  }
  if (o.optimizer == "sgd") {
    refuse("clip", o.clip.has_value());
    Sgd sgd;
    if (o.rate) sgd.rate = *o.rate;
    sgd.momentum = o.momentum.value_or(0);
    return sgd;
  }
  if (o.optimizer == "rmsprop") {
    refuse("momentum", o.momentum.has_value());
    RmsProp rms;
    if (o.rate) rms.rate = *o.rate;
    rms.clip = o.clip.value_or(0);
    return rms;
  }
  fail("optimizer", "unknown optimizer '", o.optimizer, "', expected adam, sgd or rmsprop");
}

std::vector<std::pair<Program, int64_t>> programs(const ModelOptions& options, const std::string& step) {
  const Model model(config_from(options));
  std::vector<std::pair<Program, int64_t>> parts;
  if (step == "critic") parts.emplace_back(model.critic_step(), 1);
  if (step == "generator") parts.emplace_back(model.generator_step(), 1);
  if (step == "iteration") {
    parts.emplace_back(model.generate(model.config().batch), options.critic_steps);
    parts.emplace_back(model.critic_step(), options.critic_steps);
    parts.emplace_back(model.generator_step(), 1);
  }
  if (parts.empty()) fail("wgan-gp", "unknown step '", step, "', expected critic, generator or iteration");
  return parts;
}

}  // namespace

Config config_from(const ModelOptions& o) {
  Config c;
  if (!o.data.empty()) c.data = o.data;
  std::error_code ignored;
  if (!is_toy(c.data) && c.data != "fashion-mnist" && !std::filesystem::is_directory(c.data, ignored))
    fail("data", "unknown data set '", c.data, "', expected 8gaussians, 25gaussians, swissroll, fashion-mnist or a directory");
  c.batch = o.batch;
  constexpr int64_t largest_batch = int64_t{1} << 32;  // so that no count of elements overflows
  if (o.batch < 0) fail("wgan-gp", "the batch must be at least 1, got ", o.batch);
  if (o.batch > largest_batch) fail("wgan-gp", "the batch must be at most ", largest_batch, ", got ", o.batch);
  if (o.lambda) c.lambda = *o.lambda;
  if (o.lambda && !(std::isfinite(*o.lambda) && *o.lambda >= 0))
    fail("wgan-gp", "lambda must be at least 0, got ", *o.lambda);
  if (o.critic_steps < 1) fail("wgan-gp", "expected at least 1 critic step, got ", o.critic_steps);
  c.penalty = penalty_from_name(o.penalty);
  if (!o.activation.empty()) c.activation = activation_from_name(o.activation);
  if (!o.activation.empty() && !is_toy(c.data))
    fail("wgan-gp", "--activation is for the toys: the critic of ", c.data, " is leaky");
  c.precision = precision_from_name(o.precision);
  c.optimizer = optimizer_from(o);
  c.seed = o.seed;
  return c;
}

RegisteredModel registered() {
  return {"wgan-gp",
          {"critic", "generator", "iteration"}, programs,
          [](const ModelOptions& options) { return Model(config_from(options)).initial_state(); },
          [](const ModelOptions& options) { return Model(config_from(options)).config().batch; }};
}

}  // namespace backbeat::wgan_gp
