#include "engine/host/vector_values.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "engine/error.hpp"
#include "engine/host/elementwise.hpp"

namespace backbeat::host {

namespace {

template <class T, class F>
void map(const void* a, void* out, int64_t n, F f) {
  const T* x = static_cast<const T*>(a);
  T* y = static_cast<T*>(out);
  for (int64_t i = 0; i < n; ++i) y[i] = f(x[i]);
}
template <class T, class F>
void map(const void* a, const void* b, void* out, int64_t n, F f) {
  const T* x = static_cast<const T*>(a);
  const T* z = static_cast<const T*>(b);
  T* y = static_cast<T*>(out);
  for (int64_t i = 0; i < n; ++i) y[i] = f(x[i], z[i]);
}

[[noreturn]] void no_such(const VectorOp& op) { fail("vector_program", op.op, " is not defined for ", op.dtype); }

void apply_f64(const VectorOp& op, int64_t n, const void* a, const void* b, void* out) {
  using T = double;
  switch (op.op) {
    case Op::negate: return map<T>(a, out, n, [](T x) { return -x; });
    case Op::abs: return map<T>(a, out, n, [](T x) { return std::fabs(x); });
    case Op::sign: return map<T>(a, out, n, [](T x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : x; });
    case Op::exp: return map<T>(a, out, n, [](T x) { return std::exp(x); });
    case Op::log: return map<T>(a, out, n, [](T x) { return std::log(x); });
    case Op::sqrt: return map<T>(a, out, n, [](T x) { return std::sqrt(x); });
    case Op::rsqrt: return map<T>(a, out, n, [](T x) { return 1 / std::sqrt(x); });
    case Op::tanh: return map<T>(a, out, n, [](T x) { return std::tanh(x); });
    case Op::logistic:
      return map<T>(a, out, n, [](T x) {
        const T e = std::exp(-std::fabs(x));
        return (x < 0 ? e : 1) / (1 + e);
      });
    case Op::sine: return map<T>(a, out, n, [](T x) { return std::sin(x); });
    case Op::cosine: return map<T>(a, out, n, [](T x) { return std::cos(x); });
    case Op::add: return map<T>(a, b, out, n, [](T x, T y) { return x + y; });
    case Op::subtract: return map<T>(a, b, out, n, [](T x, T y) { return x - y; });
    case Op::multiply: return map<T>(a, b, out, n, [](T x, T y) { return x * y; });
    case Op::divide: return map<T>(a, b, out, n, [](T x, T y) { return x / y; });
    case Op::maximum: return map<T>(a, b, out, n, [](T x, T y) { return x > y ? x : x == x ? y : x; });
    case Op::minimum: return map<T>(a, b, out, n, [](T x, T y) { return x < y ? x : x == x ? y : x; });
    case Op::power: return map<T>(a, b, out, n, [](T x, T y) { return std::pow(x, y); });
    default: no_such(op);
  }
}

void apply_f32(const VectorOp& op, int64_t n, const void* a, const void* b, void* out) {
  const float* x = static_cast<const float*>(a);
  float* y = static_cast<float*>(out);
  switch (op.op) {
    case Op::add: case Op::subtract: case Op::multiply: case Op::divide: case Op::maximum: case Op::minimum: case Op::power:
      binary_f32(op.op)(x, static_cast<const float*>(b), y, n);
      break;
    default: unary_f32(op.op)(x, y, n);
  }
  if (op.dtype == DType::bf16) round_to_bf16(y, y, n);
}

// Two's complement throughout: sums and products are taken without sign, where overflow wraps.
template <class T>
void apply_integer(const VectorOp& op, int64_t n, const void* a, const void* b, void* out) {
  using U = std::make_unsigned_t<T>;
  constexpr T least = std::numeric_limits<T>::min();
  constexpr bool is_signed = std::is_signed_v<T>;
  switch (op.op) {
    case Op::negate: return map<T>(a, out, n, [](T x) { return static_cast<T>(U(0) - static_cast<U>(x)); });
    case Op::abs: return map<T>(a, out, n, [](T x) { return x < 0 ? static_cast<T>(U(0) - static_cast<U>(x)) : x; });
    case Op::sign: return map<T>(a, out, n, [](T x) { return static_cast<T>((x > 0) - (x < 0)); });
    case Op::add: return map<T>(a, b, out, n, [](T x, T y) { return static_cast<T>(static_cast<U>(x) + static_cast<U>(y)); });
    case Op::subtract: return map<T>(a, b, out, n, [](T x, T y) { return static_cast<T>(static_cast<U>(x) - static_cast<U>(y)); });
    case Op::multiply: return map<T>(a, b, out, n, [](T x, T y) { return static_cast<T>(static_cast<U>(x) * static_cast<U>(y)); });
    case Op::divide:
      return map<T>(a, b, out, n, [](T x, T y) {
        if (y == 0) return static_cast<T>(~U(0));
        if (is_signed && x == least && y == static_cast<T>(~U(0))) return x;
        return static_cast<T>(x / y);
      });
    case Op::maximum: return map<T>(a, b, out, n, [](T x, T y) { return std::max(x, y); });
    case Op::minimum: return map<T>(a, b, out, n, [](T x, T y) { return std::min(x, y); });
    case Op::power:  // by squaring; a negative exponent leaves 1 and -1 their powers and makes the others 0
      return map<T>(a, b, out, n, [](T x, T y) {
        if (is_signed && y < 0) return x == 1 ? T(1) : x == static_cast<T>(~U(0)) ? static_cast<T>(y & 1 ? x : T(1)) : T(0);
        U base = static_cast<U>(x), result = 1;
        for (U e = static_cast<U>(y); e; e >>= 1, base *= base)
          if (e & 1) result *= base;
        return static_cast<T>(result);
      });
    case Op::shift_right_logical:
      return map<T>(a, b, out, n, [](T x, T y) {
        return static_cast<U>(y) >= sizeof(T) * 8 ? T(0) : static_cast<T>(static_cast<U>(x) >> static_cast<U>(y));
      });
    default: no_such(op);
  }
}

void apply_bool(const VectorOp& op, int64_t n, const void* a, const void* b, void* out) {
  using T = uint8_t;
  switch (op.op) {
    case Op::logical_not: return map<T>(a, out, n, [](T x) { return static_cast<T>(x ^ 1); });
    case Op::add:
    case Op::maximum: return map<T>(a, b, out, n, [](T x, T y) { return static_cast<T>(x | y); });
    case Op::multiply:
    case Op::minimum: return map<T>(a, b, out, n, [](T x, T y) { return static_cast<T>(x & y); });
    default: no_such(op);
  }
}

void compare(const VectorOp& op, int64_t n, const void* a, const void* b, uint8_t* out) {
  visit_register(op.operand_dtype, [&]<class T>() {
    const T* x = static_cast<const T*>(a);
    const T* y = static_cast<const T*>(b);
    if constexpr (std::is_same_v<T, float>) {
      compare_f32(op.direction)(x, y, out, n);
    } else {
      const auto loop = [&](auto f) {
        for (int64_t i = 0; i < n; ++i) out[i] = f(x[i], y[i]);
      };
      switch (op.direction) {
        case Direction::eq: return loop([](T p, T q) { return p == q; });
        case Direction::ne: return loop([](T p, T q) { return p != q; });
        case Direction::lt: return loop([](T p, T q) { return p < q; });
        case Direction::le: return loop([](T p, T q) { return p <= q; });
        case Direction::gt: return loop([](T p, T q) { return p > q; });
        case Direction::ge: return loop([](T p, T q) { return p >= q; });
      }
    }
  });
}

template <class To, class From>
To converted(From x) {
  if constexpr (std::is_same_v<To, uint8_t>) {
    return x != From(0);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    constexpr To least = std::numeric_limits<To>::min(), most = std::numeric_limits<To>::max();
    constexpr From beyond = 2 * static_cast<From>(most / 2 + 1);  // most + 1, a power of two
    if (x != x) return 0;
    if (x >= beyond) return most;
    if (x <= static_cast<From>(least)) return least;
    return static_cast<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

void convert(const VectorOp& op, int64_t n, const void* a, void* out) {
  visit_register(op.operand_dtype, [&]<class From>() {
    visit_register(op.dtype, [&]<class To>() {
      const From* x = static_cast<const From*>(a);
      To* y = static_cast<To*>(out);
      for (int64_t i = 0; i < n; ++i) y[i] = converted<To>(x[i]);
    });
  });
  if (op.dtype == DType::bf16) round_to_bf16(static_cast<float*>(out), static_cast<float*>(out), n);
}

}  // namespace

int64_t register_size(DType dtype) {
  return visit_register(dtype, []<class T>() { return static_cast<int64_t>(sizeof(T)); });
}

void fill(DType dtype, double value, int64_t n, void* out) {
  visit_register(dtype, [&]<class T>() {
    T v = converted<T>(value);
    if constexpr (std::is_same_v<T, float>)
      if (dtype == DType::bf16) v = static_cast<float>(bf16(v));
    std::fill_n(static_cast<T*>(out), n, v);
  });
}

void apply(const VectorOp& op, int64_t n, const void* a, const void* b, const void* c, void* out) {
  switch (op.op) {
    case Op::constant: return fill(op.dtype, op.value, n, out);
    case Op::compare: return compare(op, n, a, b, static_cast<uint8_t*>(out));
    case Op::convert: return convert(op, n, a, out);
    case Op::stop_gradient:
      if (a != out) std::memcpy(out, a, static_cast<size_t>(n * register_size(op.dtype)));
      return;
    case Op::select:
      return visit_register(op.dtype, [&]<class T>() {
        const auto* condition = static_cast<const uint8_t*>(a);
        const T* x = static_cast<const T*>(b);
        const T* y = static_cast<const T*>(c);
        if constexpr (std::is_same_v<T, float>) select_f32(condition, x, y, static_cast<T*>(out), n);
        else
          for (int64_t i = 0; i < n; ++i) static_cast<T*>(out)[i] = condition[i] ? x[i] : y[i];
      });
    default: break;
  }
  switch (op.dtype) {
    case DType::f64: return apply_f64(op, n, a, b, out);
    case DType::f32:
    case DType::bf16: return apply_f32(op, n, a, b, out);
    case DType::i64: return apply_integer<int64_t>(op, n, a, b, out);
    case DType::i32: return apply_integer<int32_t>(op, n, a, b, out);
    case DType::u32: return apply_integer<uint32_t>(op, n, a, b, out);
    case DType::boolean: return apply_bool(op, n, a, b, out);
  }
}

}  // namespace backbeat::host
