// Elementwise primitives. Floats compute in f64 or f32, integers of every width in i64, where the low bits are right.
#include <cmath>
#include <limits>

#include "devices/reference/evaluate.hpp"
#include "devices/reference/xtensor.hpp"

namespace backbeat::reference {

namespace {

using Integer = int64_t;

DType computing_dtype(DType dtype) {
  return dtype == DType::f64 ? DType::f64 : is_float(dtype) ? DType::f32 : DType::i64;
}

template <class T>
T sign_of(T x) { return x > 0 ? T(1) : x < 0 ? T(-1) : x; }  // keeps -0 and NaN
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
    case Op::log: xt::noalias(out) = each(F(std::log), x); return;
    case Op::sqrt: xt::noalias(out) = each(F(std::sqrt), x); return;
    case Op::rsqrt: xt::noalias(out) = each(+[](T v) { return 1 / std::sqrt(v); }, x); return;
    case Op::tanh: xt::noalias(out) = each(F(std::tanh), x); return;
    case Op::logistic: xt::noalias(out) = each(+[](T v) { return 1 / (1 + std::exp(-v)); }, x); return;
    case Op::sine: xt::noalias(out) = each(F(std::sin), x); return;
    case Op::cosine: xt::noalias(out) = each(F(std::cos), x); return;
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
    case Op::power: xt::noalias(out) = each(static_cast<T (*)(T, T)>(std::pow), a, b); return;
    default: fail("reference", op, " is no operation on two floating-point operands");
  }
}

template <class X, class Out>
void binary_integer(Op op, const X& a, const X& b, Out& out) {
  using I = Integer;
  using U = uint64_t;
  switch (op) {
    case Op::add: xt::noalias(out) = each(+[](I x, I y) { return wrapped(U(x) + U(y)); }, a, b); return;
    case Op::subtract: xt::noalias(out) = each(+[](I x, I y) { return wrapped(U(x) - U(y)); }, a, b); return;
    case Op::multiply: xt::noalias(out) = each(+[](I x, I y) { return wrapped(U(x) * U(y)); }, a, b); return;
    case Op::divide: xt::noalias(out) = each(quotient, a, b); return;
    case Op::maximum: xt::noalias(out) = each(larger<I>, a, b); return;
    case Op::minimum: xt::noalias(out) = each(smaller<I>, a, b); return;
    case Op::shift_right_logical: xt::noalias(out) = each(+[](I x, I n) { return n < 32 ? x >> n : 0; }, a, b); return;
    default: fail("reference", op, " is no operation on two integer operands");
  }
}

template <class T>
Array arithmetic(const Node& node, const Array& a, const Array* b, DType dtype) {
  Array result(dtype, node.shape);
  const auto x = view<T>(a);
  auto out = view<T>(result);
  if constexpr (std::is_same_v<T, Integer>) {
    b ? binary_integer(node.op, x, view<T>(*b), out) : unary_integer(node.op, x, out);
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

// A float becomes an integer by truncation, saturated; NaN becomes 0.
template <class To>
Array truncated(const Array& x) {
  const Array wide = x.converted(DType::f64);
  Array result(dtype_of<To>(), x.shape());
  auto out = view<To>(result);
  xt::noalias(out) = each(+[](double v) {
    using Limits = std::numeric_limits<To>;
    if (v != v) return To(0);
    if (v <= static_cast<double>(Limits::min())) return Limits::min();
    return v >= static_cast<double>(Limits::max()) ? Limits::max() : static_cast<To>(v);
  }, view<double>(wide));
  return result;
}

Array conversion(const Array& x, DType to) {
  if (is_float(x.dtype()) && to == DType::i64) return truncated<int64_t>(x);
  if (is_float(x.dtype()) && to == DType::i32) return truncated<int32_t>(x);
  if (is_float(x.dtype()) && to == DType::u32) return truncated<uint32_t>(x);
  return x.converted(to);
}

}  // namespace

Array elementwise(const Node& node, Operands x) {
  if (node.op == Op::stop_gradient) return x[0];
  if (node.op == Op::convert) return conversion(x[0], node.dtype);

  const bool selects = node.op == Op::select;
  const DType dtype = computing_dtype(x[selects ? 1 : 0].dtype());
  std::vector<Array> wide;
  for (const Array& operand : x.subspan(selects ? 1 : 0)) wide.push_back(operand.converted(dtype));

  const Array* second = wide.size() > 1 ? &wide[1] : nullptr;
  const auto compute = [&]<class T>() {
    if (selects) return selection<T>(x[0], wide[0], wide[1], dtype);
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
