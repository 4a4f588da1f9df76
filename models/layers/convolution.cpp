#include "models/layers/convolution.hpp"

#include "engine/ops.hpp"

namespace backbeat {

namespace {

const ConvLayout image_layout{0, 3, {1, 2}}, weight_layout{3, 2, {0, 1}};

// Height and width of the kernel with its dilation.
Dims extent_of(const char* where, const Tensor& x, const Tensor& weight, const Conv2d& options) {
  if (x.rank() != 4 || weight.rank() != 4)
    fail(where, "expected an image [n, h, w, in] and a kernel [h, w, in, out], got ", x, " and ", weight);
  if (options.dilation.size() != 2) fail(where, "expected 2 dilations, got ", options.dilation);
  return {dilated_size(weight.dim(0), options.dilation[0]), dilated_size(weight.dim(1), options.dilation[1])};
}

Tensor with_bias(const Parameters& p, const std::string& layer, Tensor y) {
  return p.contains(layer + "/bias") ? y + p(layer + "/bias") : y;
}

}  // namespace

std::vector<ParameterSpec> conv2d_parameters(const std::string& layer, int64_t height, int64_t width, int64_t in, int64_t out,
                                             Initial weight) {
  return {{layer + "/weight", {height, width, in, out}, weight}, {layer + "/bias", {out}}};
}

Tensor conv2d(Tensor x, Tensor weight, const Conv2d& options) {
  const Dims extent = extent_of("conv2d", x, weight, options);
  const Padding padding = padding_of(options.padding, {x.dim(1), x.dim(2)}, extent, options.strides);
  const ConvDims dims{image_layout, weight_layout, image_layout, options.strides, padding.low, padding.high,
                      {1, 1}, options.dilation, options.groups, 1, options.precision};
  return convolution(x, weight, dims);
}

Tensor conv2d(const Parameters& p, const std::string& layer, Tensor x, const Conv2d& options) {
  Scope network(p.network()), scope(layer);
  return with_bias(p, layer, conv2d(x, p(layer + "/weight"), options));
}

Tensor conv2d_transposed(const Parameters& p, const std::string& layer, Tensor x, const Dims& out_size, const Conv2d& options) {
  Scope network(p.network()), scope(layer);
  const Tensor weight = p(layer + "/weight");
  const Dims extent = extent_of("conv2d_transposed", x, weight, options);
  if (!out_size.empty() && out_size.size() != 2) fail("conv2d_transposed", "expected 2 output sizes, got ", out_size);
  const bool same = options.padding.kind == Padding::Kind::same;
  const Dims& strides = options.strides;
  Dims full;  // what the stride alone makes of x; the padding of `same` is that of an image of this size
  for (int64_t i : {0, 1}) full.push_back(x.dim(i + 1) * (strides.size() == 2 ? strides[i] : 1));
  const Padding padding = padding_of(options.padding, full, extent, strides);
  ConvDims dims{image_layout, weight_layout, image_layout, {1, 1}, {}, {}, strides, options.dilation, options.groups, 1,
                options.precision};
  for (int64_t i : {0, 1}) {
    const int64_t spread = (x.dim(i + 1) - 1) * strides[i];
    const int64_t usual = same ? full[i] : spread + extent[i] - padding.low[i] - padding.high[i];
    const int64_t size = out_size.empty() ? usual : out_size[i];
    const int64_t most = same ? usual : usual + strides[i] - 1, least = same ? 1 : usual;
    if (size < least || size > most)
      fail("conv2d_transposed", x, " with stride ", strides[i], " gives ", least, " to ", most, " pixels, asked for ", size);
    const int64_t low = extent[i] - 1 - padding.low[i];
    dims.pad_low.push_back(low);
    dims.pad_high.push_back(size + extent[i] - 2 - spread - low);
  }
  return with_bias(p, layer, convolution(x, weight, dims));
}

}  // namespace backbeat
