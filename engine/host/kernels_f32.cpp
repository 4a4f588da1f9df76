// Elementwise and reduction kernels, compiled once an instruction set. The functions are those of definitions.hpp.
#include "engine/host/definitions.hpp"
#include "engine/host/kernels.hpp"
#include "engine/host/lanes.hpp"

namespace backbeat::host::BACKBEAT_LEVEL {
namespace {

constexpr int64_t width = Floats::size;

// The last, incomplete register goes by way of a buffer: the same operations, the same bits.
template <class F>
void unary(const float* a, float* out, int64_t n) {
  int64_t i = 0;
  for (; i + width <= n; i += width) F::of(Floats::load_unaligned(a + i)).store_unaligned(out + i);
  if (i == n) return;
  alignas(64) float buffer[width] = {};
  for (int64_t j = i; j < n; ++j) buffer[j - i] = a[j];
  F::of(Floats::load_aligned(buffer)).store_aligned(buffer);
  for (int64_t j = i; j < n; ++j) out[j] = buffer[j - i];
}

// Two registers of angles; false, and nothing stored, if one of them is far.
template <class F>
[[gnu::always_inline]] inline bool near(const float* a, float* out) {
  const Floats x = Floats::load_unaligned(a), y = Floats::load_unaligned(a + width);
  if (xsimd::any(define::is_far<Lanes>(x) | define::is_far<Lanes>(y))) [[unlikely]] return false;
  F::of(x).store_unaligned(out);
  F::of(y).store_unaligned(out + width);
  return true;
}
// Registers with a far angle leave the inner loop and take it one lane at a time: a call inside would cost the loop its
// constants in registers.
template <class F, float (*one)(float)>
void angles(const float* a, float* out, int64_t n) {
  constexpr int64_t block = 2 * width;
  for (int64_t i = 0; i < n;) {
    while (i + block <= n && near<F>(a + i, out + i)) i += block;
    const int64_t rest = n - i < block ? n - i : block;
    alignas(64) float buffer[block] = {};
    for (int64_t j = 0; j < rest; ++j) buffer[j] = a[i + j];
    if (rest == block || !near<F>(buffer, buffer))
      for (int64_t j = 0; j < rest; ++j) buffer[j] = one(buffer[j]);
    for (int64_t j = 0; j < rest; ++j) out[i + j] = buffer[j];
    i += rest;
  }
}
float sine(float x) { return define::sine(x); }
float cosine(float x) { return define::cosine(x); }

template <class F>
void binary(const float* a, const float* b, float* out, int64_t n) {
  int64_t i = 0;
  for (; i + width <= n; i += width)
    F::of(Floats::load_unaligned(a + i), Floats::load_unaligned(b + i)).store_unaligned(out + i);
  if (i == n) return;
  alignas(64) float left[width] = {}, right[width] = {};
  for (int64_t j = i; j < n; ++j) left[j - i] = a[j], right[j - i] = b[j];
  F::of(Floats::load_aligned(left), Floats::load_aligned(right)).store_aligned(left);
  for (int64_t j = i; j < n; ++j) out[j] = left[j - i];
}

#define BACKBEAT_UNARY(name, expression) \
  struct name { [[gnu::always_inline]] static Floats of(const Floats& x) { return expression; } };
#define BACKBEAT_BINARY(name, expression) \
  struct name { [[gnu::always_inline]] static Floats of(const Floats& x, const Floats& y) { return expression; } };
BACKBEAT_UNARY(Negate, define::negate<Lanes>(x))
BACKBEAT_UNARY(Abs, define::absolute<Lanes>(x))
BACKBEAT_UNARY(Sign, define::sign<Lanes>(x))
BACKBEAT_UNARY(Exp, define::exp<Lanes>(x))
BACKBEAT_UNARY(Expm1, define::expm1<Lanes>(x))
BACKBEAT_UNARY(Log, define::log<Lanes>(x))
BACKBEAT_UNARY(Log1p, define::log1p<Lanes>(x))
BACKBEAT_UNARY(Sqrt, Lanes::root(x))
BACKBEAT_UNARY(Rsqrt, define::rsqrt<Lanes>(x))
BACKBEAT_UNARY(Tanh, define::tanh<Lanes>(x))
BACKBEAT_UNARY(Logistic, define::logistic<Lanes>(x))
BACKBEAT_UNARY(Erf, define::erf<Lanes>(x))
BACKBEAT_UNARY(Sine, define::near_sine<Lanes>(x))
BACKBEAT_UNARY(Cosine, define::near_cosine<Lanes>(x))
BACKBEAT_UNARY(Floor, define::floor<Lanes>(x))
BACKBEAT_UNARY(Ceil, define::ceil<Lanes>(x))
BACKBEAT_UNARY(Round, define::round_nearest_even<Lanes>(x))
BACKBEAT_BINARY(Add, x + y)
BACKBEAT_BINARY(Subtract, x - y)
BACKBEAT_BINARY(Multiply, x * y)
BACKBEAT_BINARY(Divide, x / y)
BACKBEAT_BINARY(Maximum, define::maximum<Lanes>(x, y))
BACKBEAT_BINARY(Minimum, define::minimum<Lanes>(x, y))
BACKBEAT_BINARY(Power, define::power<Lanes>(x, y))

// Plain loops where the compiler's own vectors are as good.
template <int direction>
void compare(const float* a, const float* b, uint8_t* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const float x = a[i], y = b[i];
    out[i] = direction == 0 ? x == y : direction == 1 ? x != y : direction == 2 ? x < y : direction == 3 ? x <= y
             : direction == 4 ? x > y : x >= y;
  }
}
void select(const uint8_t* condition, const float* a, const float* b, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const float x = a[i], y = b[i];
    out[i] = condition[i] ? x : y;
  }
}
void clamp(const float* low, const float* x, const float* high, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = define::clamp<Scalar>(low[i], x[i], high[i]);
}
[[gnu::always_inline]] inline uint32_t rounded(uint32_t u) {  // the upper half is the bf16
  const uint32_t up = u + 0x7fffu + ((u >> 16) & 1u), nan = u | 0x00400000u;
  return (u & 0x7fffffffu) > 0x7f800000u ? nan : up;
}
void round_to_bf16(const float* in, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    out[i] = __builtin_bit_cast(float, rounded(__builtin_bit_cast(uint32_t, in[i])) & 0xffff0000u);
}
void bf16_to_f32(const uint16_t* in, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = __builtin_bit_cast(float, static_cast<uint32_t>(in[i]) << 16);
}
void f32_to_bf16(const float* in, uint16_t* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    out[i] = static_cast<uint16_t>(rounded(__builtin_bit_cast(uint32_t, in[i])) >> 16);
}
// What f16 of engine/dtype.hpp does, without branches.
[[gnu::always_inline]] inline uint32_t f16_of(float x) {
  const uint32_t u = __builtin_bit_cast(uint32_t, x), m = u & 0x7fffffffu;
  const uint32_t nan = 0x7e00u | ((m >> 13) & 0x1ffu), normal = (m - 0x38000000u + 0xfffu + ((m >> 13) & 1u)) >> 13;
  const uint32_t small = __builtin_bit_cast(uint32_t, __builtin_bit_cast(float, m) + 0.5f) - 0x3f000000u;
  const uint32_t finite = m >= 0x38800000u ? normal : small, bounded = m >= 0x47800000u ? 0x7c00u : finite;
  return ((u >> 16) & 0x8000u) | (m > 0x7f800000u ? nan : bounded);
}
[[gnu::always_inline]] inline float f32_of(uint32_t h) {
  const uint32_t exponent = h & 0x7c00u, fraction = h & 0x3ffu, shifted = (h & 0x7fffu) << 13;
  const uint32_t small = __builtin_bit_cast(uint32_t, static_cast<float>(static_cast<int32_t>(fraction)) * 0x1p-24f);
  const uint32_t normal = shifted + 0x38000000u, special = shifted | 0x7f800000u;
  const uint32_t magnitude = exponent == 0 ? small : exponent == 0x7c00u ? special : normal;
  return __builtin_bit_cast(float, ((h & 0x8000u) << 16) | magnitude);
}
void round_to_f16(const float* in, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = f32_of(f16_of(in[i]));
}
void f16_to_f32(const uint16_t* in, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = f32_of(in[i]);
}
void f32_to_f16(const float* in, uint16_t* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<uint16_t>(f16_of(in[i]));
}

