#include "models/layers/dropout.hpp"

namespace backbeat {

Tensor dropout(Operand x, double rate, Operand key) {
  const RecordedAt at(x.where);
  if (!(rate >= 0 && rate < 1)) fail("dropout", "the rate must be at least 0 and below 1, got ", rate);
  if (rate == 0) return x;
  const Tensor kept = compare(uniform(key, x.shape()), full(x.tape(), DType::f32, {}, rate), Direction::ge);
  return x * select(kept, scalar_like(x, 1 / (1 - rate)), scalar_like(x, 0));
}

}  // namespace backbeat
