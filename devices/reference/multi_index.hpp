// Elements by their multi-index, for operations that are plainest as loops over places.
#pragma once
#include "engine/array.hpp"

namespace backbeat::reference {

inline Dims multi_index(int64_t number, const Shape& shape) {
  Dims index = Dims::filled(shape.size(), 0);
  for (int64_t i = shape.size() - 1; i >= 0; --i) index[i] = number % shape[i], number /= shape[i];
  return index;
}

inline int64_t number_of(const Dims& index, const Shape& shape) {
  int64_t number = 0;
  for (int64_t i = 0; i < shape.size(); ++i) number = number * shape[i] + index[i];
  return number;
}

// body(index) for every index within the shape, in row-major order.
template <class Body>
void for_each_index(const Shape& shape, Body&& body) {
  for (int64_t n = 0; n < element_count(shape); ++n) body(multi_index(n, shape));
}

// What numbers of a dtype compute in: f64, f32 or i64.
inline DType wide(DType dtype) { return dtype == DType::f64 ? DType::f64 : is_float(dtype) ? DType::f32 : DType::i64; }

// body<T>() with the C++ type of wide(dtype).
template <class Body>
decltype(auto) visit_wide(DType dtype, Body&& body) {
  if (dtype == DType::f64) return body.template operator()<double>();
  if (is_float(dtype)) return body.template operator()<float>();
  return body.template operator()<int64_t>();
}

template <class T>
T wrapping_sum(T a, T b) {
  if constexpr (std::is_same_v<T, int64_t>) return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  else return a + b;
}

inline void copy_element(const Array& from, int64_t i, Array& to, int64_t j) {
  const auto width = static_cast<size_t>(size_of(from.dtype()));
  std::memcpy(static_cast<std::byte*>(to.raw()) + static_cast<size_t>(j) * width,
              static_cast<const std::byte*>(from.raw()) + static_cast<size_t>(i) * width, width);
}

}  // namespace backbeat::reference
