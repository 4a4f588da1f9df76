#include "models/averages.hpp"

#include "engine/ops.hpp"

namespace backbeat {

namespace {
constexpr const char* prefix = "average/";
}

void update_average(Recorder& r, const Parameters& p, const std::vector<Tensor>& updated, const MovingAverage& average) {
  if (updated.size() != p.tensors().size())
    fail("average", p.network(), " has ", p.tensors().size(), " parameters, got ", updated.size(), " new values");
  Scope scope("average");
  const std::string counter = prefix + p.network() + "/updates";
  const Tensor before = r.state(counter, DType::u32, {});
  r.update(counter, before + scalar_like(before, 1));
  for (size_t i = 0; i < updated.size(); ++i) {
    const DType dtype = updated[i].dtype() == DType::f64 ? DType::f64 : DType::f32;
    const Tensor n = convert(before, dtype);
    Tensor d = scalar_like(n, average.decay);
    if (average.warmup) d = minimum(d, (1.0 + n) / (10.0 + n));
    const std::string name = prefix + p.names()[i];
    const Tensor old = r.state(name, updated[i].dtype(), updated[i].shape());
    r.update(name, old - convert(1.0 - d, old.dtype()) * (old - updated[i]));
  }
}

void initialize_average(StateStore& store, const std::string& network, const std::vector<ParameterSpec>& specs) {
  store.set(prefix + network + "/updates", Array::zeros(DType::u32, {}));
  for (const ParameterSpec& spec : specs)
    if (spec.trained) store.set(prefix + network + '/' + spec.name, store.at(network + '/' + spec.name).clone());
}

Parameters averaged(Recorder& r, const std::string& network, const std::vector<ParameterSpec>& specs, DType dtype) {
  std::vector<std::string> names;
  std::vector<Tensor> tensors;
  for (const ParameterSpec& spec : specs) {
    names.push_back(spec.name);
    tensors.push_back(r.state(concat(spec.trained ? prefix : "", network, '/', spec.name), dtype, spec.shape));
  }
  return {network, names, tensors};
}

}  // namespace backbeat
