// A vector register of this file's instruction set, for the files that are compiled once a level. BACKBEAT_LEVEL is the
// level's name, given by the build.
#pragma once
#include <xsimd/xsimd.hpp>

namespace backbeat::host::BACKBEAT_LEVEL {

using Arch = xsimd::default_arch;
using Floats = xsimd::batch<float, Arch>;
using Doubles = xsimd::batch<double, Arch>;
using Integers = xsimd::batch<int32_t, Arch>;

// The lanes that definitions.hpp is written over.
struct Lanes {
  using V = Floats;
  using I = Integers;
  using Mask = xsimd::batch_bool<float, Arch>;
  [[gnu::always_inline]] static I bits(const V& x) { return xsimd::bitwise_cast<I>(x); }
  [[gnu::always_inline]] static V value(const I& i) { return xsimd::bitwise_cast<V>(i); }
  [[gnu::always_inline]] static V choose(const Mask& condition, const V& a, const V& b) {
    return xsimd::select(condition, a, b);
  }
  [[gnu::always_inline]] static V root(const V& x) { return xsimd::sqrt(x); }
};

// a * b + c with one rounding. xsimd 8.1 has none for AVX-512 (its fma there multiplies, then adds).
#if defined(__AVX512F__)
[[gnu::always_inline]] static inline Floats fused(const Floats& a, const Floats& b, const Floats& c) {
  return _mm512_fmadd_ps(a, b, c);
}
[[gnu::always_inline]] static inline Doubles fused(const Doubles& a, const Doubles& b, const Doubles& c) {
  return _mm512_fmadd_pd(a, b, c);
}
constexpr bool can_fuse = true;
#elif defined(__FMA__)
[[gnu::always_inline]] static inline Floats fused(const Floats& a, const Floats& b, const Floats& c) {
  return _mm256_fmadd_ps(a, b, c);
}
[[gnu::always_inline]] static inline Doubles fused(const Doubles& a, const Doubles& b, const Doubles& c) {
  return _mm256_fmadd_pd(a, b, c);
}
constexpr bool can_fuse = true;
#else
template <class V>
[[gnu::always_inline]] static inline V fused(const V& a, const V& b, const V& c) { return c + a * b; }
constexpr bool can_fuse = false;
#endif

}  // namespace backbeat::host::BACKBEAT_LEVEL
