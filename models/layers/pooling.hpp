// Pooling and its opposite, over images [n, h, w, c].
#pragma once
#include "engine/ops.hpp"
#include "models/layers/window.hpp"

namespace backbeat {

struct Pool2d {
  Dims window = {2, 2}, strides = {2, 2};
  Padding padding = Padding::valid();
};

// Padding is never the largest; of equal ones the first takes the cotangent.
Tensor max_pool(Operand x, const Pool2d& options = {});
// The mean of what a window covers of the image: padding is not counted, as in TensorFlow (in PyTorch with
// count_include_pad=False).
Tensor average_pool(Operand x, const Pool2d& options = {});
// Each pixel `factor` times in height and width: the nearest neighbour of Keras' UpSampling2D.
Tensor upsample(Operand x, int64_t factor);

}  // namespace backbeat
