#include "models/optimizers.hpp"

#include <cmath>

#include "models/checkpoint.hpp"

namespace backbeat {

namespace {

constexpr const char* prefix = "optimizer/";

// Halves are updated in f32, with f32 state: an epsilon of 1e-8 is 0 in f16, and so are small squares.
DType state_dtype(DType weight) { return is_half(weight) ? DType::f32 : weight; }

// What an update of one parameter knows. The step and what is made of it are scalars, f64 beside f64 parameters, else f32.
struct Update {
  Recorder& r;
  const std::string& name;
  Tensor weight, gradient;
  Tensor before, t;  // updates done before this one, and with it

  Tensor slot(const char* what) const { return r.state(prefix + name + '/' + what, weight.dtype(), weight.shape()); }
  void set_slot(const char* what, Tensor value) const { r.update(prefix + name + '/' + what, value); }
  Tensor rate(const Schedule& schedule) const { return rate_at(schedule, before); }
  Tensor like_weight(Tensor x) const { return convert(x, weight.dtype()); }
};

// beta^t as exp(t log beta): t is state, so that a step compiles once.
Tensor one_minus_power(double beta, Tensor t) {
  if (beta == 0) return scalar_like(t, 1);
  return 1.0 - exp(t * std::log(beta));
}

template <class AdamLike>
Tensor adam_step(const Update& u, const AdamLike& adam) {
  Tensor m = adam.beta1 * u.slot("first_moment") + (1 - adam.beta1) * u.gradient;
  Tensor v = adam.beta2 * u.slot("second_moment") + (1 - adam.beta2) * square(u.gradient);
  u.set_slot("first_moment", m);
  u.set_slot("second_moment", v);
  Tensor rate = u.like_weight(u.rate(adam.rate) / one_minus_power(adam.beta1, u.t));
  Tensor scale = u.like_weight(rsqrt(one_minus_power(adam.beta2, u.t)));
  return rate * m / (sqrt(v) * scale + adam.epsilon);
}

Tensor step(const Update& u, const Adam& adam) { return u.weight - adam_step(u, adam); }

Tensor step(const Update& u, const AdamW& adam) {
  const Tensor decayed =
      u.weight.rank() < 2 ? u.weight : u.weight * u.like_weight(1.0 - u.rate(adam.rate) * adam.decay);
  return decayed - adam_step(u, adam);
}

Tensor step(const Update& u, const Sgd& sgd) {
  const Tensor rate = u.like_weight(u.rate(sgd.rate));
  if (sgd.momentum == 0) return u.weight - rate * u.gradient;
  Tensor velocity = sgd.momentum * u.slot("velocity") + u.gradient;
  u.set_slot("velocity", velocity);
  return u.weight - rate * velocity;
}

Tensor step(const Update& u, const RmsProp& rms) {
  Tensor s = rms.decay * u.slot("mean_square") + (1 - rms.decay) * square(u.gradient);
  u.set_slot("mean_square", s);
  const Tensor root = rms.form == RmsForm::tensorflow1 ? sqrt(s + rms.epsilon) : sqrt(s) + rms.epsilon;
  Tensor w = u.weight - u.like_weight(u.rate(rms.rate)) * u.gradient / root;
  if (rms.clip > 0) w = minimum(maximum(w, scalar_like(w, -rms.clip)), scalar_like(w, rms.clip));
  return w;
}

// The state of a parameter: its names and what it starts from.
std::vector<std::pair<const char*, double>> slots(const Optimizer& optimizer) {
  if (const Sgd* sgd = std::get_if<Sgd>(&optimizer)) {
    if (sgd->momentum == 0) return {};
    return {{"velocity", 0}};
  }
  if (const RmsProp* rms = std::get_if<RmsProp>(&optimizer))
    return {{"mean_square", rms->form == RmsForm::tensorflow1 ? 1 : 0}};
  return {{"first_moment", 0}, {"second_moment", 0}};
}

}  // namespace

std::vector<Tensor> update(Recorder& r, const Parameters& p, const std::vector<Tensor>& gradients, const Optimizer& optimizer) {
  if (gradients.size() != p.tensors().size())
    fail("optimizer", p.network(), " has ", p.tensors().size(), " parameters, got ", gradients.size(), " gradients");
  Scope scope("optimizer");
  const std::string counter = prefix + p.network() + "/updates";
  const Tensor before = r.state(counter, DType::u32, {}), count = before + scalar_like(before, 1);
  r.update(counter, count);
  const DType dtype = !gradients.empty() && gradients[0].dtype() == DType::f64 ? DType::f64 : DType::f32;
  const Tensor steps = convert(before, dtype), t = convert(count, dtype);
  std::vector<Tensor> updated;
  for (size_t i = 0; i < gradients.size(); ++i) {
    const DType own = p.tensors()[i].dtype(), computing = state_dtype(own);
    const Update u{r, p.names()[i], convert(p.tensors()[i], computing), convert(gradients[i], computing), steps, t};
    updated.push_back(convert(std::visit([&](const auto& o) { return step(u, o); }, optimizer), own));
    r.update(u.name, updated.back());
  }
  return updated;
}

void initialize_optimizer(StateStore& store, const std::string& network, const std::vector<ParameterSpec>& specs,
                          const Optimizer& optimizer, DType dtype) {
  store.set(prefix + network + "/updates", Array::zeros(DType::u32, {}));
  for (const ParameterSpec& spec : specs)
    for (const auto& [slot, start] : slots(optimizer))
      if (spec.trained) store.set(prefix + network + '/' + spec.name + '/' + slot, Array::full(state_dtype(dtype), spec.shape, start));
}

namespace {
// The recipes of runs with the usual one do not name it.
std::string epsilon_unless(double usual, double epsilon) { return epsilon == usual ? "" : concat(" epsilon ", exact(epsilon)); }
}  // namespace

std::string describe(const Optimizer& optimizer) {
  if (const Adam* a = std::get_if<Adam>(&optimizer))
    return concat("adam ", describe(a->rate), ' ', exact(a->beta1), ' ', exact(a->beta2), epsilon_unless(Adam{}.epsilon, a->epsilon));
  if (const Sgd* s = std::get_if<Sgd>(&optimizer)) return concat("sgd ", describe(s->rate), ' ', exact(s->momentum));
  if (const RmsProp* r = std::get_if<RmsProp>(&optimizer))
    return concat("rmsprop ", describe(r->rate), ' ', exact(r->decay), " clip ", exact(r->clip),
                  r->form == RmsForm::tensorflow1 ? concat(" tensorflow1 ", exact(r->epsilon))
                                                    : epsilon_unless(RmsProp{}.epsilon, r->epsilon));
  const AdamW& a = std::get<AdamW>(optimizer);
  return concat("adamw ", describe(a.rate), ' ', exact(a.beta1), ' ', exact(a.beta2), ' ', exact(a.epsilon), " decay ",
                exact(a.decay));
}

Tensor global_norm(const std::vector<Tensor>& gradients) {
  if (gradients.empty()) fail("global_norm", "there are no gradients");
  std::vector<Tensor> norms;
  for (Tensor g : gradients) norms.push_back(reshape(norm(g, Dims::range(g.rank())), {1}));
  return norm(concatenate(norms, 0), {0});
}

std::vector<Tensor> clip_by_global_norm(const std::vector<Tensor>& gradients, double limit) {
  if (!(limit > 0)) fail("clip_by_global_norm", "the limit must be above 0, got ", limit);
  const Tensor size = global_norm(gradients), bound = scalar_like(size, limit);
  const Tensor scale = bound / maximum(size, bound);
  std::vector<Tensor> clipped;
  for (Tensor g : gradients) clipped.push_back(g * scale);
  return clipped;
}

}  // namespace backbeat
