// What the recording functions share: checks, and the node itself.
#pragma once
#include "engine/ops.hpp"

namespace backbeat {

inline const char* tag(Op op) { return name_of(op).data(); }

inline void check_defined(Op op, const Tensor& x) {
  if (!x.defined()) fail(tag(op), "an operand is no tensor (an input without a cotangent?)");
}

inline void check_same_tape(Op op, const Tensor& a, const Tensor& b) {
  check_defined(op, a), check_defined(op, b);
  if (&a.tape() != &b.tape())
    fail(tag(op), "operands come from two tapes (", a, " and ", b,
         "): a gradient taken outside the tape cannot be differentiated on it");
}

inline void check_sizes(Op op, const Shape& shape) {
  for (int64_t d : shape)
    if (d < 0) fail(tag(op), "negative dimension in shape ", shape);
}

inline void check_axis(Op op, const Tensor& x, int64_t axis) {
  if (axis < 0 || axis >= x.rank()) fail(tag(op), "axis ", axis, " is outside of ", x);
}

inline void check_axes(Op op, const Tensor& x, const Dims& axes) {
  for (int64_t i = 0; i < axes.size(); ++i) {
    check_axis(op, x, axes[i]);
    for (int64_t j = 0; j < i; ++j)
      if (axes[i] == axes[j]) fail(tag(op), "axis ", axes[i], " is named twice in ", axes, " for ", x);
  }
}

inline void check_numbers(Op op, const Tensor& x) {
  if (x.dtype() == DType::boolean) fail(tag(op), "expected numbers, got ", x);
}

inline void check_float(Op op, const Tensor& x) {
  if (!is_float(x.dtype())) fail(tag(op), "expected a floating-point operand, got ", x);
}

inline void check_integers(Op op, const char* what, const Tensor& x) {
  if (!is_integer(x.dtype())) fail(tag(op), what, " must be integers, got ", x);
}

inline Tensor append(Op op, Tensor x, std::vector<NodeId> operands, Attributes attributes, const Shape& shape, DType dtype) {
  return {x.tape(), x.tape().append(op, std::move(operands), std::move(attributes), shape, dtype)};
}

}  // namespace backbeat
