// Where the windows of convolutions and pooling lie.
#pragma once
#include "engine/dims.hpp"

namespace backbeat {

// The zeros around an image, before (low) and after (high) each of its two spatial dimensions.
struct Padding {
  // same: as TensorFlow's SAME, a size becomes ceil(size / stride); of an odd total the larger part lies after the image.
  // valid: none. given: low and high.
  enum class Kind : uint8_t { same, valid, given };
  Kind kind = Kind::same;
  Dims low = {0, 0}, high = {0, 0};

  static Padding same() { return {}; }
  static Padding valid() { return {Kind::valid}; }
  static Padding given(const Dims& low, const Dims& high) { return {Kind::given, low, high}; }
  static Padding given(int64_t all) { return given({all, all}, {all, all}); }
};

// The padding of windows of `extent` (dilation included) over an image of these sizes.
Padding padding_of(const Padding& padding, const Dims& sizes, const Dims& extent, const Dims& strides);

}  // namespace backbeat
