#include "devices/cpu/copy.hpp"

#include <omp.h>

#include <algorithm>
#include <array>
#include <cstring>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace backbeat::cpu {

namespace {

constexpr int64_t parallel_elements = 1 << 17;  // about 50 us

int threads_for(int64_t elements) {
  if (omp_in_parallel() || elements < parallel_elements) return 1;
  return static_cast<int>(std::min<int64_t>(omp_get_max_threads(), 1 + elements / parallel_elements));
}

struct Axis2 {
  int64_t size, from, to;
};
struct Axes {  // in place: a step allocates nothing
  std::array<Axis2, Dims::max_rank> axis;
  size_t count = 0;
  void push_back(const Axis2& a) { axis[count++] = a; }
  Axis2& back() { return axis[count - 1]; }
  const Axis2& back() const { return axis[count - 1]; }
  const Axis2& operator[](size_t i) const { return axis[i]; }
};

// A tile of which `from` is contiguous along rows and `to` along columns, by way of a buffer: each cache line is read once
// and written once, whatever the strides do to the cache.
template <class T>
void transpose_tile(const T* from, int64_t from_stride, T* to, int64_t to_stride, int64_t rows, int64_t columns) {
  constexpr int64_t side = 64 / static_cast<int64_t>(sizeof(T));
  T buffer[side * side];  // [row][column]
  for (int64_t r0 = 0; r0 < rows; r0 += side)
    for (int64_t c0 = 0; c0 < columns; c0 += side) {
      const int64_t height = std::min(side, rows - r0), width = std::min(side, columns - c0);
      int64_t c = 0;
#if defined(__SSE__)
      if constexpr (sizeof(T) == 4)
        if (height == side)
          for (; c + 4 <= width; c += 4) {
            const float* in = reinterpret_cast<const float*>(from + (c0 + c) * from_stride + r0);
            float* out = reinterpret_cast<float*>(buffer + c);
            for (int64_t r = 0; r < side; r += 4, in += 4, out += 4 * side) {
              __m128 x0 = _mm_loadu_ps(in), x1 = _mm_loadu_ps(in + from_stride), x2 = _mm_loadu_ps(in + 2 * from_stride),
                     x3 = _mm_loadu_ps(in + 3 * from_stride);
              _MM_TRANSPOSE4_PS(x0, x1, x2, x3);
              _mm_storeu_ps(out, x0);
              _mm_storeu_ps(out + side, x1);
              _mm_storeu_ps(out + 2 * side, x2);
              _mm_storeu_ps(out + 3 * side, x3);
            }
          }
#endif
      for (; c < width; ++c)
        for (int64_t r = 0; r < height; ++r) buffer[r * side + c] = from[(c0 + c) * from_stride + r0 + r];
      for (int64_t r = 0; r < height; ++r)
        std::memcpy(to + (r0 + r) * to_stride + c0, buffer + r * side, static_cast<size_t>(width) * sizeof(T));
    }
}

template <class T>
void copy_run(const T* from, const Axis2& axis, T* to) {
  if (axis.from == 1 && axis.to == 1) {
    std::memcpy(to, from, static_cast<size_t>(axis.size) * sizeof(T));
  } else if (axis.from == 0 && axis.to == 1) {
    std::fill_n(to, axis.size, *from);
  } else {
    for (int64_t i = 0; i < axis.size; ++i) to[i * axis.to] = from[i * axis.from];
  }
}

template <class T>
void copy(const Axes& axes, int64_t elements, const T* from, T* to) {
  const Axis2 inner = axes.back();
  // The axis along which `from` is contiguous, if that is not the inner one: then tiles beat runs.
  size_t cross = axes.count;
  if (inner.to == 1 && inner.from != 1 && inner.from != 0)
    for (size_t i = 0; i + 1 < axes.count; ++i)
      if (axes[i].from == 1 && axes[i].size > 1) cross = i;
  constexpr int64_t tile = 64;
  const bool tiled = cross < axes.count;
  // Work items: all outer axes, cut further into strips of the crossing axis (or of the inner one, if it is all there is).
  Axes outer;
  for (size_t i = 0; i + 1 < axes.count; ++i)
    if (i != cross) outer.push_back(axes[i]);
  int64_t items = 1;
  for (size_t i = 0; i < outer.count; ++i) items *= outer[i].size;
  const int64_t strips = tiled ? (axes[cross].size + tile - 1) / tile : items == 1 ? (inner.size + 65535) / 65536 : 1;
#pragma omp parallel for schedule(static) num_threads(threads_for(elements)) if (threads_for(elements) > 1)
  for (int64_t item = 0; item < items * strips; ++item) {
    int64_t rest = item / strips;
    const T* in = from;
    T* out = to;
    for (size_t i = outer.count; i-- > 0;) {
      const int64_t at = rest % outer[i].size;
      rest /= outer[i].size;
      in += at * outer[i].from;
      out += at * outer[i].to;
    }
    if (tiled) {
      const Axis2& a = axes[cross];
      const int64_t r = item % strips * tile, rows = std::min(tile, a.size - r);
      for (int64_t c = 0; c < inner.size; c += tile)
        transpose_tile(in + r + c * inner.from, inner.from, out + r * a.to + c, a.to, rows, std::min(tile, inner.size - c));
    } else if (strips > 1) {
      const int64_t start = item % strips * 65536;
      copy_run(in + start * inner.from, Axis2{std::min<int64_t>(65536, inner.size - start), inner.from, inner.to}, out + start * inner.to);
    } else {
      copy_run(in, inner, out);
    }
  }
}

}  // namespace

