// Packing: a strip of an operand, wherever its elements lie, becomes a panel that the micro-kernel reads in order.
#pragma once
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "engine/dtype.hpp"

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace backbeat::host {

template <class To, class From>
inline To widened(From x) {
  if constexpr (is_half(dtype_of<From>())) return static_cast<float>(x);
  else return x;
}

template <class To, class From>
inline void copy_widened(const From* in, int64_t n, To* out) {
  if constexpr (std::is_same_v<To, From>) std::memcpy(out, in, static_cast<size_t>(n) * sizeof(To));
  else
    for (int64_t i = 0; i < n; ++i) out[i] = widened<To>(in[i]);
}

// `panels` panels side by side whose elements are contiguous across all of them: a row is read once, from end to end.
template <class To, class From>
void pack_contiguous(const From* base, int64_t panels, int64_t width, const int64_t* major, int64_t n, To* panel) {
  for (int64_t k = 0; k < n; ++k)
    for (int64_t p = 0; p < panels; ++p) copy_widened(base + major[k] + p * width, width, panel + (p * n + k) * width);
}

// panel[k * width + w] = base[minor[w] + major[k]] for w < count and k < n, zero for the other w. Runs of either table that
// ascend by one are what is fast: along `minor` they are copied, along `major` transposed four by four.
template <class To, class From>
void pack(const From* base, const int64_t* minor, int64_t count, int64_t width, const int64_t* major, int64_t n, To* panel) {
  int64_t starts[64], segments = 0;
  for (int64_t w = 0; w < count; ++w)
    if (w == 0 || minor[w] != minor[w - 1] + 1) starts[segments++] = w;
  if (count < width)
    for (int64_t k = 0; k < n; ++k)
      for (int64_t w = count; w < width; ++w) panel[k * width + w] = To(0);

  if (segments == 1 && count == width) return pack_contiguous(base + minor[0], 1, width, major, n, panel);
  if (segments * 4 <= count || n == 1) {
    for (int64_t s = 0; s < segments; ++s) {
      const int64_t first = starts[s], size = (s + 1 < segments ? starts[s + 1] : count) - first;
      for (int64_t k = 0; k < n; ++k) {
        const From* in = base + minor[first] + major[k];
        To* out = panel + k * width + first;
        for (int64_t w = 0; w < size; ++w) out[w] = widened<To>(in[w]);  // short: a call would cost more
      }
    }
    return;
  }
  for (int64_t k = 0; k < n;) {
    int64_t end = k + 1;
    while (end < n && major[end] == major[end - 1] + 1) ++end;
    int64_t w = 0;
#if defined(__SSE__)
    if constexpr (std::is_same_v<From, float>) {
      const int64_t whole = (end - k) / 4 * 4;
      if (whole)
        for (; w + 4 <= count; w += 4) {
          const float *in0 = base + minor[w] + major[k], *in1 = base + minor[w + 1] + major[k],
                      *in2 = base + minor[w + 2] + major[k], *in3 = base + minor[w + 3] + major[k];
          To* out = panel + k * width + w;
          for (int64_t i = 0; i < whole; i += 4, out += 4 * width) {
            __m128 r0 = _mm_loadu_ps(in0 + i), r1 = _mm_loadu_ps(in1 + i), r2 = _mm_loadu_ps(in2 + i), r3 = _mm_loadu_ps(in3 + i);
            _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
            _mm_storeu_ps(out, r0);
            _mm_storeu_ps(out + width, r1);
            _mm_storeu_ps(out + 2 * width, r2);
            _mm_storeu_ps(out + 3 * width, r3);
          }
          for (int64_t i = whole; i < end - k; ++i, out += width) {
            out[0] = in0[i];
            out[1] = in1[i];
            out[2] = in2[i];
            out[3] = in3[i];
          }
        }
    }
#endif
    for (int64_t i = k; i < end; ++i)
      for (int64_t v = w; v < count; ++v) panel[i * width + v] = widened<To>(base[minor[v] + major[i]]);
    k = end;
  }
}

}  // namespace backbeat::host
