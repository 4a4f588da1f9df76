// The f32 functions of this engine, defined exactly: + - * / and square root with IEEE rounding, integer shifts, selects.
// Nothing is fused or contracted, so every processor gives the same bits, one lane at a time or sixteen. At most 2 ulp off
// (tanh 4) where the comment says nothing else. The bits of a NaN mean nothing.
//
// Each is a template over L, the lanes: L::V holds floats, L::I int32s, and L has bits, value, choose and root. Scalar is
// one lane; kernels_f32.cpp adds the processor's registers. All are forced inline with internal linkage: files compiled
// for different instruction sets include this header and must not share code.
#pragma once
#include <cstdint>

namespace backbeat::host {

// Sine and cosine of 12800 <= |x| (far_angle.cpp), half an ulp off; NaN of infinities.
float far_sine(float x);
float far_cosine(float x);

#define BACKBEAT_DEFINITION template <class L> [[gnu::always_inline]] static inline

// An int32 that wraps, as those in vector registers do.
struct Word {
  int32_t v;
  [[gnu::always_inline]] explicit Word(int32_t x) : v(x) {}
  [[gnu::always_inline]] explicit Word(uint32_t x) : v(static_cast<int32_t>(x)) {}
  [[gnu::always_inline]] uint32_t u() const { return static_cast<uint32_t>(v); }
  [[gnu::always_inline]] friend Word operator+(Word a, Word b) { return Word(a.u() + b.u()); }
  [[gnu::always_inline]] friend Word operator-(Word a, Word b) { return Word(a.u() - b.u()); }
  [[gnu::always_inline]] friend Word operator&(Word a, Word b) { return Word(a.u() & b.u()); }
  [[gnu::always_inline]] friend Word operator|(Word a, Word b) { return Word(a.u() | b.u()); }
  [[gnu::always_inline]] friend Word operator^(Word a, Word b) { return Word(a.u() ^ b.u()); }
  [[gnu::always_inline]] friend Word operator<<(Word a, int n) { return Word(a.u() << n); }
  [[gnu::always_inline]] friend Word operator>>(Word a, int n) { return Word(a.v >> n); }  // keeps the sign
};

struct Scalar {
  using V = float;
  using I = Word;
  [[gnu::always_inline]] static I bits(V x) { return Word(__builtin_bit_cast(uint32_t, x)); }
  [[gnu::always_inline]] static V value(I i) { return __builtin_bit_cast(float, i.v); }
  [[gnu::always_inline]] static V choose(bool condition, V a, V b) { return condition ? a : b; }
  [[gnu::always_inline]] static V root(V x) { return __builtin_sqrtf(x); }
};

namespace define {

// Numerals of a lane type, from the bits of a float where they cannot be written as one.
BACKBEAT_DEFINITION typename L::V number(float x) { return typename L::V(x); }
BACKBEAT_DEFINITION typename L::V pattern(uint32_t bits) { return typename L::V(__builtin_bit_cast(float, bits)); }
BACKBEAT_DEFINITION typename L::V infinity() { return pattern<L>(0x7f800000u); }
BACKBEAT_DEFINITION typename L::V not_a_number() { return pattern<L>(0x7fc00000u); }

BACKBEAT_DEFINITION typename L::V absolute(typename L::V x) { return L::value(L::bits(x) & typename L::I(0x7fffffff)); }
BACKBEAT_DEFINITION typename L::V negate(typename L::V x) { return L::value(L::bits(x) ^ typename L::I(INT32_MIN)); }

// 1.5 * 2^23: adding it rounds to the nearest integer, which then stands in the low bits. |x| < 2^22.
BACKBEAT_DEFINITION typename L::V shifted(typename L::V x) { return x + number<L>(12582912.0f); }
BACKBEAT_DEFINITION typename L::V unshifted(typename L::V s) { return s - number<L>(12582912.0f); }
BACKBEAT_DEFINITION typename L::I shifted_integer(typename L::V s) { return L::bits(s) - typename L::I(0x4b400000); }

// x * 2^n for -300 < n < 256, in two exact steps, so that a subnormal result is rounded once.
BACKBEAT_DEFINITION typename L::V scale(typename L::V x, typename L::I n) {
  const typename L::I half = n >> 1;
  return x * L::value((half + typename L::I(127)) << 23) * L::value((n - half + typename L::I(127)) << 23);
}

BACKBEAT_DEFINITION typename L::V maximum(typename L::V a, typename L::V b) {  // NaN if either is
  return L::choose(a > b, a, L::choose(a == a, b, a));
}
BACKBEAT_DEFINITION typename L::V minimum(typename L::V a, typename L::V b) {
  return L::choose(a < b, a, L::choose(a == a, b, a));
}

BACKBEAT_DEFINITION typename L::V clamp(typename L::V low, typename L::V x, typename L::V high) {
  return minimum<L>(maximum<L>(x, low), high);
}

BACKBEAT_DEFINITION typename L::V sign(typename L::V x) {  // zeros and NaN stay what they are
  return L::choose(x > number<L>(0), number<L>(1), L::choose(x < number<L>(0), number<L>(-1), x));
}

BACKBEAT_DEFINITION typename L::V rsqrt(typename L::V x) { return number<L>(1) / L::root(x); }

// The integer next to x for floor, ceil and round: its sign is x's, so that a zero keeps it. From 2^23 on x is one.
BACKBEAT_DEFINITION typename L::V signed_like(typename L::V y, typename L::V x) {
  using I = typename L::I;
  return L::value((L::bits(y) & I(0x7fffffff)) | (L::bits(x) & I(INT32_MIN)));
}
BACKBEAT_DEFINITION typename L::V round_nearest_even(typename L::V x) {
  using V = typename L::V;
  const V a = absolute<L>(x), step = number<L>(8388608.0f);
  return L::choose(a < step, signed_like<L>((a + step) - step, x), x);
}
BACKBEAT_DEFINITION typename L::V floor(typename L::V x) {
  const typename L::V n = round_nearest_even<L>(x);
  return L::choose(n > x, n - number<L>(1), n);
}
BACKBEAT_DEFINITION typename L::V ceil(typename L::V x) {
  const typename L::V n = round_nearest_even<L>(x);
  return L::choose(n < x, signed_like<L>(n + number<L>(1), x), n);
}

// exp(x) = 2^n exp(r), n = round(x / ln 2), ln 2 in two parts of which n times the first is exact; exp(r) = 1 + r + tail,
// tail = r^2 q + what r lost to rounding.
template <class L>
struct Exponent {
  typename L::V r, tail;
  typename L::I n;
};
BACKBEAT_DEFINITION Exponent<L> exponent(typename L::V x) {
  using V = typename L::V;
  const V s = shifted<L>(x * number<L>(0x1.715476p+0f)), n = unshifted<L>(s);
  const V first = x - n * number<L>(0x1.63p-1f), second = n * number<L>(0x1.bd0106p-13f);
  const V r = first + second, lost = second - (r - first);
  V q = number<L>(0x1.a1256cp-13f);
  q = q * r + number<L>(0x1.6d43b0p-10f);
  q = q * r + number<L>(0x1.1110e0p-7f);
  q = q * r + number<L>(0x1.5554e8p-5f);
  q = q * r + number<L>(0x1.555556p-3f);
  q = q * r + number<L>(0.5f);
  return {r, q * (r * r) + lost, shifted_integer<L>(s)};
}
BACKBEAT_DEFINITION typename L::V exp(typename L::V x) {
  using V = typename L::V;
  const V a = L::choose(x > number<L>(89), number<L>(89), L::choose(x < number<L>(-105), number<L>(-105), x));
  const Exponent<L> e = exponent<L>(a);
  return scale<L>((e.tail + e.r) + number<L>(1), e.n);
}

// exp(x) - 1 = (2^n - 1) + 2^n (r + tail): the first two terms are added with what their sum loses. All of it is halved, so
// that 2^128 fits.
BACKBEAT_DEFINITION typename L::V expm1(typename L::V x) {
  using V = typename L::V;
  const V a = L::choose(x > number<L>(89), number<L>(89), L::choose(x < number<L>(-18), number<L>(-18), x));
  const Exponent<L> e = exponent<L>(a);
  const V half = L::value((e.n + typename L::I(126)) << 23);  // 2^(n-1)
  const V whole = half - number<L>(0.5f), part = half * e.r, sum = whole + part, lost = part - (sum - whole);
  const V y = sum + (lost + half * e.tail);
  return L::choose(absolute<L>(x) < number<L>(0x1p-25f), x, y + y);
}

// A positive finite x as m 2^e with m in [sqrt(1/2), sqrt(2)).
template <class L>
struct Split {
  typename L::V m, e;
};
BACKBEAT_DEFINITION Split<L> split(typename L::V x) {
  using V = typename L::V;
  using I = typename L::I;
  const auto tiny = x < pattern<L>(0x00800000u);
  const V normal = L::choose(tiny, x * number<L>(8388608.0f), x);
  const I exponent = (L::bits(normal) - I(0x3f3504f3)) >> 23;
  const V e = unshifted<L>(L::value(exponent + I(0x4b400000)));
  return {L::value(L::bits(normal) - (exponent << 23)), L::choose(tiny, e - number<L>(23), e)};
}

// log(m 2^e) = e ln 2 + log(1 + f) + rest, log(1 + f) = f - f^2 / 2 + f^3 p(f).
BACKBEAT_DEFINITION typename L::V logarithm(typename L::V f, typename L::V e, typename L::V rest) {
  using V = typename L::V;
  const V square = f * f;
  V p = number<L>(0x1.1d8ea6p-4f);
  p = p * f + number<L>(-0x1.d635bcp-4f);
  p = p * f + number<L>(0x1.dea282p-4f);
  p = p * f + number<L>(-0x1.fcf4c6p-4f);
  p = p * f + number<L>(0x1.23d21ap-3f);
  p = p * f + number<L>(-0x1.555b4ap-3f);
  p = p * f + number<L>(0x1.999d5ap-3f);
  p = p * f + number<L>(-0x1.fffffcp-3f);
  p = p * f + number<L>(0x1.555554p-2f);
  V y = (p * f) * square + (e * number<L>(-0x1.bd0106p-13f) + rest);
  y = y - square * number<L>(0.5f);
  return (f + y) + e * number<L>(0x1.63p-1f);
}
BACKBEAT_DEFINITION typename L::V log(typename L::V x) {
  using V = typename L::V;
  const Split<L> s = split<L>(x);
  V y = logarithm<L>(s.m - number<L>(1), s.e, number<L>(0));
  y = L::choose(x < infinity<L>(), y, x);  // infinity and NaN
  y = L::choose(x == number<L>(0), pattern<L>(0xff800000u), y);
  return L::choose(x < number<L>(0), not_a_number<L>(), y);
}

// log(1 + x): where 1 + x needs no scaling f is x itself; elsewhere what 1 + x lost counts with the derivative there.
BACKBEAT_DEFINITION typename L::V log1p(typename L::V x) {
  using V = typename L::V;
  const V one = number<L>(1), sum = one + x;
  const V lost = L::choose(x < one, x - (sum - one), one - (sum - x));
  const Split<L> s = split<L>(sum);
  const auto plain = s.e == number<L>(0);
  V y = logarithm<L>(L::choose(plain, x, s.m - one), s.e, L::choose(plain, number<L>(0), lost / sum));
  y = L::choose(x == number<L>(0), x, y);  // a zero keeps its sign
  y = L::choose(sum < infinity<L>(), y, x);
  y = L::choose(x == number<L>(-1), pattern<L>(0xff800000u), y);
  return L::choose(x < number<L>(-1), not_a_number<L>(), y);
}

// Small arguments by x + x p(x^2), the others by 1 - exp(g(|x| - 1)), where erfc(x) = exp(g). Both polynomials are weighted
// least squares (Lawson) of our own on Chebyshev points of the functions in 40 digits; from 4 on the result is 1.
BACKBEAT_DEFINITION typename L::V erf(typename L::V x) {
  using V = typename L::V;
  const V a = absolute<L>(x), z = x * x;
  V p = number<L>(0x1.5f113cp-14f);
  p = p * z + number<L>(-0x1.aae984p-11f);
  p = p * z + number<L>(0x1.54dad8p-8f);
  p = p * z + number<L>(-0x1.b8107cp-6f);
  p = p * z + number<L>(0x1.ce2e20p-4f);
  p = p * z + number<L>(-0x1.812744p-2f);
  p = p * z + number<L>(0x1.06eba8p-3f);
  const V small = x * p + x;
  const V t = L::choose(a < number<L>(4), a, number<L>(4)) - number<L>(1);
  V g = number<L>(-0x1.624fa6p-16f);
  g = g * t + number<L>(0x1.2cd75ep-12f);
  g = g * t + number<L>(-0x1.071f4ap-9f);
  g = g * t + number<L>(0x1.4915a2p-7f);
  g = g * t + number<L>(-0x1.547a1cp-5f);
  g = g * t + number<L>(-0x1.afabc2p-1f);
  g = g * t + number<L>(-0x1.51c9b0p+1f);
  g = g * t + number<L>(-0x1.d97fc0p+0f);
  const V large = signed_like<L>(number<L>(1) - exp<L>(g), x);
  return L::choose(x == x, L::choose(a < number<L>(0.921875f), small, large), x);
}

// Small arguments by x + x^3 t(x^2), the others by 1 - 2 / (exp(2 |x|) + 1).
BACKBEAT_DEFINITION typename L::V tanh(typename L::V x) {
  using V = typename L::V;
  const V a = absolute<L>(x), z = x * x;
  V t = number<L>(0x1.2c794ap-9f);
  t = t * z + number<L>(-0x1.1167c8p-7f);
  t = t * z + number<L>(0x1.64a91cp-6f);
  t = t * z + number<L>(-0x1.ba08c0p-5f);
  t = t * z + number<L>(0x1.1110eap-3f);
  t = t * z + number<L>(-0x1.555556p-2f);
  const V small = L::choose(x == number<L>(0), x, (t * z) * x + x);  // a zero keeps its sign
  const V large = number<L>(1) - number<L>(2) / (exp<L>(a + a) + number<L>(1));
  return L::choose(a < number<L>(0.625f), small, L::choose(x < number<L>(0), negate<L>(large), large));
}

// 1 / (1 + exp(-x)) without overflow on either side; what rounding takes from 1 + e is given back at the end.
BACKBEAT_DEFINITION typename L::V logistic(typename L::V x) {
  using V = typename L::V;
  const auto negative = x < number<L>(0);
  const V e = exp<L>(negate<L>(absolute<L>(x))), d = number<L>(1) + e, lost = e - (d - number<L>(1));
  const V y = L::choose(negative, e, number<L>(1)) / d;
  return y - y * (lost * L::choose(negative, number<L>(1) - y, y));  // the last factor is 1 / d
}

// x = n pi/2 + r with pi/2 in four parts, for |x| < 12800: n < 2^13 then, and its products with the first three are exact.
// At most 1.5 ulp off; far_sine and far_cosine take what lies beyond.
template <class L>
struct Angle {
  typename L::V sine, cosine;  // of r
  typename L::I quarter;       // n
};
BACKBEAT_DEFINITION Angle<L> angle(typename L::V x) {
  using V = typename L::V;
  const V s = shifted<L>(x * number<L>(0x1.45f306p-1f)), n = unshifted<L>(s);
  V r = x - n * number<L>(0x1.92p+0f);
  r = r - n * number<L>(0x1.fb4p-12f);
  const V third = n * number<L>(0x1.444p-24f), rounded = r - third, lost = (r - rounded) - third;
  r = rounded + (lost - n * number<L>(0x1.68c234p-39f));
  const V z = r * r;
  V p = number<L>(0x1.6dbcfcp-19f);
  p = p * z + number<L>(-0x1.a013a4p-13f);
  p = p * z + number<L>(0x1.11110ep-7f);
  p = p * z + number<L>(-0x1.555556p-3f);
  V q = number<L>(-0x1.25239ap-22f);
  q = q * z + number<L>(0x1.a015c2p-16f);
  q = q * z + number<L>(-0x1.6c16c0p-10f);
  q = q * z + number<L>(0x1.555556p-5f);
  // A zero keeps its sign.
  return {L::choose(x == number<L>(0), x, (p * z) * r + r), (q * z) * z - z * number<L>(0.5f) + number<L>(1), shifted_integer<L>(s)};
}
// Picks sine or cosine by the lowest bit of n and the sign by the next.
BACKBEAT_DEFINITION typename L::V turned(const Angle<L>& w, typename L::I n) {
  using I = typename L::I;
  const auto odd = L::value(((n & I(1)) << 23) + I(0x3f000000)) == number<L>(1);  // 0.5 or 1
  return L::value(L::bits(L::choose(odd, w.cosine, w.sine)) ^ ((n & I(2)) << 30));
}
BACKBEAT_DEFINITION auto is_far(typename L::V x) { return absolute<L>(x) >= number<L>(12800); }
BACKBEAT_DEFINITION typename L::V near_sine(typename L::V x) {
  const Angle<L> w = angle<L>(x);
  return turned<L>(w, w.quarter);
}
BACKBEAT_DEFINITION typename L::V near_cosine(typename L::V x) {
  const Angle<L> w = angle<L>(x);
  return turned<L>(w, w.quarter + typename L::I(1));
}
[[gnu::always_inline]] static inline float sine(float x) { return is_far<Scalar>(x) ? far_sine(x) : near_sine<Scalar>(x); }
[[gnu::always_inline]] static inline float cosine(float x) { return is_far<Scalar>(x) ? far_cosine(x) : near_cosine<Scalar>(x); }

// An unevaluated sum high + low of about 48 bits, for power.
template <class L>
struct Pair {
  typename L::V high, low;
};
BACKBEAT_DEFINITION Pair<L> sum_of(typename L::V a, typename L::V b) {  // |a| >= |b| or a == 0
  const typename L::V s = a + b;
  return {s, b - (s - a)};
}
BACKBEAT_DEFINITION Pair<L> product_of(typename L::V a, typename L::V b) {  // Dekker: halves of 12 bits
  using V = typename L::V;
  using I = typename L::I;
  const V ah = L::value(L::bits(a) & I(-4096)), al = a - ah, bh = L::value(L::bits(b) & I(-4096)), bl = b - bh;
  const V p = a * b;
  return {p, (((ah * bh - p) + ah * bl) + al * bh) + al * bl};
}
BACKBEAT_DEFINITION Pair<L> product_of(const Pair<L>& a, const Pair<L>& b) {
  const Pair<L> p = product_of<L>(a.high, b.high);
  return sum_of<L>(p.high, p.low + (a.high * b.low + a.low * b.high));
}

// log2 of a positive finite x: e + 2/ln 2 (s + s^3/3 + s^5 t(s^2)), s = (m - 1) / (m + 1).
BACKBEAT_DEFINITION Pair<L> log2(typename L::V x) {
  using V = typename L::V;
  const Split<L> parts = split<L>(x);
  const V f = parts.m - number<L>(1), d = parts.m + number<L>(1), d_low = parts.m - (d - number<L>(1));
  const V s_high = f / d;
  const Pair<L> back = product_of<L>(s_high, d);
  const Pair<L> s{s_high, (((f - back.high) - back.low) - s_high * d_low) / d};
  const Pair<L> z = product_of<L>(s, s);
  V t = number<L>(0x1.879ad6p-4f);
  t = t * z.high + number<L>(0x1.c6c0bcp-4f);
  t = t * z.high + number<L>(0x1.24928ep-3f);
  t = t * z.high + number<L>(0x1.99999ap-3f);
  const Pair<L> third = sum_of<L>(number<L>(0x1.555556p-2f), number<L>(-0x1.555556p-27f) + t * z.high);
  const Pair<L> tail = product_of<L>(s, product_of<L>(z, third));
  const Pair<L> sum = sum_of<L>(s.high, tail.high);
  const Pair<L> log = product_of<L>(sum_of<L>(sum.high, sum.low + (s.low + tail.low)),
                                    Pair<L>{number<L>(0x1.715476p+1f), number<L>(0x1.4ae0c0p-25f)});
  const Pair<L> y = sum_of<L>(parts.e, log.high);  // e is 0 or at least 1, the logarithm at most a half
  return sum_of<L>(y.high, y.low + log.low);
}

// |x|^y = 2^(y log2 |x|), then the special cases of IEEE's pow.
BACKBEAT_DEFINITION typename L::V power(typename L::V x, typename L::V y) {
  using V = typename L::V;
  const V zero = number<L>(0), one = number<L>(1), a = absolute<L>(x), size = absolute<L>(y);
  const auto ordinary = a > zero, finite = a < infinity<L>();
  const Pair<L> log = log2<L>(L::choose(ordinary, L::choose(finite, a, one), one));
  const V estimate = y * log.high;
  const V calm = L::choose(absolute<L>(estimate) < number<L>(200), y, zero);
  const Pair<L> p = product_of<L>(log.high, calm);
  const V s = shifted<L>(p.high), n = unshifted<L>(s);
  const V f = (p.high - n) + (p.low + log.low * calm);
  V q = number<L>(0x1.44149ap-13f);
  q = q * f + number<L>(0x1.5f0a1cp-10f);
  q = q * f + number<L>(0x1.3b2a52p-7f);
  q = q * f + number<L>(0x1.c6af6ap-5f);
  q = q * f + number<L>(0x1.ebfbe0p-3f);
  q = q * f + number<L>(0x1.62e430p-1f);
  V result = scale<L>(q * f + one, shifted_integer<L>(s));
  result = L::choose(estimate >= number<L>(200), infinity<L>(), result);
  result = L::choose(estimate <= number<L>(-200), zero, result);
  // |x| is zero or infinite: the result is too, or the other way round for negative y.
  const V vanishing = L::choose(y > zero, zero, infinity<L>()), growing = L::choose(y > zero, infinity<L>(), zero);
  result = L::choose(a == zero, vanishing, result);
  result = L::choose(a == infinity<L>(), growing, result);
  // With the sign bit of x set, an odd y negates, and a y that is no integer has no result (zero and infinity apart). Adding
  // 2^23 rounds to an integer; from there on all floats are integers, and from 2^24 on even.
  const V step = number<L>(8388608.0f), half = size * number<L>(0.5f);
  const V whole = L::choose(size < step, (size + step) - step, size);
  const V whole_half = L::choose(half < step, (half + step) - step, half);
  const V odd_negated = L::choose(whole_half == half, result, L::choose(whole == size, negate<L>(result), result));
  const V unless_fraction = L::choose(whole == size, odd_negated, not_a_number<L>());
  const V of_negative = L::choose(a == zero, odd_negated, L::choose(finite, unless_fraction, odd_negated));
  const V x_sign = L::value((L::bits(x) & typename L::I(INT32_MIN)) | L::bits(one));
  result = L::choose(x_sign < zero, of_negative, result);
  result = L::choose(x == x, L::choose(y == y, result, y), x);
  return L::choose(y == zero, one, L::choose(x == one, one, result));
}

}  // namespace define
}  // namespace backbeat::host
