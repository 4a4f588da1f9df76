#include "models/layers/activation.hpp"

#include <limits>
#include <numbers>

namespace backbeat {

Tensor gelu(Operand x) {
  const RecordedAt at(x.where);
  return 0.5 * x * (1.0 + erf(x * (1 / std::numbers::sqrt2)));
}

Tensor elu(Operand x) {
  const RecordedAt at(x.where);
  const Tensor positive = x > 0.0;
  return select(positive, x, expm1(select(positive, zeros_like(x), x)));  // a large x would overflow in the branch not taken
}

Tensor silu(Operand x) {
  const RecordedAt at(x.where);
  return x * logistic(x);
}

Tensor hard_sigmoid(Operand x) {
  const RecordedAt at(x.where);
  return clamp(0.0, 0.2 * x + 0.5, 1.0);
}

Tensor broadcast_back(Operand reduced, const Shape& shape, const Dims& axes) {
  const RecordedAt at(reduced.where);
  Dims kept;
  for (int64_t i = 0; i < shape.size(); ++i)
    if (!axes.contains(i)) kept.push_back(i);
  return broadcast_in_dim(reduced, shape, kept);
}

namespace {
// The largest element along the axis. Where there is none below infinity, 0, so that no difference is NaN.
Tensor shift(Tensor x, int64_t axis) {
  const Tensor largest = stop_gradient(reduce(x, Reduction::max, {axis}));
  return select(is_finite(largest), largest, zeros_like(largest));
}
}  // namespace

Tensor log_sum_exp(Operand x, int64_t axis) {
  const RecordedAt at(x.where);
  const Tensor largest = shift(x, axis);
  return largest + log(reduce_sum(exp(x - broadcast_back(largest, x.shape(), {axis})), {axis}));
}

Tensor log_softmax(Operand x, int64_t axis) {
  const RecordedAt at(x.where);
  const Tensor shifted = x - broadcast_back(shift(x, axis), x.shape(), {axis});
  return shifted - broadcast_back(log(reduce_sum(exp(shifted), {axis})), x.shape(), {axis});
}

Tensor softmax(Operand x, int64_t axis) {
  const RecordedAt at(x.where);
  const Tensor weights = exp(x - broadcast_back(shift(x, axis), x.shape(), {axis}));
  return weights / broadcast_back(reduce_sum(weights, {axis}), x.shape(), {axis});
}

Tensor masked_softmax(Operand x, Operand mask, int64_t axis) {
  const RecordedAt at(x.where);
  if (mask.dtype() != DType::boolean) fail("masked_softmax", "expected a bool mask, got ", mask);
  const Tensor holds = broadcast_to(mask, x.shape());
  const Tensor masked = select(holds, x, scalar_like(x, -std::numeric_limits<double>::infinity()));
  const Tensor weights =
      select(holds, exp(masked - broadcast_back(shift(masked, axis), x.shape(), {axis})), zeros_like(x));
  const Tensor total = reduce_sum(weights, {axis});
  return weights / broadcast_back(select(total > 0.0, total, ones_like(total)), x.shape(), {axis});
}

}  // namespace backbeat
