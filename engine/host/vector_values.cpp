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

template <class T, class F>
void map(const void* a, const void* b, const void* c, void* out, int64_t n, F f) {
  const T* x = static_cast<const T*>(a);
  const T* z = static_cast<const T*>(b);
  const T* w = static_cast<const T*>(c);
  T* y = static_cast<T*>(out);
  for (int64_t i = 0; i < n; ++i) y[i] = f(x[i], z[i], w[i]);
}

[[noreturn]] void no_such(const VectorOp& op) { fail("vector_program", op.op, " is not defined for ", op.dtype); }

double larger(double x, double y) { return x > y ? x : x == x ? y : x; }  // NaN if either is
double smaller(double x, double y) { return x < y ? x : x == x ? y : x; }

void apply_f64(const VectorOp& op, int64_t n, const void* a, const void* b, const void* c, void* out) {
  using T = double;
  switch (op.op) {
    case Op::negate: return map<T>(a, out, n, [](T x) { return -x; });
    case Op::abs: return map<T>(a, out, n, [](T x) { return std::fabs(x); });
    case Op::sign: return map<T>(a, out, n, [](T x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : x; });
    case Op::exp: return map<T>(a, out, n, [](T x) { return std::exp(x); });
    case Op::expm1: return map<T>(a, out, n, [](T x) { return std::expm1(x); });
    case Op::log: return map<T>(a, out, n, [](T x) { return std::log(x); });
    case Op::log1p: return map<T>(a, out, n, [](T x) { return std::log1p(x); });
    case Op::sqrt: return map<T>(a, out, n, [](T x) { return std::sqrt(x); });
    case Op::rsqrt: return map<T>(a, out, n, [](T x) { return 1 / std::sqrt(x); });
    case Op::tanh: return map<T>(a, out, n, [](T x) { return std::tanh(x); });
    case Op::logistic:
      return map<T>(a, out, n, [](T x) {
        const T e = std::exp(-std::fabs(x));
        return (x < 0 ? e : 1) / (1 + e);
      });
    case Op::erf: return map<T>(a, out, n, [](T x) { return std::erf(x); });
    case Op::sine: return map<T>(a, out, n, [](T x) { return std::sin(x); });
    case Op::cosine: return map<T>(a, out, n, [](T x) { return std::cos(x); });
    case Op::floor: return map<T>(a, out, n, [](T x) { return std::floor(x); });
    case Op::ceil: return map<T>(a, out, n, [](T x) { return std::ceil(x); });
    case Op::round_nearest_even: return map<T>(a, out, n, [](T x) { return std::nearbyint(x); });
    case Op::add: return map<T>(a, b, out, n, [](T x, T y) { return x + y; });
    case Op::subtract: return map<T>(a, b, out, n, [](T x, T y) { return x - y; });
    case Op::multiply: return map<T>(a, b, out, n, [](T x, T y) { return x * y; });
    case Op::divide: return map<T>(a, b, out, n, [](T x, T y) { return x / y; });
    case Op::maximum: return map<T>(a, b, out, n, larger);
    case Op::minimum: return map<T>(a, b, out, n, smaller);
    case Op::remainder: return map<T>(a, b, out, n, [](T x, T y) { return std::fmod(x, y); });
    case Op::power: return map<T>(a, b, out, n, [](T x, T y) { return std::pow(x, y); });
    case Op::clamp: return map<T>(a, b, c, out, n, [](T low, T x, T high) { return smaller(larger(x, low), high); });
    default: no_such(op);
  }
}

void apply_f32(const VectorOp& op, int64_t n, const void* a, const void* b, const void* c, void* out) {
  const float* x = static_cast<const float*>(a);
  float* y = static_cast<float*>(out);
  switch (op.op) {
    case Op::add: case Op::subtract: case Op::multiply: case Op::divide: case Op::maximum: case Op::minimum: case Op::power:
      binary_f32(op.op)(x, static_cast<const float*>(b), y, n);
      break;
    case Op::remainder: map<float>(a, b, out, n, [](float p, float q) { return std::fmod(p, q); }); break;  // exact
    case Op::clamp: clamp_f32(x, static_cast<const float*>(b), static_cast<const float*>(c), y, n); break;
    default: unary_f32(op.op)(x, y, n);
  }
  if (is_half(op.dtype)) round_to_half(op.dtype, y, y, n);
}

