#include "models/wgan_gp/steps.hpp"

#include <algorithm>

#include "autodiff/grad.hpp"
#include "models/random.hpp"

namespace backbeat::wgan_gp {

namespace {

constexpr const char* seed_name = "random/seed";

// What each stream of device-side random numbers is for.
enum Stream : uint32_t { mixing = 1, generator_noise = 2, sample_noise = 3 };

Tensor key(Recorder& r, Stream stream, Tensor step) { return random_key(r.state(seed_name, DType::u32, {2}), stream, step); }

Shape batch_of(int64_t count, const Shape& sample) {
  Shape shape{count};
  for (int64_t d : sample) shape.push_back(d);
  return shape;
}

Config with_defaults(Config c) {
  if (c.batch == 0) c.batch = is_toy(c.data) ? 256 : 50;
  if (c.batch < 1) fail("wgan-gp", "the batch must be at least 1, got ", c.batch);
  if (c.lambda < 0) c.lambda = is_toy(c.data) ? 0.1 : 10;
  return c;
}

}  // namespace

bool is_toy(const std::string& data) { return data == "8gaussians" || data == "25gaussians" || data == "swissroll"; }

Model::Model(const Config& config)
    : config_(with_defaults(config)),
      networks_(is_toy(config_.data) ? toy(config_.activation, config_.precision) : image(config_.precision)) {}

Program Model::critic_step() const {
  return record("critic_step", [&](Recorder& r) {
    const Shape shape = batch_of(config_.batch, networks_.sample_shape);
    const Parameters p(r, "critic", networks_.critic.parameters);
    const Tensor real = r.input("real", DType::f32, shape), fake = r.input("fake", DType::f32, shape);
    const auto critic = [&](Tensor x) { return networks_.critic.apply(p, x); };
    const Tensor eps = uniform(key(r, mixing, counted(r, "random/critic_step")), {config_.batch});
    const CriticLoss loss = critic_loss(critic, p.tensors(), real, fake, eps, config_.penalty, config_.lambda);
    update(r, p, grad(loss.total, p.tensors()), config_.optimizer);  // the second backward pass happens in this grad

    r.output("wasserstein", loss.wasserstein);
    r.output("loss", loss.total);
    if (!loss.penalty.defined()) return;
    r.output("penalty", loss.penalty);
    const Tensor norm_mean = mean(loss.norms);
    r.output("norm_mean", norm_mean);
    r.output("norm_spread", sqrt(mean(square(loss.norms - norm_mean))));
  });
}

Program Model::generator_step() const {
  return record("generator_step", [&](Recorder& r) {
    const Parameters p(r, "generator", networks_.generator.parameters);
    const Parameters critic(r, "critic", networks_.critic.parameters);
    const Tensor z = normal(key(r, generator_noise, counted(r, "random/generator_step")), {config_.batch, networks_.noise});
    const Tensor loss = -mean(networks_.critic.apply(critic, networks_.generator.apply(p, z)));
    update(r, p, grad(loss, p.tensors()), config_.optimizer);
    r.output("loss", loss);
  });
}

Program Model::generate(int64_t count) const {
  return record("generate", [&](Recorder& r) {
    const Parameters p(r, "generator", networks_.generator.parameters);
    const Tensor z = normal(key(r, sample_noise, r.input("draw", DType::u32, {})), {count, networks_.noise});
    r.output("samples", networks_.generator.apply(p, z));
  });
}

Program Model::criticize(int64_t count) const {
  return record("criticize", [&](Recorder& r) {
    const Parameters p(r, "critic", networks_.critic.parameters);
    const Tensor points = r.input("points", DType::f32, batch_of(count, networks_.sample_shape));
    r.output("values", reshape(networks_.critic.apply(p, points), {count}));
  });
}

StateStore Model::initial_state() const {
  StateStore store;
  initialize(store, "critic", networks_.critic.parameters, config_.seed);
  initialize(store, "generator", networks_.generator.parameters, config_.seed);
  initialize_optimizer(store, "critic", networks_.critic.parameters, config_.optimizer);
  initialize_optimizer(store, "generator", networks_.generator.parameters, config_.optimizer);
  store.set(seed_name, seed_words(config_.seed));
  store.set("random/critic_step", Array::zeros(DType::u32, {}));
  store.set("random/generator_step", Array::zeros(DType::u32, {}));
  return store;
}

std::vector<std::string> Model::parameter_names() const {
  std::vector<std::string> names;
  for (const auto& [network, specs] : {std::pair("critic/", &networks_.critic.parameters),
                                       std::pair("generator/", &networks_.generator.parameters)})
    for (const ParameterSpec& spec : *specs) names.push_back(network + spec.name);
  return names;
}

}  // namespace backbeat::wgan_gp
