// Elementwise primitives, and numpy's broadcasting as recorded nodes.
#include "engine/ops.hpp"

#include <algorithm>
#include <cmath>

namespace backbeat {

namespace {

void check_same_tape(Op op, Tensor a, Tensor b) {
  if (!a.defined() || !b.defined()) fail(name_of(op).data(), "an operand is no tensor (an input without a cotangent?)");
  if (&a.tape() != &b.tape())
    fail(name_of(op).data(), "operands come from two tapes (", a, " and ", b,
         "): a gradient taken outside the tape cannot be differentiated on it");
}

void check_defined(Op op, Tensor x) {
  if (!x.defined()) fail(name_of(op).data(), "the operand is no tensor (an input without a cotangent?)");
}

Tensor unary(Op op, Tensor x) {
  check_defined(op, x);
  if (!is_float(x.dtype()) && op != Op::stop_gradient && op != Op::negate && op != Op::abs && op != Op::sign)
    fail(name_of(op).data(), "expected a floating-point operand, got ", x);
  return {x.tape(), x.tape().append(op, {x.id()}, {}, x.shape(), x.dtype())};
}

Shape broadcast_shape(Op op, Tensor a, Tensor b) {
  if (a.shape() == b.shape()) return a.shape();
  const int64_t rank = std::max(a.rank(), b.rank());
  Shape out = Shape::filled(rank, 1);
  for (int64_t i = 0; i < rank; ++i) {
    const int64_t ia = i - (rank - a.rank()), ib = i - (rank - b.rank());
    const int64_t da = ia < 0 ? 1 : a.dim(ia), db = ib < 0 ? 1 : b.dim(ib);
    if (da != db && da != 1 && db != 1)
      fail(name_of(op).data(), "shapes do not broadcast: ", a, " and ", b, " differ in dimension ", i, " (", da, " and ", db, ")");
    out[i] = da == 1 ? db : da;
  }
  return out;
}

struct Pair {
  Tensor a, b;
};

Pair broadcast(Op op, Tensor a, Tensor b) {
  check_same_tape(op, a, b);
  if (a.dtype() != b.dtype()) fail(name_of(op).data(), "dtypes differ: ", a, " and ", b, "; convert one of them");
  const Shape shape = broadcast_shape(op, a, b);
  return {broadcast_to(a, shape), broadcast_to(b, shape)};
}

Tensor binary(Op op, Tensor a, Tensor b) {
  auto [x, y] = broadcast(op, a, b);
  if (x.dtype() == DType::boolean) fail(name_of(op).data(), "expected numbers, got ", a, " and ", b);
  return {x.tape(), x.tape().append(op, {x.id(), y.id()}, {}, x.shape(), x.dtype())};
}

}  // namespace

Tensor constant(Tape& tape, const Array& value) {
  return {tape, tape.append(Op::constant, {}, value, value.shape(), value.dtype())};
}

Tensor full(Tape& tape, DType dtype, const Shape& shape, double value) {
  if (!is_float(dtype) && value != std::trunc(value)) fail("constant", value, " is no ", dtype);
  return broadcast_to(constant(tape, Array::full(dtype, {}, value)), shape);
}

Tensor iota(Tape& tape, DType dtype, const Shape& shape, int64_t axis) {
  for (int64_t d : shape)
    if (d < 0) fail("iota", "negative dimension in shape ", shape);
  if (axis < 0 || axis >= shape.size()) fail("iota", "axis ", axis, " is outside of shape ", shape);
  return {tape, tape.append(Op::iota, {}, Axis{axis}, shape, dtype)};
}

Tensor negate(Tensor x) { return unary(Op::negate, x); }
Tensor abs(Tensor x) { return unary(Op::abs, x); }
Tensor sign(Tensor x) { return unary(Op::sign, x); }
Tensor exp(Tensor x) { return unary(Op::exp, x); }
Tensor log(Tensor x) { return unary(Op::log, x); }
Tensor sqrt(Tensor x) { return unary(Op::sqrt, x); }
Tensor rsqrt(Tensor x) { return unary(Op::rsqrt, x); }
Tensor tanh(Tensor x) { return unary(Op::tanh, x); }
Tensor logistic(Tensor x) { return unary(Op::logistic, x); }
Tensor sine(Tensor x) { return unary(Op::sine, x); }
Tensor cosine(Tensor x) { return unary(Op::cosine, x); }
Tensor stop_gradient(Tensor x) { return unary(Op::stop_gradient, x); }

Tensor logical_not(Tensor x) {
  check_defined(Op::logical_not, x);
  if (x.dtype() != DType::boolean) fail("logical_not", "expected bool, got ", x);
  return {x.tape(), x.tape().append(Op::logical_not, {x.id()}, {}, x.shape(), x.dtype())};
}

Tensor convert(Tensor x, DType dtype) {
  check_defined(Op::convert, x);
  if (x.dtype() == dtype) return x;
  return {x.tape(), x.tape().append(Op::convert, {x.id()}, {}, x.shape(), dtype)};
}

Tensor add(Tensor a, Tensor b) { return binary(Op::add, a, b); }
Tensor subtract(Tensor a, Tensor b) { return binary(Op::subtract, a, b); }
Tensor multiply(Tensor a, Tensor b) { return binary(Op::multiply, a, b); }
Tensor divide(Tensor a, Tensor b) { return binary(Op::divide, a, b); }
Tensor maximum(Tensor a, Tensor b) { return binary(Op::maximum, a, b); }
Tensor minimum(Tensor a, Tensor b) { return binary(Op::minimum, a, b); }
Tensor power(Tensor a, Tensor b) {
  check_same_tape(Op::power, a, b);
  if (!is_float(a.dtype())) fail("power", "expected floating-point operands, got ", a, " and ", b);
  return binary(Op::power, a, b);
}

Tensor shift_right_logical(Tensor x, Tensor bits) {
  check_same_tape(Op::shift_right_logical, x, bits);
  if (x.dtype() != DType::u32) fail("shift_right_logical", "expected u32, got ", x);
  return binary(Op::shift_right_logical, x, bits);
}

Tensor compare(Tensor a, Tensor b, Direction direction) {
  auto [x, y] = broadcast(Op::compare, a, b);
  return {x.tape(), x.tape().append(Op::compare, {x.id(), y.id()}, direction, x.shape(), DType::boolean)};
}

Tensor select(Tensor predicate, Tensor on_true, Tensor on_false) {
  check_same_tape(Op::select, predicate, on_true);
  if (predicate.dtype() != DType::boolean) fail("select", "the predicate must be bool, got ", predicate);
  auto [x, y] = broadcast(Op::select, on_true, on_false);
  const Shape shape = broadcast_shape(Op::select, predicate, x);
  Tensor p = broadcast_to(predicate, shape);
  x = broadcast_to(x, shape), y = broadcast_to(y, shape);
  return {x.tape(), x.tape().append(Op::select, {p.id(), x.id(), y.id()}, {}, shape, x.dtype())};
}

}  // namespace backbeat
