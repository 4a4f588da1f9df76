#include "models/layers/window.hpp"

#include <algorithm>

namespace backbeat {

Padding padding_of(const Padding& padding, const Dims& sizes, const Dims& extent, const Dims& strides) {
  for (const Dims* two : {&sizes, &extent, &strides, &padding.low, &padding.high})
    if (two->size() != 2) fail("padding", "expected 2 values, one a spatial dimension, got ", *two);
  for (int64_t stride : strides)
    if (stride < 1) fail("padding", "strides must be at least 1, got ", strides);
  Padding result = padding;
  result.kind = Padding::Kind::given;
  if (padding.kind != Padding::Kind::same) return result;
  for (int64_t i : {0, 1}) {
    const int64_t out = (sizes[i] + strides[i] - 1) / strides[i];
    const int64_t total = std::max<int64_t>(0, (out - 1) * strides[i] + extent[i] - sizes[i]);
    result.low[i] = total / 2, result.high[i] = total - total / 2;
  }
  return result;
}

}  // namespace backbeat
