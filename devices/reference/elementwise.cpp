// Elementwise primitives. Floats compute in f64 or f32, integers of every width in i64, where the low bits are right.
#include <algorithm>
#include <cmath>

#include "devices/reference/evaluate.hpp"
#include "devices/reference/multi_index.hpp"
#include "devices/reference/xtensor.hpp"

namespace backbeat::reference {

namespace {

using Integer = int64_t;

template <class T>
T sign_of(T x) { return x > 0 ? T(1) : x < 0 ? T(-1) : x; }  // keeps -0 and NaN
template <class T>
T logistic_of(T x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }  // no overflow on either side
template <class T>
T larger(T a, T b) { return a > b || a != a ? a : b; }  // NaN wins
template <class T>
T smaller(T a, T b) { return a < b || a != a ? a : b; }

Integer wrapped(uint64_t x) { return static_cast<Integer>(x); }

// Integers wrap; x / 0 is -1 (all ones), and the smallest integer / -1 is itself.
Integer quotient(Integer a, Integer b) { return b == 0 ? -1 : b == -1 ? wrapped(0 - uint64_t(a)) : a / b; }

template <class T, class X, class Out>
void unary(Op op, const X& x, Out& out) {
  using F = T (*)(T);
  switch (op) {
    case Op::negate: xt::noalias(out) = each(+[](T v) { return static_cast<T>(-v); }, x); return;
    case Op::abs: xt::noalias(out) = each(+[](T v) { return std::abs(v); }, x); return;
    case Op::sign: xt::noalias(out) = each(sign_of<T>, x); return;
    case Op::exp: xt::noalias(out) = each(F(std::exp), x); return;
    case Op::expm1: xt::noalias(out) = each(F(std::expm1), x); return;
    case Op::log: xt::noalias(out) = each(F(std::log), x); return;
    case Op::log1p: xt::noalias(out) = each(F(std::log1p), x); return;
    case Op::sqrt: xt::noalias(out) = each(F(std::sqrt), x); return;
    case Op::rsqrt: xt::noalias(out) = each(+[](T v) { return 1 / std::sqrt(v); }, x); return;
    case Op::tanh: xt::noalias(out) = each(F(std::tanh), x); return;
    case Op::logistic: xt::noalias(out) = each(logistic_of<T>, x); return;
    case Op::erf: xt::noalias(out) = each(F(std::erf), x); return;
    case Op::sine: xt::noalias(out) = each(F(std::sin), x); return;
    case Op::cosine: xt::noalias(out) = each(F(std::cos), x); return;
    case Op::floor: xt::noalias(out) = each(F(std::floor), x); return;
    case Op::ceil: xt::noalias(out) = each(F(std::ceil), x); return;
    case Op::round_nearest_even: xt::noalias(out) = each(F(std::nearbyint), x); return;
    default: fail("reference", op, " is no operation on one floating-point operand");
  }
}

template <class X, class Out>
void unary_integer(Op op, const X& x, Out& out) {
  switch (op) {
    case Op::negate: xt::noalias(out) = each(+[](Integer v) { return wrapped(0 - uint64_t(v)); }, x); return;
    case Op::abs: xt::noalias(out) = each(+[](Integer v) { return v < 0 ? wrapped(0 - uint64_t(v)) : v; }, x); return;
    case Op::sign: xt::noalias(out) = each(sign_of<Integer>, x); return;
    case Op::logical_not: xt::noalias(out) = each(+[](Integer v) { return Integer(v == 0); }, x); return;
    default: fail("reference", op, " is no operation on one integer operand");
  }
}

template <class T, class X, class Out>
void binary(Op op, const X& a, const X& b, Out& out) {
  switch (op) {
    case Op::add: xt::noalias(out) = a + b; return;
    case Op::subtract: xt::noalias(out) = a - b; return;
    case Op::multiply: xt::noalias(out) = a * b; return;
    case Op::divide: xt::noalias(out) = a / b; return;
    case Op::maximum: xt::noalias(out) = each(larger<T>, a, b); return;
    case Op::minimum: xt::noalias(out) = each(smaller<T>, a, b); return;
    case Op::remainder: xt::noalias(out) = each(static_cast<T (*)(T, T)>(std::fmod), a, b); return;
    case Op::power: xt::noalias(out) = each(static_cast<T (*)(T, T)>(std::pow), a, b); return;
    default: fail("reference", op, " is no operation on two floating-point operands");
  }
}

// An integer of `width` bits, held in 64 that extend it by its sign or by zeros. Shifts take its bits as they are.
template <int width>
Integer shifted_left(Integer x, Integer n) { return n < 0 || n >= width ? 0 : wrapped(uint64_t(x) << n); }
template <int width>
Integer shifted_right(Integer x, Integer n) {
  return n < 0 || n >= width ? 0 : wrapped((uint64_t(x) << (64 - width) >> (64 - width)) >> n);
}
template <int width>
Integer shifted_right_with_sign(Integer x, Integer n) {
  const Integer signed_x = wrapped(uint64_t(x) << (64 - width)) >> (64 - width);
  return signed_x >> (n < 0 || n >= width ? width - 1 : n);
}
template <int width>
Integer (*shift_of(Op op))(Integer, Integer) {
  return op == Op::shift_left ? shifted_left<width> : op == Op::shift_right_logical ? shifted_right<width> : shifted_right_with_sign<width>;
}

template <class X, class Out>
void binary_integer(Op op, int64_t bytes, const X& a, const X& b, Out& out) {
  using I = Integer;
  using U = uint64_t;
  switch (op) {
    case Op::add: xt::noalias(out) = each(+[](I x, I y) { return wrapped(U(x) + U(y)); }, a, b); return;
    case Op::subtract: xt::noalias(out) = each(+[](I x, I y) { return wrapped(U(x) - U(y)); }, a, b); return;
    case Op::multiply: xt::noalias(out) = each(+[](I x, I y) { return wrapped(U(x) * U(y)); }, a, b); return;
    case Op::divide: xt::noalias(out) = each(quotient, a, b); return;
    case Op::maximum: xt::noalias(out) = each(larger<I>, a, b); return;
    case Op::minimum: xt::noalias(out) = each(smaller<I>, a, b); return;
    case Op::remainder:
      xt::noalias(out) = each(+[](I x, I y) { return wrapped(U(x) - U(quotient(x, y)) * U(y)); }, a, b);
      return;
    case Op::bitwise_and: xt::noalias(out) = each(+[](I x, I y) { return x & y; }, a, b); return;
    case Op::bitwise_or: xt::noalias(out) = each(+[](I x, I y) { return x | y; }, a, b); return;
    case Op::bitwise_xor: xt::noalias(out) = each(+[](I x, I y) { return x ^ y; }, a, b); return;
    case Op::shift_left:
    case Op::shift_right_logical:
    case Op::shift_right_arithmetic:
      xt::noalias(out) = each(bytes == 8   ? shift_of<64>(op)
                              : bytes == 4 ? shift_of<32>(op)
                              : bytes == 2 ? shift_of<16>(op)
                                           : shift_of<8>(op), a, b);
      return;
    default: fail("reference", op, " is no operation on two integer operands");
  }
}

template <class T>
Array arithmetic(const Node& node, const Array& a, const Array* b, DType dtype) {
  Array result(dtype, node.shape);
  const auto x = view<T>(a);
  auto out = view<T>(result);
  if constexpr (std::is_same_v<T, Integer>) {
    b ? binary_integer(node.op, size_of(node.dtype), x, view<T>(*b), out) : unary_integer(node.op, x, out);
  } else {
    b ? binary<T>(node.op, x, view<T>(*b), out) : unary<T>(node.op, x, out);
  }
  return result;
}

template <class T>
Array comparison(Direction direction, const Array& a, const Array& b, const Shape& shape) {
  Array result(DType::boolean, shape);
  const auto x = view<T>(a), y = view<T>(b);
  auto out = view<bool>(result);
  switch (direction) {
    case Direction::eq: xt::noalias(out) = each(+[](T v, T w) { return v == w; }, x, y); break;
    case Direction::ne: xt::noalias(out) = each(+[](T v, T w) { return v != w; }, x, y); break;
    case Direction::lt: xt::noalias(out) = each(+[](T v, T w) { return v < w; }, x, y); break;
    case Direction::le: xt::noalias(out) = each(+[](T v, T w) { return v <= w; }, x, y); break;
    case Direction::gt: xt::noalias(out) = each(+[](T v, T w) { return v > w; }, x, y); break;
    case Direction::ge: xt::noalias(out) = each(+[](T v, T w) { return v >= w; }, x, y); break;
  }
  return result;
}

template <class T>
Array selection(const Array& predicate, const Array& x, const Array& y, DType dtype) {
  Array result(dtype, x.shape());
  const auto p = view<bool>(predicate);
  const auto on_true = view<T>(x), on_false = view<T>(y);
  auto out = view<T>(result);
  xt::noalias(out) = each(+[](bool c, T v, T w) { return c ? v : w; }, p, on_true, on_false);
  return result;
}

template <class T>
Array clamped(const Array& low, const Array& x, const Array& high, DType dtype) {
  Array result(dtype, x.shape());
  const auto from = view<T>(low), value = view<T>(x), to = view<T>(high);
  auto out = view<T>(result);
  xt::noalias(out) = each(+[](T l, T v, T h) { return smaller(larger(v, l), h); }, from, value, to);
  return result;
}

// Rounds to a multiple of the last place that the format has at x's exponent; the exponent is that of the dtype first.
double reduced(double x, DType dtype, const FloatFormat& format) {
  if (!std::isfinite(x) || x == 0) return x;
  const int mantissa = dtype == DType::f64 ? 52 : dtype == DType::f32 ? 23 : dtype == DType::f16 ? 10 : 7;
  const int exponent = dtype == DType::f64 ? 11 : dtype == DType::f16 ? 5 : 8;
  const auto reach = [](int bits) { return (1 << (bits - 1)) - 1; };  // the largest exponent; the least is 1 - reach
  const int last = std::max(std::ilogb(x), 1 - reach(exponent)) - std::min(mantissa, format.mantissa_bits);
  const double y = std::ldexp(std::nearbyint(std::ldexp(x, -last)), last);
  if (format.exponent_bits >= exponent) return y;
  if (std::fabs(y) >= std::ldexp(1.0, reach(format.exponent_bits) + 1)) return std::copysign(HUGE_VAL, y);
  return std::fabs(y) < std::ldexp(1.0, 1 - reach(format.exponent_bits)) ? std::copysign(0.0, y) : y;
}

Array reduced_precision(const Array& x, const FloatFormat& format) {
  Array result(x.dtype(), x.shape());
  for (int64_t i = 0; i < x.size(); ++i) result.set(i, reduced(x.at(i), x.dtype(), format));
  return result;
}

Array finiteness(const Array& x) {
  const Array wide = x.converted(DType::f64);
  Array result(DType::boolean, x.shape());
  auto out = view<bool>(result);
  xt::noalias(out) = each(+[](double v) { return std::isfinite(v); }, view<double>(wide));
  return result;
}

}  // namespace

Array elementwise(const Node& node, Operands x) {
  if (node.op == Op::stop_gradient) return x[0];
  if (node.op == Op::convert) return x[0].converted(node.dtype);
  if (node.op == Op::is_finite) return finiteness(x[0]);
  if (node.op == Op::reduce_precision) return reduced_precision(x[0], std::get<FloatFormat>(node.attributes));

  const bool selects = node.op == Op::select;
  const DType dtype = wide(x[selects ? 1 : 0].dtype());
  std::vector<Array> wide;
  for (const Array& operand : x.subspan(selects ? 1 : 0)) wide.push_back(operand.converted(dtype));

  const Array* second = wide.size() > 1 ? &wide[1] : nullptr;
  const auto compute = [&]<class T>() {
    if (selects) return selection<T>(x[0], wide[0], wide[1], dtype);
    if (node.op == Op::clamp) return clamped<T>(wide[0], wide[1], wide[2], dtype);
    if (node.op == Op::compare)
      return comparison<T>(std::get<Direction>(node.attributes), wide[0], wide[1], node.shape);
    return arithmetic<T>(node, wide[0], second, dtype);
  };
  const Array result = dtype == DType::f64   ? compute.template operator()<double>()
                       : dtype == DType::f32 ? compute.template operator()<float>()
                                             : compute.template operator()<Integer>();
  return result.converted(node.dtype);
}

}  // namespace backbeat::reference
