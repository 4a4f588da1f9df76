#include "models/optimizers.hpp"

#include <cmath>

#include "engine/ops.hpp"

namespace backbeat {

namespace {

constexpr const char* prefix = "optimizer/";

struct Update {
  Recorder& r;
  const std::string& name;
  Tensor weight, gradient;

  Tensor slot(const char* what) const { return r.state(prefix + name + '/' + what, DType::f32, weight.shape()); }
  void set_slot(const char* what, Tensor value) const { r.update(prefix + name + '/' + what, value); }
};

// beta^t as exp(t log beta): t is state, so that a step compiles once.
Tensor one_minus_power(double beta, Tensor t) {
  if (beta == 0) return scalar_like(t, 1);
  return 1.0 - exp(t * std::log(beta));
}

void step(const Update& u, const Adam& adam, Tensor t) {
  Tensor m = adam.beta1 * u.slot("first_moment") + (1 - adam.beta1) * u.gradient;
  Tensor v = adam.beta2 * u.slot("second_moment") + (1 - adam.beta2) * square(u.gradient);
  u.set_slot("first_moment", m);
  u.set_slot("second_moment", v);
  Tensor rate = adam.rate / one_minus_power(adam.beta1, t);
  Tensor scale = rsqrt(one_minus_power(adam.beta2, t));
  u.r.update(u.name, u.weight - rate * m / (sqrt(v) * scale + adam.epsilon));
}

void step(const Update& u, const Sgd& sgd, Tensor) {
  if (sgd.momentum == 0) {
    u.r.update(u.name, u.weight - sgd.rate * u.gradient);
    return;
  }
  Tensor velocity = sgd.momentum * u.slot("velocity") + u.gradient;
  u.set_slot("velocity", velocity);
  u.r.update(u.name, u.weight - sgd.rate * velocity);
}

void step(const Update& u, const RmsProp& rms, Tensor) {
  Tensor s = rms.decay * u.slot("mean_square") + (1 - rms.decay) * square(u.gradient);
  u.set_slot("mean_square", s);
  Tensor w = u.weight - rms.rate * u.gradient / (sqrt(s) + rms.epsilon);
  if (rms.clip > 0) w = minimum(maximum(w, scalar_like(w, -rms.clip)), scalar_like(w, rms.clip));
  u.r.update(u.name, w);
}

std::vector<const char*> slots(const Optimizer& optimizer) {
  if (std::holds_alternative<Adam>(optimizer)) return {"first_moment", "second_moment"};
  if (std::holds_alternative<RmsProp>(optimizer)) return {"mean_square"};
  return std::get<Sgd>(optimizer).momentum == 0 ? std::vector<const char*>{} : std::vector<const char*>{"velocity"};
}

}  // namespace

void update(Recorder& r, const Parameters& p, const std::vector<Tensor>& gradients, const Optimizer& optimizer) {
  if (gradients.size() != p.tensors().size())
    fail("optimizer", p.network(), " has ", p.tensors().size(), " parameters, got ", gradients.size(), " gradients");
  Scope scope("optimizer");
  const std::string counter = prefix + p.network() + "/updates";
  const Tensor count = r.state(counter, DType::u32, {}) + scalar_like(r.state(counter, DType::u32, {}), 1);
  r.update(counter, count);
  const Tensor t = convert(count, DType::f32);
  for (size_t i = 0; i < gradients.size(); ++i) {
    const Update u{r, p.names()[i], p.tensors()[i], gradients[i]};
    std::visit([&](const auto& o) { step(u, o, t); }, optimizer);
  }
}

void initialize_optimizer(StateStore& store, const std::string& network, const std::vector<ParameterSpec>& specs,
                          const Optimizer& optimizer) {
  store.set(prefix + network + "/updates", Array::zeros(DType::u32, {}));
  for (const ParameterSpec& spec : specs)
    for (const char* slot : slots(optimizer))
      store.set(prefix + network + '/' + spec.name + '/' + slot, Array::zeros(DType::f32, spec.shape));
}

}  // namespace backbeat