// Sum, maximum, minimum of registers and of single elements.
template <int kind, class T>
[[gnu::always_inline]] inline T take(const T& a, const T& b) {
  if constexpr (kind == 0) return a + b;
  if constexpr (kind == 3) return a * b;
  else if constexpr (requires { typename T::batch_bool_type; }) {
    if constexpr (kind == 1) return xsimd::select(a > b, a, xsimd::select(a == a, b, a));
    else return xsimd::select(a < b, a, xsimd::select(a == a, b, a));
  } else {
    if constexpr (kind == 1) return a > b ? a : a == a ? b : a;
    else return a < b ? a : a == a ? b : a;
  }
}
template <int kind, class T>
constexpr T identity = kind == 0 ? T(0) : kind == 3 ? T(1) : kind == 1 ? -T(__builtin_huge_val()) : T(__builtin_huge_val());

template <int kind, class V>
typename V::value_type fold_of(const typename V::value_type* in, int64_t n) {
  using T = typename V::value_type;
  constexpr int64_t lanes = 32, size = V::size, registers = lanes / size;
  V sum[registers];
#pragma GCC unroll 16
  for (int64_t r = 0; r < registers; ++r) sum[r] = V(identity<kind, T>);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
#pragma GCC unroll 16
    for (int64_t r = 0; r < registers; ++r) sum[r] = take<kind>(sum[r], V::load_unaligned(in + i + r * size));
  alignas(64) T lane[lanes];
#pragma GCC unroll 16
  for (int64_t r = 0; r < registers; ++r) sum[r].store_aligned(lane + r * size);
  for (int64_t l = 0; i < n; ++i, ++l) lane[l] = take<kind>(lane[l], in[i]);
  for (int64_t step = lanes / 2; step > 0; step /= 2)
    for (int64_t l = 0; l < step; ++l) lane[l] = take<kind>(lane[l], lane[l + step]);
  return lane[0];
}
template <class V>
typename V::value_type fold(int kind, const typename V::value_type* in, int64_t n) {
  return kind == 0 ? fold_of<0, V>(in, n) : kind == 1 ? fold_of<1, V>(in, n) : kind == 2 ? fold_of<2, V>(in, n) : fold_of<3, V>(in, n);
}

