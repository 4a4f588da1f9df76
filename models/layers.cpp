#include "models/layers.hpp"

#include <algorithm>
#include <cmath>

#include "engine/ops.hpp"
#include "models/data/rng.hpp"

namespace backbeat {

namespace {

// A stream of random numbers for each parameter name (FNV-1a), so that adding a layer does not move the others.
uint32_t stream_of(const std::string& name) {
  uint32_t h = 2166136261u;
  for (unsigned char c : name) h = (h ^ c) * 16777619u;
  return h;
}

const ConvLayout image_layout{0, 3, {1, 2}}, weight_layout{3, 2, {0, 1}};

// Padding before the first element when SAME maps `size` to ceil(size / stride).
int64_t same_padding_total(int64_t size, int64_t kernel, int64_t stride) {
  const int64_t out = (size + stride - 1) / stride;
  return std::max<int64_t>(0, (out - 1) * stride + kernel - size);
}

}  // namespace

Parameters::Parameters(Recorder& recorder, std::string network, const std::vector<ParameterSpec>& specs)
    : network_(std::move(network)) {
  for (const ParameterSpec& spec : specs) {
    names_.push_back(network_ + '/' + spec.name);
    tensors_.push_back(recorder.state(names_.back(), DType::f32, spec.shape));
  }
}

Tensor Parameters::operator()(const std::string& name) const {
  const auto found = std::find(names_.begin(), names_.end(), network_ + '/' + name);
  if (found == names_.end()) fail("parameters", network_, " has no parameter '", name, "'");
  return tensors_[static_cast<size_t>(found - names_.begin())];
}

void initialize(StateStore& store, const std::string& network, const std::vector<ParameterSpec>& specs, uint64_t seed) {
  for (const ParameterSpec& spec : specs) {
    const std::string name = network + '/' + spec.name;
    Array value = Array::zeros(DType::f32, spec.shape);
    if (spec.deviation > 0) {
      HostRandom random(seed, stream_of(name), 0);
      float* out = value.data<float>();
      for (int64_t i = 0; i < value.size(); ++i)
        out[i] = static_cast<float>((2 * random.uniform() - 1) * spec.deviation * std::sqrt(3.0));
    }
    store.set(name, value);
  }
}

double he_deviation(int64_t fan_in) { return std::sqrt(2.0 / static_cast<double>(fan_in)); }
double glorot_deviation(double fan_in, double fan_out) { return std::sqrt(2.0 / (fan_in + fan_out)); }
double he_glorot_deviation(double fan_in, double fan_out) { return std::sqrt(4.0 / (fan_in + fan_out)); }

Tensor dense(const Parameters& p, const std::string& layer, Tensor x, Precision precision) {
  Scope network(p.network()), scope(layer);
  return matmul(x, p(layer + "/weight"), precision) + p(layer + "/bias");
}

Tensor conv2d(const Parameters& p, const std::string& layer, Tensor x, int64_t stride, Precision precision) {
  Scope network(p.network()), scope(layer);
  const Tensor weight = p(layer + "/weight");
  ConvDims dims{image_layout, weight_layout, image_layout, {stride, stride}, {}, {}, {1, 1}, {1, 1}, 1, 1, precision};
  for (int64_t axis : {0, 1}) {
    const int64_t total = same_padding_total(x.dim(axis + 1), weight.dim(axis), stride);
    dims.pad_low.push_back(total / 2);
    dims.pad_high.push_back(total - total / 2);
  }
  return convolution(x, weight, dims) + p(layer + "/bias");
}

Tensor conv2d_transposed(const Parameters& p, const std::string& layer, Tensor x, int64_t stride, int64_t out_size,
                         Precision precision) {
  Scope network(p.network()), scope(layer);
  const Tensor weight = p(layer + "/weight");
  ConvDims dims{image_layout, weight_layout, image_layout, {1, 1}, {}, {}, {stride, stride}, {1, 1}, 1, 1, precision};
  for (int64_t axis : {0, 1}) {
    const int64_t kernel = weight.dim(axis), size = x.dim(axis + 1), full_size = size * stride;
    if (out_size > full_size)
      fail("conv2d_transposed", x, " with stride ", stride, " gives at most ", full_size, " pixels, asked for ", out_size);
    const int64_t low = kernel - 1 - same_padding_total(full_size, kernel, stride) / 2;
    dims.pad_low.push_back(low);
    dims.pad_high.push_back(out_size + kernel - 2 - (size - 1) * stride - low);
  }
  return convolution(x, weight, dims) + p(layer + "/bias");
}

}  // namespace backbeat