void strided_copy(DType dtype, const Shape& shape, const void* from, const Dims& from_strides, void* to, const Dims& to_strides) {
  // Axes of size one go; neighbours that continue each other become one.
  Axes axes;
  for (int64_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0) return;
    if (shape[i] == 1) continue;
    const Axis2 axis{shape[i], from_strides[i], to_strides[i]};
    if (axes.count > 0 && axes.back().from == axis.size * axis.from && axes.back().to == axis.size * axis.to)
      axes.back() = {axes.back().size * axis.size, axis.from, axis.to};
    else
      axes.push_back(axis);
  }
  if (axes.count == 0) axes.push_back({1, 1, 1});
  const int64_t n = element_count(shape);
  switch (size_of(dtype)) {
    case 1: return copy(axes, n, static_cast<const uint8_t*>(from), static_cast<uint8_t*>(to));
    case 2: return copy(axes, n, static_cast<const uint16_t*>(from), static_cast<uint16_t*>(to));
    case 4: return copy(axes, n, static_cast<const uint32_t*>(from), static_cast<uint32_t*>(to));
    default: return copy(axes, n, static_cast<const uint64_t*>(from), static_cast<uint64_t*>(to));
  }
}

void fill_zero(void* to, int64_t bytes) {
  constexpr int64_t piece = 1 << 18;
  const int64_t pieces = (bytes + piece - 1) / piece;
#pragma omp parallel for schedule(static) if (pieces > 4 && !omp_in_parallel())
  for (int64_t i = 0; i < pieces; ++i)
    std::memset(static_cast<char*>(to) + i * piece, 0, static_cast<size_t>(std::min(piece, bytes - i * piece)));
}

void padded_copy(DType dtype, const Shape& shape, const void* from, const Dims& from_strides, const Dims& low, const Dims& interior,
                 const Shape& out, void* to) {
  Shape kept;
  Dims to_strides;
  int64_t from_offset = 0, to_offset = 0;
  bool covers = true;
  const Dims dense = row_major_strides(out);
  for (int64_t i = 0; i < shape.size(); ++i) {
    const int64_t step = interior[i] + 1;
    // Element j goes to low + j * step: the first and the last that lie inside.
    const int64_t first = low[i] < 0 ? (-low[i] + step - 1) / step : 0;
    const int64_t last = out[i] - 1 - low[i] < 0 ? -1 : std::min(shape[i] - 1, (out[i] - 1 - low[i]) / step);
    kept.push_back(std::max<int64_t>(0, last - first + 1));
    to_strides.push_back(dense[i] * step);
    from_offset += first * from_strides[i];
    to_offset += (low[i] + first * step) * dense[i];
    covers = covers && kept[i] == out[i];
  }
  if (!covers) fill_zero(to, element_count(out) * size_of(dtype));
  if (element_count(kept) == 0) return;
  strided_copy(dtype, kept, static_cast<const char*>(from) + from_offset * size_of(dtype), from_strides,
               static_cast<char*>(to) + to_offset * size_of(dtype), to_strides);
}

}  // namespace backbeat::cpu
