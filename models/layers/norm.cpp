#include "models/layers/norm.hpp"

#include "models/layers/activation.hpp"

namespace backbeat {

namespace {

struct Moments {
  Tensor mean, variance, centred;
};

Moments moments(Tensor x, const Dims& axes) {
  const Tensor average = mean(x, axes);
  const Tensor centred = x - broadcast_back(average, x.shape(), axes);
  return {average, mean(square(centred), axes), centred};
}

Tensor scaled(Tensor centred, Tensor variance, const Dims& axes, double epsilon) {
  return centred * broadcast_back(rsqrt(variance + epsilon), centred.shape(), axes);
}

Tensor affine(const Parameters& p, const std::string& layer, Tensor x) {
  if (p.contains(layer + "/scale")) x = x * p(layer + "/scale");
  if (p.contains(layer + "/offset")) x = x + p(layer + "/offset");
  return x;
}

// All axes but the last, from `first` on.
Dims positions(Tensor x, int64_t first) {
  Dims axes;
  for (int64_t i = first; i < x.rank() - 1; ++i) axes.push_back(i);
  return axes;
}

void check_channels(const char* where, const Tensor& x, int64_t least_rank) {
  if (x.rank() < least_rank) fail(where, "expected ", least_rank == 2 ? "[n, ..., c]" : "[n, positions..., c]", ", got ", x);
}

}  // namespace

std::vector<ParameterSpec> norm_parameters(const std::string& layer, const Shape& shape) {
  return {{layer + "/scale", shape, initial::constant(1)}, {layer + "/offset", shape}};
}

Tensor layer_norm(const Parameters& p, const std::string& layer, Tensor x, const Dims& axes, double epsilon) {
  Scope network(p.network()), scope(layer);
  const Moments m = moments(x, axes);
  return affine(p, layer, scaled(m.centred, m.variance, axes, epsilon));
}

Tensor group_norm(const Parameters& p, const std::string& layer, Tensor x, int64_t groups, double epsilon) {
  Scope network(p.network()), scope(layer);
  check_channels("group_norm", x, 2);
  const int64_t channels = x.dim(x.rank() - 1);
  if (groups < 1 || channels % groups != 0) fail("group_norm", channels, " channels of ", x, " make no ", groups, " groups");
  Shape split = x.shape();
  split[split.size() - 1] = groups;
  split.push_back(channels / groups);
  const Tensor y = reshape(x, split);
  Dims axes = positions(x, 1);
  axes.push_back(split.size() - 1);
  const Moments m = moments(y, axes);
  return affine(p, layer, reshape(scaled(m.centred, m.variance, axes, epsilon), x.shape()));
}

Tensor instance_norm(const Parameters& p, const std::string& layer, Tensor x, double epsilon) {
  check_channels("instance_norm", x, 3);
  return layer_norm(p, layer, x, positions(x, 1), epsilon);
}

std::vector<ParameterSpec> batch_norm_parameters(const std::string& layer, int64_t channels) {
  std::vector<ParameterSpec> specs = norm_parameters(layer, {channels});
  specs.push_back({layer + "/moving_mean", {channels}, initial::constant(0), false});
  specs.push_back({layer + "/moving_variance", {channels}, initial::constant(1), false});
  return specs;
}

Tensor batch_norm(const Parameters& p, const std::string& layer, Tensor x, double epsilon) {
  check_channels("batch_norm", x, 2);
  return layer_norm(p, layer, x, positions(x, 0), epsilon);
}

Tensor batch_norm_training(Recorder& r, const Parameters& p, const std::string& layer, Tensor x, const BatchNorm& options) {
  Scope network(p.network()), scope(layer);
  check_channels("batch_norm", x, 2);
  const Dims axes = positions(x, 0);
  const Moments m = moments(x, axes);
  double count = 1;
  for (int64_t axis : axes) count *= static_cast<double>(x.dim(axis));
  const auto move = [&](const char* name, Tensor statistic) {
    const Tensor average = p(layer + '/' + name);
    r.update(p.network() + '/' + layer + '/' + name, options.decay * average + (1 - options.decay) * statistic);
  };
  move("moving_mean", m.mean);
  move("moving_variance", count > 1 ? m.variance * (count / (count - 1)) : m.variance);
  return affine(p, layer, scaled(m.centred, m.variance, axes, options.epsilon));
}

Tensor batch_norm_inference(const Parameters& p, const std::string& layer, Tensor x, double epsilon) {
  Scope network(p.network()), scope(layer);
  check_channels("batch_norm", x, 2);
  return affine(p, layer, (x - p(layer + "/moving_mean")) * rsqrt(p(layer + "/moving_variance") + epsilon));
}

Tensor local_response_norm(Operand x, const LocalResponseNorm& options) {
  const RecordedAt at(x.where);
  if (x.rank() < 1 || options.radius < 0)
    fail("local_response_norm", "expected [..., c] and a radius of at least 0, got ", x, " and ", options.radius);
  const int64_t last = x.rank() - 1;
  const Dims ones = Dims::filled(x.rank(), 1);
  WindowDims window{Reduction::sum, ones, ones, Dims::filled(x.rank(), 0), Dims::filled(x.rank(), 0), ones, ones};
  window.window[last] = 2 * options.radius + 1;
  window.pad_low[last] = window.pad_high[last] = options.radius;
  const Tensor size = options.bias + options.alpha * reduce_window(square(x), window);
  return x * power(size, scalar_like(x, -options.beta));
}

}  // namespace backbeat