// Two's complement throughout: sums and products are taken without sign, where overflow wraps, in 32 bits at least.
template <class T>
void apply_integer(const VectorOp& op, int64_t n, const void* a, const void* b, const void* c, void* out) {
  using U = std::make_unsigned_t<T>;
  using W = std::common_type_t<U, unsigned>;
  using S = std::make_signed_t<T>;
  constexpr T least = std::numeric_limits<T>::min(), ones = static_cast<T>(~U(0));
  constexpr U width = sizeof(T) * 8;
  constexpr bool is_signed = std::is_signed_v<T>;
  const auto one = [&](auto f) { map<T>(a, out, n, f); };
  const auto two = [&](auto f) { map<T>(a, b, out, n, f); };
  switch (op.op) {
    case Op::negate: return one([](T x) { return static_cast<T>(W(0) - static_cast<W>(x)); });
    case Op::abs: return one([](T x) { return x < 0 ? static_cast<T>(W(0) - static_cast<W>(x)) : x; });
    case Op::sign: return one([](T x) { return static_cast<T>((x > 0) - (x < 0)); });
    case Op::add: return two([](T x, T y) { return static_cast<T>(static_cast<W>(x) + static_cast<W>(y)); });
    case Op::subtract: return two([](T x, T y) { return static_cast<T>(static_cast<W>(x) - static_cast<W>(y)); });
    case Op::multiply: return two([](T x, T y) { return static_cast<T>(static_cast<W>(x) * static_cast<W>(y)); });
    case Op::divide:
      return two([](T x, T y) {
        if (y == 0) return ones;
        if (is_signed && x == least && y == ones) return x;
        return static_cast<T>(x / y);
      });
    case Op::remainder:
      return two([](T x, T y) {
        if (y == 0) return x;
        if (is_signed && y == ones) return T(0);
        return static_cast<T>(x % y);
      });
    case Op::maximum: return two([](T x, T y) { return std::max(x, y); });
    case Op::minimum: return two([](T x, T y) { return std::min(x, y); });
    case Op::power:  // by squaring; a negative exponent leaves 1 and -1 their powers and makes the others 0
      return two([](T x, T y) {
        if (is_signed && y < 0) return x == 1 ? T(1) : x == ones ? static_cast<T>(y & 1 ? x : T(1)) : T(0);
        W base = static_cast<W>(x), result = 1;
        for (U e = static_cast<U>(y); e; e = static_cast<U>(e >> 1), base *= base)
          if (e & 1) result *= base;
        return static_cast<T>(result);
      });
    case Op::bitwise_and: return two([](T x, T y) { return static_cast<T>(x & y); });
    case Op::bitwise_or: return two([](T x, T y) { return static_cast<T>(x | y); });
    case Op::bitwise_xor: return two([](T x, T y) { return static_cast<T>(x ^ y); });
    case Op::shift_left:
      return two([](T x, T y) { return static_cast<U>(y) >= width ? T(0) : static_cast<T>(static_cast<W>(x) << static_cast<U>(y)); });
    case Op::shift_right_logical:
      return two([](T x, T y) { return static_cast<U>(y) >= width ? T(0) : static_cast<T>(static_cast<U>(x) >> static_cast<U>(y)); });
    case Op::shift_right_arithmetic:
      return two([](T x, T y) { return static_cast<T>(static_cast<S>(x) >> std::min<U>(static_cast<U>(y), width - 1)); });
    case Op::clamp:
      return map<T>(a, b, c, out, n, [](T low, T x, T high) { return std::min(std::max(x, low), high); });
    default: no_such(op);
  }
}

void apply_bool(const VectorOp& op, int64_t n, const void* a, const void* b, void* out) {
  using T = uint8_t;
  switch (op.op) {
    case Op::logical_not: return map<T>(a, out, n, [](T x) { return static_cast<T>(x ^ 1); });
    case Op::bitwise_xor: return map<T>(a, b, out, n, [](T x, T y) { return static_cast<T>(x ^ y); });
    case Op::bitwise_or:
    case Op::add:
    case Op::maximum: return map<T>(a, b, out, n, [](T x, T y) { return static_cast<T>(x | y); });
    case Op::bitwise_and:
    case Op::multiply:
    case Op::minimum: return map<T>(a, b, out, n, [](T x, T y) { return static_cast<T>(x & y); });
    default: no_such(op);
  }
}

