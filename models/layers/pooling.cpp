#include "models/layers/pooling.hpp"

#include <algorithm>

namespace backbeat {

namespace {

WindowDims window_of(const char* where, const Operand& x, const Pool2d& options, Reduction kind) {
  if (x.rank() != 4) fail(where, "expected an image [n, h, w, c], got ", x);
  const Padding padding = padding_of(options.padding, {x.dim(1), x.dim(2)}, options.window, options.strides);
  const auto spatial = [](const Dims& two, int64_t others) { return Dims{others, two[0], two[1], others}; };
  return {kind, spatial(options.window, 1), spatial(options.strides, 1), spatial(padding.low, 0), spatial(padding.high, 0),
          {1, 1, 1, 1}, {1, 1, 1, 1}};
}

}  // namespace

Tensor max_pool(Operand x, const Pool2d& options) {
  const RecordedAt at(x.where);
  return reduce_window(x, window_of("max_pool", x, options, Reduction::max));
}

Tensor average_pool(Operand x, const Pool2d& options) {
  const RecordedAt at(x.where);
  const WindowDims dims = window_of("average_pool", x, options, Reduction::sum);
  const Tensor sums = reduce_window(x, dims);
  // How many pixels of the image a window covers, along one dimension.
  const auto covered = [&](int64_t axis, int64_t o) {
    const int64_t first = o * dims.strides[axis] - dims.pad_low[axis];
    return std::min(first + dims.window[axis], x.dim(axis)) - std::max<int64_t>(first, 0);
  };
  Array share(x.dtype(), {1, sums.dim(1), sums.dim(2), 1});
  for (int64_t i = 0; i < share.size(); ++i) {
    const int64_t pixels = covered(1, i / sums.dim(2)) * covered(2, i % sums.dim(2));
    share.set(i, 1.0 / static_cast<double>(std::max<int64_t>(pixels, 1)));
  }
  return sums * constant(x.tape(), share);
}

Tensor upsample(Operand x, int64_t factor) {
  const RecordedAt at(x.where);
  if (x.rank() != 4 || factor < 1)
    fail("upsample", "expected an image [n, h, w, c] and a factor of at least 1, got ", x, " and ", factor);
  const int64_t n = x.dim(0), h = x.dim(1), w = x.dim(2), c = x.dim(3);
  return reshape(broadcast_in_dim(x, {n, h, factor, w, factor, c}, {0, 1, 3, 5}), {n, h * factor, w * factor, c});
}

}  // namespace backbeat