template <int kind, class V>
void take_all(typename V::value_type* accumulator, const typename V::value_type* in, int64_t n) {
  constexpr int64_t size = V::size;
  int64_t i = 0;
  for (; i + size <= n; i += size)
    take<kind>(V::load_unaligned(accumulator + i), V::load_unaligned(in + i)).store_unaligned(accumulator + i);
  for (; i < n; ++i) accumulator[i] = take<kind>(accumulator[i], in[i]);
}
template <class V>
void take_into(int kind, typename V::value_type* accumulator, const typename V::value_type* in, int64_t n) {
  if (kind == 0) take_all<0, V>(accumulator, in, n);
  else if (kind == 1) take_all<1, V>(accumulator, in, n);
  else if (kind == 2) take_all<2, V>(accumulator, in, n);
  else take_all<3, V>(accumulator, in, n);
}

}  // namespace

void fill_f32(Kernels& k) {
  k.unary[u_negate] = unary<Negate>;
  k.unary[u_abs] = unary<Abs>;
  k.unary[u_sign] = unary<Sign>;
  k.unary[u_exp] = unary<Exp>;
  k.unary[u_expm1] = unary<Expm1>;
  k.unary[u_log] = unary<Log>;
  k.unary[u_log1p] = unary<Log1p>;
  k.unary[u_sqrt] = unary<Sqrt>;
  k.unary[u_rsqrt] = unary<Rsqrt>;
  k.unary[u_tanh] = unary<Tanh>;
  k.unary[u_logistic] = unary<Logistic>;
  k.unary[u_erf] = unary<Erf>;
  k.unary[u_sine] = angles<Sine, sine>;
  k.unary[u_cosine] = angles<Cosine, cosine>;
  k.unary[u_floor] = unary<Floor>;
  k.unary[u_ceil] = unary<Ceil>;
  k.unary[u_round] = unary<Round>;
  k.binary[b_add] = binary<Add>;
  k.binary[b_subtract] = binary<Subtract>;
  k.binary[b_multiply] = binary<Multiply>;
  k.binary[b_divide] = binary<Divide>;
  k.binary[b_maximum] = binary<Maximum>;
  k.binary[b_minimum] = binary<Minimum>;
  k.binary[b_power] = binary<Power>;
  k.compare[0] = compare<0>;
  k.compare[1] = compare<1>;
  k.compare[2] = compare<2>;
  k.compare[3] = compare<3>;
  k.compare[4] = compare<4>;
  k.compare[5] = compare<5>;
  k.select = select;
  k.clamp = clamp;
  k.round_to_bf16 = round_to_bf16;
  k.bf16_to_f32 = bf16_to_f32;
  k.f32_to_bf16 = f32_to_bf16;
  k.round_to_f16 = round_to_f16;
  k.f16_to_f32 = f16_to_f32;
  k.f32_to_f16 = f32_to_f16;
  k.fold_f32 = fold<Floats>;
  k.fold_f64 = fold<Doubles>;
  k.take_f32 = take_into<Floats>;
  k.take_f64 = take_into<Doubles>;
}

}  // namespace backbeat::host::BACKBEAT_LEVEL
