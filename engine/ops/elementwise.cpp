// Elementwise primitives, and numpy's broadcasting as recorded nodes.
#include "engine/ops/record.hpp"

#include <algorithm>
#include <cmath>

namespace backbeat {

namespace {

Tensor unary(Op op, const Operand& x) {
  const RecordedAt at(x.where);
  check_defined(op, x);
  if (op != Op::stop_gradient && op != Op::negate && op != Op::abs && op != Op::sign) check_float(op, x);
  else if (op != Op::stop_gradient) check_numbers(op, x);
  return append(op, x, {x.id()}, {}, x.shape(), x.dtype());
}

Shape broadcast_shape(Op op, Tensor a, Tensor b) {
  if (a.shape() == b.shape()) return a.shape();
  const int64_t rank = std::max(a.rank(), b.rank());
  Shape out = Shape::filled(rank, 1);
  for (int64_t i = 0; i < rank; ++i) {
    const int64_t ia = i - (rank - a.rank()), ib = i - (rank - b.rank());
    const int64_t da = ia < 0 ? 1 : a.dim(ia), db = ib < 0 ? 1 : b.dim(ib);
    if (da != db && da != 1 && db != 1)
      fail(tag(op), "shapes do not broadcast: ", a, " and ", b, " differ in dimension ", i, " (", da, " and ", db, ")");
    out[i] = da == 1 ? db : da;
  }
  return out;
}

struct Pair {
  Tensor a, b;
};

Pair broadcast(Op op, Tensor a, Tensor b) {
  check_same_tape(op, a, b);
  if (a.dtype() != b.dtype()) fail(tag(op), "dtypes differ: ", a, " and ", b, "; convert one of them");
  const Shape shape = broadcast_shape(op, a, b);
  return {broadcast_to(a, shape), broadcast_to(b, shape)};
}

Tensor binary(Op op, const Operand& a, const Operand& b) {
  const RecordedAt at(a.where);
  auto [x, y] = broadcast(op, a, b);
  if (x.dtype() == DType::boolean) fail(tag(op), "expected numbers, got ", a, " and ", b);
  return append(op, x, {x.id(), y.id()}, {}, x.shape(), x.dtype());
}

Tensor bitwise(Op op, const Operand& a, const Operand& b) {
  const RecordedAt at(a.where);
  auto [x, y] = broadcast(op, a, b);
  if (is_float(x.dtype())) fail(tag(op), "expected integers or bool, got ", a, " and ", b);
  return append(op, x, {x.id(), y.id()}, {}, x.shape(), x.dtype());
}

Tensor shift(Op op, const Operand& x, const Operand& bits) {
  const RecordedAt at(x.where);
  check_same_tape(op, x, bits);
  check_integers(op, "the operands", x);
  return binary(op, x, bits);
}

}  // namespace

Tensor constant(Tape& tape, const Array& value, SourceLine where) {
  const RecordedAt at(where);
  if (value.empty()) fail("constant", "the array is empty");
  return {tape, tape.append(Op::constant, {}, value, value.shape(), value.dtype())};
}

Tensor full(Tape& tape, DType dtype, const Shape& shape, double value, SourceLine where) {
  const RecordedAt at(where);
  const Array one = Array::full(dtype, {}, value);
  if (!is_float(dtype) && one.item() != value) fail("constant", value, " is no ", dtype);
  return broadcast_to(constant(tape, one), shape);
}

Tensor iota(Tape& tape, DType dtype, const Shape& shape, int64_t axis, SourceLine where) {
  const RecordedAt at(where);
  check_sizes(Op::iota, shape);
  if (dtype == DType::boolean) fail("iota", "expected a dtype of numbers, got bool");
  if (axis < 0 || axis >= shape.size()) fail("iota", "axis ", axis, " is outside of shape ", shape);
  return {tape, tape.append(Op::iota, {}, Axis{axis}, shape, dtype)};
}

Tensor negate(Operand x) { return unary(Op::negate, x); }
Tensor abs(Operand x) { return unary(Op::abs, x); }
Tensor sign(Operand x) { return unary(Op::sign, x); }
Tensor exp(Operand x) { return unary(Op::exp, x); }
Tensor expm1(Operand x) { return unary(Op::expm1, x); }
Tensor log(Operand x) { return unary(Op::log, x); }
Tensor log1p(Operand x) { return unary(Op::log1p, x); }
Tensor sqrt(Operand x) { return unary(Op::sqrt, x); }
Tensor rsqrt(Operand x) { return unary(Op::rsqrt, x); }
Tensor tanh(Operand x) { return unary(Op::tanh, x); }
Tensor logistic(Operand x) { return unary(Op::logistic, x); }
Tensor erf(Operand x) { return unary(Op::erf, x); }
Tensor sine(Operand x) { return unary(Op::sine, x); }
Tensor cosine(Operand x) { return unary(Op::cosine, x); }
Tensor floor(Operand x) { return unary(Op::floor, x); }
Tensor ceil(Operand x) { return unary(Op::ceil, x); }
Tensor round_nearest_even(Operand x) { return unary(Op::round_nearest_even, x); }
Tensor stop_gradient(Operand x) { return unary(Op::stop_gradient, x); }

Tensor is_finite(Operand x) {
  const RecordedAt at(x.where);
  check_defined(Op::is_finite, x), check_float(Op::is_finite, x);
  return append(Op::is_finite, x, {x.id()}, {}, x.shape(), DType::boolean);
}

Tensor logical_not(Operand x) {
  const RecordedAt at(x.where);
  check_defined(Op::logical_not, x);
  if (x.dtype() != DType::boolean) fail("logical_not", "expected bool, got ", x);
  return append(Op::logical_not, x, {x.id()}, {}, x.shape(), x.dtype());
}

Tensor convert(Operand x, DType dtype) {
  const RecordedAt at(x.where);
  check_defined(Op::convert, x);
  if (x.dtype() == dtype) return x;
  return append(Op::convert, x, {x.id()}, {}, x.shape(), dtype);
}

Tensor reduce_precision(Operand x, int exponent_bits, int mantissa_bits) {
  const RecordedAt at(x.where);
  check_defined(Op::reduce_precision, x), check_float(Op::reduce_precision, x);
  if (exponent_bits < 1 || exponent_bits > 11 || mantissa_bits < 0 || mantissa_bits > 52)
    fail("reduce_precision", "expected 1 to 11 exponent bits and 0 to 52 mantissa bits, got ", exponent_bits, " and ", mantissa_bits);
  return append(Op::reduce_precision, x, {x.id()}, FloatFormat{exponent_bits, mantissa_bits}, x.shape(), x.dtype());
}

Tensor add(Operand a, Operand b) { return binary(Op::add, a, b); }
Tensor subtract(Operand a, Operand b) { return binary(Op::subtract, a, b); }
Tensor multiply(Operand a, Operand b) { return binary(Op::multiply, a, b); }
Tensor divide(Operand a, Operand b) { return binary(Op::divide, a, b); }
Tensor remainder(Operand a, Operand b) { return binary(Op::remainder, a, b); }
Tensor maximum(Operand a, Operand b) { return binary(Op::maximum, a, b); }
Tensor minimum(Operand a, Operand b) { return binary(Op::minimum, a, b); }
Tensor bitwise_and(Operand a, Operand b) { return bitwise(Op::bitwise_and, a, b); }
Tensor bitwise_or(Operand a, Operand b) { return bitwise(Op::bitwise_or, a, b); }
Tensor bitwise_xor(Operand a, Operand b) { return bitwise(Op::bitwise_xor, a, b); }
Tensor shift_left(Operand x, Operand bits) { return shift(Op::shift_left, x, bits); }
Tensor shift_right_logical(Operand x, Operand bits) { return shift(Op::shift_right_logical, x, bits); }
Tensor shift_right_arithmetic(Operand x, Operand bits) { return shift(Op::shift_right_arithmetic, x, bits); }

Tensor power(Operand a, Operand b) {
  const RecordedAt at(a.where);
  check_same_tape(Op::power, a, b);
  if (!is_float(a.dtype())) fail("power", "expected floating-point operands, got ", a, " and ", b);
  return binary(Op::power, a, b);
}

Tensor compare(Operand a, Operand b, Direction direction) {
  const RecordedAt at(a.where);
  auto [x, y] = broadcast(Op::compare, a, b);
  return append(Op::compare, x, {x.id(), y.id()}, direction, x.shape(), DType::boolean);
}

Tensor select(Operand predicate, Operand on_true, Operand on_false) {
  const RecordedAt at(predicate.where);
  check_same_tape(Op::select, predicate, on_true);
  if (predicate.dtype() != DType::boolean) fail("select", "the predicate must be bool, got ", predicate);
  auto [x, y] = broadcast(Op::select, on_true, on_false);
  const Shape shape = broadcast_shape(Op::select, predicate, x);
  const Tensor p = broadcast_to(predicate, shape);
  x = broadcast_to(x, shape), y = broadcast_to(y, shape);
  return append(Op::select, x, {p.id(), x.id(), y.id()}, {}, shape, x.dtype());
}

Tensor clamp(Operand low, Operand x, Operand high) {
  const RecordedAt at(x.where);
  for (const Operand& bound : {low, high}) {
    check_same_tape(Op::clamp, bound, x);
    if (bound.dtype() != x.dtype()) fail("clamp", "dtypes differ: ", x, " between ", low, " and ", high, "; convert them");
    if (broadcast_shape(Op::clamp, bound, x) != x.shape())
      fail("clamp", "the bounds ", low, " and ", high, " must broadcast to ", x);
  }
  check_numbers(Op::clamp, x);
  return append(Op::clamp, x, {broadcast_to(low, x.shape()).id(), x.id(), broadcast_to(high, x.shape()).id()}, {}, x.shape(),
                x.dtype());
}

Tensor clamp(double low, Operand x, double high) {
  const RecordedAt at(x.where);
  check_defined(Op::clamp, x);
  return clamp(scalar_like(x, low), x, scalar_like(x, high));
}

}  // namespace backbeat
