#include "models/losses.hpp"

#include <limits>

#include "models/layers/activation.hpp"

namespace backbeat {

namespace {
void check_logits(const char* where, const Tensor& logits, bool fits, const Tensor& other) {
  if (logits.rank() != 2 || !is_float(logits.dtype()) || !fits)
    fail(where, "expected logits [n, classes] and their labels or targets, got ", logits, " and ", other);
}

// What numbers of an integer dtype are compared in: to convert i64 would make a small number of a large one.
DType index_dtype(DType dtype) { return dtype == DType::i64 ? DType::i64 : DType::i32; }
}  // namespace

Tensor softmax_cross_entropy(Operand logits, Operand labels) {
  const RecordedAt at(logits.where);
  check_logits("softmax_cross_entropy", logits,
               is_integer(labels.dtype()) && logits.rank() == 2 && labels.shape() == Shape{logits.dim(0)}, labels);
  const DType index = index_dtype(labels.dtype());
  const Tensor wanted = broadcast_in_dim(convert(labels, index), logits.shape(), {0});
  const Tensor here = compare(iota(logits.tape(), index, logits.shape(), 1), wanted, Direction::eq);
  const Tensor label_logit = reduce_sum(select(here, logits, zeros_like(logits)), {1});
  const Tensor known = reduce(convert(here, DType::i32), Reduction::max, {1}) > 0.0;
  const Tensor nan = full(logits.tape(), logits.dtype(), {}, std::numeric_limits<double>::quiet_NaN());
  return select(known, log_sum_exp(logits, 1) - label_logit, nan);
}

Tensor soft_cross_entropy(Operand logits, Operand targets) {
  const RecordedAt at(logits.where);
  check_logits("soft_cross_entropy", logits, targets.shape() == logits.shape(), targets);
  return -reduce_sum(targets * log_softmax(logits, 1), {1});
}

Tensor binary_cross_entropy(Operand logits, Operand targets) {
  const RecordedAt at(logits.where);
  const Tensor of_ones = targets * softplus(-logits), of_zeros = (1.0 - targets) * softplus(logits);
  return of_ones + of_zeros;
}

Tensor squared_error(Operand prediction, Operand target) {
  const RecordedAt at(prediction.where);
  return square(prediction - target);
}

Tensor masked_mean(Operand values, Operand count) {
  const RecordedAt at(values.where);
  if (values.rank() < 1 || !is_float(values.dtype()) || count.rank() != 0 || !is_integer(count.dtype()))
    fail("masked_mean", "expected values [n, ...] and a count, an integer [], got ", values, " and ", count);
  const DType index = index_dtype(count.dtype());
  const Tensor valid = convert(count, index);
  const Tensor inside = iota(values.tape(), index, values.shape(), 0) < valid;
  const Tensor total = sum(select(inside, values, zeros_like(values)));
  const Tensor samples = maximum(valid, scalar_like(valid, 1));
  const double rest = values.dim(0) == 0 ? 1 : static_cast<double>(values.size() / values.dim(0));
  return total / (convert(samples, values.dtype()) * rest);
}

Tensor l2_loss(const std::vector<Tensor>& weights, double decay) {
  if (weights.empty()) fail("l2_loss", "there are no weights");
  Tensor total;
  for (Tensor w : weights) {
    const Tensor squares = sum(square(w));
    total = total.defined() ? total + squares : squares;
  }
  return total * (decay / 2);
}

}  // namespace backbeat
