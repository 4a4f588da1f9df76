// What the files behind ArrayOperation share: one function an operation over dense row-major arrays, and arithmetic of
// every dtype. None of them allocates.
#pragma once
#include <omp.h>

#include <algorithm>
#include <limits>
#include <type_traits>

#include "engine/primitive.hpp"

namespace backbeat::host {

struct DenseArray {
  const Shape& shape;
  DType dtype;
  const void* data;
};

// --- indexing.cpp. In place: `out` may be x's memory for the second and the last.
void dynamic_slice(DenseArray x, DenseArray start, const Shape& sizes, void* out);
void dynamic_update_slice(DenseArray x, DenseArray update, DenseArray start, void* out);
void gather(DenseArray x, DenseArray indices, const GatherDims& dims, const Shape& shape, void* out);
int64_t scatter_scratch(const Shape& x, DType dtype, bool add);  // bytes
void scatter(DenseArray x, DenseArray indices, DenseArray updates, const ScatterDims& dims, void* out, void* scratch);

// --- scans.cpp
int64_t sort_scratch(const Shape& keys, DType dtype, int64_t axis);
void sort(DenseArray keys, DenseArray values, int64_t axis, void* out, void* scratch);
void argmax(DenseArray x, Reduction kind, int64_t axis, void* out);
void cumsum(DenseArray x, const CumulativeDims& dims, void* out);

// --- windows.cpp
int64_t window_scratch(Op op, const Shape& x, DType result, const WindowDims& dims);
void reduce_window(DenseArray x, const WindowDims& dims, const Shape& shape, void* out, void* scratch);
void select_and_scatter(DenseArray x, DenseArray source, const WindowDims& dims, void* out, void* scratch);
void select_and_gather(DenseArray x, DenseArray source, const WindowDims& dims, const Shape& shape, void* out,
                       void* scratch);

// --- arithmetic

template <class T>
constexpr bool half = std::is_same_v<T, bf16> || std::is_same_v<T, f16>;
template <class T>
using Sum = std::conditional_t<half<T>, float, T>;  // what sums of T are carried in

template <class T>
T plus(T a, T b) {  // integers wrap
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) + static_cast<std::make_unsigned_t<T>>(b));
  else
    return a + b;
}

template <class T, class Limits = std::numeric_limits<T>>
constexpr T lowest = Limits::has_infinity ? -Limits::infinity() : Limits::min();
template <class T, class Limits = std::numeric_limits<T>>
constexpr T highest = Limits::has_infinity ? Limits::infinity() : Limits::max();

// Whether x is the extreme rather than the one before it: NaN counts as one, and of equals the first stays.
template <Reduction kind, class T>
bool is_more(T x, T best) {
  return (kind == Reduction::max ? x > best : x < best) | ((x != x) & (best == best));
}

// Numbers only: an operation that refuses bool while recording needs no code for it.
template <class Body>
void visit_number(DType dtype, Body&& body) {
  visit(dtype, [&]<class T>() {
    if constexpr (!std::is_same_v<T, bool>) body.template operator()<T>();
  });
}

// A move depends on the width of the elements alone.
template <class Body>
void visit_width(DType dtype, Body&& body) {
  switch (size_of(dtype)) {
    case 1: return body.template operator()<uint8_t>();
    case 2: return body.template operator()<uint16_t>();
    case 4: return body.template operator()<uint32_t>();
    default: return body.template operator()<uint64_t>();
  }
}

// Threads for so many steps of about a quarter of a nanosecond.
inline int threads_for(int64_t work) {
  constexpr int64_t worth_a_thread = 1 << 18;
  if (omp_in_parallel() || work < worth_a_thread) return 1;
  return static_cast<int>(std::min<int64_t>(omp_get_max_threads(), 1 + work / worth_a_thread));
}

}  // namespace backbeat::host
