// Convolutions over images and their transposes.
#pragma once
#include "models/layers/window.hpp"
#include "models/parameters.hpp"

namespace backbeat {

struct Conv2d {
  Dims strides = {1, 1};
  Padding padding = Padding::same();
  Dims dilation = {1, 1};  // of the kernel
  int64_t groups = 1;      // channels in as many parts, each with its own part of the kernels
  Precision precision = Precision::standard;
};

// LAYER/weight [height, width, in / groups, out], LAYER/bias [out] from 0.
std::vector<ParameterSpec> conv2d_parameters(const std::string& layer, int64_t height, int64_t width, int64_t in, int64_t out,
                                             Initial weight);
// x [n, h, w, in] -> [n, h', w', out], a cross-correlation; the bias is optional.
Tensor conv2d(const Parameters& p, const std::string& layer, Tensor x, const Conv2d& options = {});
Tensor conv2d(Tensor x, Tensor weight, const Conv2d& options = {});

// The transpose of the conv2d with these options: x [n, h, w, in] -> [n, out_size..., out]. The kernel LAYER/weight
// [height, width, in / groups, out] is laid over x with zeros between its pixels as it is, which is TensorFlow's and
// PyTorch's kernel mirrored in height and width. An empty out_size takes the usual one: h * stride for same, else
// (h - 1) * stride + extent - low - high. For same a smaller one crops at the bottom and right; else it may exceed the
// usual one by less than a stride (PyTorch's output_padding).
Tensor conv2d_transposed(const Parameters& p, const std::string& layer, Tensor x, const Dims& out_size = {},
                         const Conv2d& options = {});

}  // namespace backbeat