// The bits of a float with `exponent` and `mantissa` bits, rounded to the format's mantissa; a carry raises the exponent.
// Where the format has a smaller exponent, what lies above it becomes infinite and what lies below its normal numbers 0.
template <class U, int exponent, int mantissa>
U reduced(U bits, const FloatFormat& format) {
  constexpr U sign_bit = U(1) << (exponent + mantissa), infinity = ((U(1) << exponent) - 1) << mantissa;
  const U sign = bits & sign_bit;
  U magnitude = bits & static_cast<U>(sign_bit - 1);
  if (magnitude > infinity) return bits;
  if (const int cut = mantissa - format.mantissa_bits; cut > 0) {
    const U unit = U(1) << cut, odd = (magnitude >> cut) & 1;
    magnitude = static_cast<U>((magnitude + (unit >> 1) - 1 + odd) & ~(unit - 1));
  }
  if (format.exponent_bits < exponent) {
    const int bias = (1 << (exponent - 1)) - 1, reach = (1 << (format.exponent_bits - 1)) - 1;
    const int raised = static_cast<int>(magnitude >> mantissa);
    if (raised > bias + reach) magnitude = infinity;
    else if (raised <= bias - reach) magnitude = 0;
  }
  return sign | magnitude;
}

void reduce_precision(const VectorOp& op, int64_t n, const void* a, void* out) {
  const FloatFormat format = op.format;
  if (op.dtype == DType::f64) {
    map<uint64_t>(a, out, n, [&](uint64_t x) { return reduced<uint64_t, 11, 52>(x, format); });
  } else if (op.dtype == DType::f16) {  // in its own format: f16's subnormals are normal in the register
    map<float>(a, out, n, [&](float x) {
      f16 h(x);
      h.bits = static_cast<uint16_t>(reduced<uint32_t, 5, 10>(h.bits, format));
      return static_cast<float>(h);
    });
  } else {  // bf16 is the upper half of f32, with the same exponent
    map<uint32_t>(a, out, n, [&](uint32_t x) { return reduced<uint32_t, 8, 23>(x, format); });
  }
}

void is_finite(const VectorOp& op, int64_t n, const void* a, bool* out) {
  const auto each = [&]<class T>() {
    for (int64_t i = 0; i < n; ++i) out[i] = std::isfinite(static_cast<const T*>(a)[i]);
  };
  op.operand_dtype == DType::f64 ? each.operator()<double>() : each.operator()<float>();
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
  if constexpr (std::is_same_v<To, bool>) {
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

// As a float on its way to a half: whatever that cuts off shows in the last bit.
template <class From>
float jammed(From x) {
  if constexpr (std::is_integral_v<From> && sizeof(From) >= 4) return round_to_odd(round_to_odd(static_cast<int64_t>(x)));
  else if constexpr (std::is_same_v<From, double>) return round_to_odd(x);
  else return static_cast<float>(x);
}

void convert(const VectorOp& op, int64_t n, const void* a, void* out) {
  visit_register(op.operand_dtype, [&]<class From>() {
    const From* x = static_cast<const From*>(a);
    if (is_half(op.dtype)) {
      float* y = static_cast<float*>(out);
      for (int64_t i = 0; i < n; ++i) y[i] = jammed(x[i]);
      return round_to_half(op.dtype, y, y, n);
    }
    visit_register(op.dtype, [&]<class To>() {
      To* y = static_cast<To*>(out);
      for (int64_t i = 0; i < n; ++i) y[i] = converted<To>(x[i]);
    });
  });
}

}  // namespace

int64_t register_size(DType dtype) {
  return visit_register(dtype, []<class T>() { return static_cast<int64_t>(sizeof(T)); });
}

void fill(DType dtype, double value, int64_t n, void* out) {
  if (is_half(dtype)) {
    float rounded = jammed(value);
    round_to_half(dtype, &rounded, &rounded, 1);
    std::fill_n(static_cast<float*>(out), n, rounded);
  } else {
    visit_register(dtype, [&]<class T>() { std::fill_n(static_cast<T*>(out), n, converted<T>(value)); });
  }
}

void apply(const VectorOp& op, int64_t n, const void* a, const void* b, const void* c, void* out) {
  switch (op.op) {
    case Op::constant: return fill(op.dtype, op.value, n, out);
    case Op::compare: return compare(op, n, a, b, static_cast<uint8_t*>(out));
    case Op::convert: return convert(op, n, a, out);
    case Op::is_finite: return is_finite(op, n, a, static_cast<bool*>(out));
    case Op::reduce_precision: return reduce_precision(op, n, a, out);
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
  if (op.dtype == DType::boolean) return apply_bool(op, n, a, b, out);
  visit_register(op.dtype, [&]<class T>() {
    if constexpr (std::is_same_v<T, double>) apply_f64(op, n, a, b, c, out);
    else if constexpr (std::is_same_v<T, float>) apply_f32(op, n, a, b, c, out);
    else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) apply_integer<T>(op, n, a, b, c, out);
  });
}

}  // namespace backbeat::host
