#include "engine/host/reduce.hpp"

#include <omp.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "engine/error.hpp"
#include "engine/host/array_kernels.hpp"
#include "engine/host/elementwise.hpp"
#include "engine/host/kernels.hpp"
#include "engine/host/scratch.hpp"

namespace backbeat::host {

namespace {

constexpr int64_t column_block = 4096, row_block = 256, strip = 1024;
constexpr int64_t parallel_elements = 1 << 18;  // about 60 us

thread_local Scratch line, partials;

int threads_for(int64_t elements) {
  if (omp_in_parallel() || elements < parallel_elements) return 1;
  return static_cast<int>(std::min<int64_t>(omp_get_max_threads(), 1 + elements / parallel_elements));
}

template <class T>
T take(Reduction kind, T a, T b) {
  if (kind == Reduction::sum) return a + b;
  if (kind == Reduction::product) return a * b;
  if (kind == Reduction::max) return a > b ? a : a == a ? b : a;
  return a < b ? a : a == a ? b : a;
}
template <class T>
T identity(Reduction kind) {
  const T infinity = std::numeric_limits<T>::infinity();
  return kind == Reduction::sum ? T(0) : kind == Reduction::product ? T(1) : kind == Reduction::max ? -infinity : infinity;
}
float fold(int kind, const float* in, int64_t n) { return kernels().fold_f32(kind, in, n); }
double fold(int kind, const double* in, int64_t n) { return kernels().fold_f64(kind, in, n); }
void take_into(int kind, float* a, const float* in, int64_t n) { kernels().take_f32(kind, a, in, n); }
void take_into(int kind, double* a, const double* in, int64_t n) { kernels().take_f64(kind, a, in, n); }

// n elements of a row as contiguous T: memory itself where it is that already.
template <class T, class From>
const T* gathered(const From* in, int64_t stride, int64_t n, T* room) {
  if constexpr (std::is_same_v<T, From>)
    if (stride == 1) return in;
  if constexpr (is_half(dtype_of<From>()))
    if (stride == 1) {
      widen(dtype_of<From>(), in, room, n);
      return room;
    }
  for (int64_t i = 0; i < n; ++i) room[i] = static_cast<T>(in[i * stride]);
  return room;
}

template <class T>
void put(DType dtype, void* out, int64_t i, T value) {
  if (dtype == DType::bf16) static_cast<bf16*>(out)[i] = bf16(value);
  else if (dtype == DType::f16) static_cast<f16*>(out)[i] = f16(value);
  else static_cast<T*>(out)[i] = value;
}

template <class T, class From>
void over_columns(Reduction kind, int64_t rows, int64_t columns, VectorInput in, DType out_dtype, void* out) {
  const int k = static_cast<int>(kind), threads = threads_for(rows * columns);
  const auto block = [&](int64_t r, int64_t c) {
    const int64_t n = std::min(column_block, columns - c);
    T* room = line.reserve_for<T>(column_block);
    return fold(k, gathered<T>(static_cast<const From*>(in.base) + r * in.row_stride + c * in.column_stride, in.column_stride, n, room), n);
  };
  if (threads > 1 && rows < 4 * threads && columns > column_block) {  // few long rows: threads share the blocks
    const int64_t blocks = (columns + column_block - 1) / column_block;
    T* part = partials.reserve_for<T>(rows * blocks);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < rows * blocks; ++i) part[i] = block(i / blocks, i % blocks * column_block);
    for (int64_t r = 0; r < rows; ++r) {
      T total = part[r * blocks];
      for (int64_t b = 1; b < blocks; ++b) total = take(kind, total, part[r * blocks + b]);
      put(out_dtype, out, r, total);
    }
    return;
  }
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
  for (int64_t r = 0; r < rows; ++r) {
    T total = columns > 0 ? block(r, 0) : identity<T>(kind);
    for (int64_t c = column_block; c < columns; c += column_block) total = take(kind, total, block(r, c));
    put(out_dtype, out, r, total);
  }
}

template <class T, class From>
void over_rows(Reduction kind, int64_t rows, int64_t columns, VectorInput in, DType out_dtype, void* out) {
  const int k = static_cast<int>(kind), threads = threads_for(rows * columns);
  const int64_t blocks = std::max<int64_t>(1, (rows + row_block - 1) / row_block), strips = (columns + strip - 1) / strip;
  T* part = partials.reserve_for<T>(blocks * columns);
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
  for (int64_t i = 0; i < blocks * strips; ++i) {
    const int64_t b = i / strips, c = i % strips * strip, n = std::min(strip, columns - c);
    T* accumulator = part + b * columns + c;
    T* room = line.reserve_for<T>(strip);
    std::fill_n(accumulator, n, identity<T>(kind));
    for (int64_t r = b * row_block; r < std::min(rows, (b + 1) * row_block); ++r)
      take_into(k, accumulator, gathered<T>(static_cast<const From*>(in.base) + r * in.row_stride + c * in.column_stride, in.column_stride, n, room), n);
  }
  for (int64_t b = 1; b < blocks; ++b) take_into(k, part, part + b * columns, columns);
  for (int64_t c = 0; c < columns; ++c) put(out_dtype, out, c, part[c]);
}

// Integers and bools, where the order does not show: one element after the other.
template <class T>
void integers(Reduction kind, int64_t results, int64_t result_stride, int64_t n, int64_t stride, const void* base, void* out) {
  for (int64_t i = 0; i < results; ++i) {
    const T* in = static_cast<const T*>(base) + i * result_stride;
    T total = kind == Reduction::sum       ? T(0)
              : kind == Reduction::product ? T(1)
              : kind == Reduction::max     ? std::numeric_limits<T>::min()
                                           : std::numeric_limits<T>::max();
    for (int64_t j = 0; j < n; ++j) {
      const T x = in[j * stride];
      if (kind == Reduction::sum) {
        if constexpr (std::is_same_v<T, bool>) total = total || x;
        else total = static_cast<T>(static_cast<std::make_unsigned_t<T>>(total) + static_cast<std::make_unsigned_t<T>>(x));
      } else if (kind == Reduction::product) {  // as u64, for small ones become int, whose products overflow
        total = static_cast<T>(static_cast<uint64_t>(total) * static_cast<uint64_t>(x));
      } else {
        total = kind == Reduction::max ? std::max(total, x) : std::min(total, x);
      }
    }
    static_cast<T*>(out)[i] = total;
  }
}

}  // namespace

void reduce_over_columns(Reduction kind, DType dtype, int64_t rows, int64_t columns, VectorInput in, DType out_dtype, void* out) {
  visit(dtype, [&]<class From>() {
    if constexpr (is_float(dtype_of<From>())) over_columns<Sum<From>, From>(kind, rows, columns, in, out_dtype, out);
    else integers<From>(kind, rows, in.row_stride, columns, in.column_stride, in.base, out);
  });
}

void reduce_over_rows(Reduction kind, DType dtype, int64_t rows, int64_t columns, VectorInput in, DType out_dtype, void* out) {
  visit(dtype, [&]<class From>() {
    if constexpr (is_float(dtype_of<From>())) over_rows<Sum<From>, From>(kind, rows, columns, in, out_dtype, out);
    else integers<From>(kind, columns, in.column_stride, rows, in.row_stride, in.base, out);
  });
}

}  // namespace backbeat::host
