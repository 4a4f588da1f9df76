// What is composed of primitives, and so needs no derivative of its own; and random numbers.
#include "engine/composite.hpp"
#include "engine/ops/record.hpp"

#include <algorithm>
#include <numbers>

namespace backbeat {

Tensor rng_bit_generator(Operand key, const Shape& shape) {
  const RecordedAt at(key.where);
  check_defined(Op::rng_bit_generator, key);
  if (key.dtype() != DType::u32 || key.shape() != Shape{5}) fail("rng_bit_generator", "expected a key u32[5], got ", key);
  if (shape.empty()) fail("rng_bit_generator", "the result needs a first dimension, the sample");
  check_sizes(Op::rng_bit_generator, shape);
  return append(Op::rng_bit_generator, key, {key.id()}, {}, shape, DType::u32);
}

namespace {
Dims all_axes(Tensor x) { return x.defined() ? Dims::range(x.rank()) : Dims(); }  // reduce refuses what is no tensor
}  // namespace

Tensor sum(Operand x) {
  const RecordedAt at(x.where);
  return reduce_sum(x, all_axes(x));
}
Tensor mean(Operand x) {
  const RecordedAt at(x.where);
  return mean(x, all_axes(x));
}

Tensor mean(Operand x, const Dims& axes) {
  const RecordedAt at(x.where);
  const Tensor total = reduce_sum(x, axes);  // its errors first
  if (!is_float(x.dtype())) fail("mean", "expected a floating-point operand, got ", x);
  int64_t count = 1;
  for (int64_t axis : axes) count *= x.dim(axis);
  if (count == 0) fail("mean", "no elements in ", x);
  return total * (1.0 / static_cast<double>(count));
}

Tensor square(Operand x) {
  const RecordedAt at(x.where);
  return x * x;
}

Tensor norm(Operand x, const Dims& axes) {
  const RecordedAt at(x.where);
  const Tensor squares = reduce_sum(square(x), axes);
  const Tensor nothing = compare(squares, scalar_like(squares, 0), Direction::eq);  // false for NaN, which stays
  const Tensor root = sqrt(select(nothing, 1.0, squares));
  return select(nothing, 0.0, root);
}

Tensor leaky_relu(Operand x, double slope) {
  const RecordedAt at(x.where);
  // A product with a factor that has no derivative: nothing of second order runs back through x.
  return x * select(x > 0.0, scalar_like(x, 1), scalar_like(x, slope));
}

Tensor relu(Operand x) {
  const RecordedAt at(x.where);
  return select(x <= 0.0, 0.0, x);  // NaN stays
}

std::vector<Tensor> split(Operand x, const std::vector<int64_t>& sizes, int64_t axis) {
  const RecordedAt at(x.where);
  check_defined(Op::slice, x);
  if (axis < 0 || axis >= x.rank()) fail("split", "axis ", axis, " is outside of ", x);
  int64_t total = 0;
  for (int64_t size : sizes) total += size;
  if (sizes.empty() || total != x.dim(axis) || *std::min_element(sizes.begin(), sizes.end()) < 0)
    fail("split", "the parts of ", x, " along axis ", axis, " add up to ", total, ", expected ", x.dim(axis));
  const auto parts = [=](const std::vector<Tensor>& operands) {
    const Tensor whole = operands[0];
    std::vector<Tensor> result;
    int64_t start = 0;
    for (int64_t size : sizes) result.push_back(slice_in_dim(whole, start, start + size, axis)), start += size;
    return result;
  };
  CallOptions linear;
  linear.vjp = [=](const CompositeCall& c) {
    std::vector<Tensor> cotangents;
    for (size_t i = 0; i < c.seeds.size(); ++i) cotangents.push_back(c.seeds[i].defined() ? c.seeds[i] : zeros_like(c.results[i]));
    return std::vector{concatenate(cotangents, axis)};
  };
  linear.jvp = [=](const CompositeCall& c) { return split(c.seeds[0], sizes, axis); };
  return call("split", parts, {x}, linear, x.where);
}

std::vector<Tensor> split(Operand x, int64_t parts, int64_t axis) {
  const RecordedAt at(x.where);
  check_defined(Op::slice, x);
  if (axis < 0 || axis >= x.rank()) fail("split", "axis ", axis, " is outside of ", x);
  if (parts < 1 || x.dim(axis) % parts != 0) fail("split", x, " dim ", axis, " cannot be cut into ", parts, " equal parts");
  return split(x, std::vector<int64_t>(static_cast<size_t>(parts), x.dim(axis) / parts), axis);
}

Tensor softplus(Operand x) {
  const RecordedAt at(x.where);
  // log(1 + exp(x)), smooth to every order; above the threshold 1 + exp(-x) rounds to 1, and the identity is exact.
  Tensor large = x > (x.dtype() == DType::f64 ? 37 : 17);
  return select(large, x, log1p(exp(select(large, zeros_like(x), x))));
}

Tensor uniform(Operand key, const Shape& shape) {
  const RecordedAt at(key.where);
  Tensor bits = rng_bit_generator(key, shape);
  Tensor top = shift_right_logical(bits, full(key.tape(), DType::u32, {}, 9));
  return convert(top, DType::f32) * 0x1p-23;
}

Tensor normal(Operand key, const Shape& shape) {
  const RecordedAt at(key.where);
  if (shape.size() < 1) fail("normal", "the result needs a first dimension, the sample");
  // Pairs of uniforms, one axis in front of the others so that a sample keeps its own words.
  Shape pairs{shape[0], 2};
  for (int64_t i = 1; i < shape.size(); ++i) pairs.push_back(shape[i]);
  Tensor u = uniform(key, pairs);
  auto half = [&](int64_t which) { return reshape(slice_in_dim(u, which, which + 1, 1), shape); };
  Tensor radius = sqrt(-2.0 * log(1.0 - half(0)));  // 1 - u lies in (0, 1]
  return radius * cosine(half(1) * (2 * std::numbers::pi));
}

}  // namespace backbeat
