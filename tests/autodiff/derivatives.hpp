// Values that are the same in every run, and the one-line check of derivatives.
#pragma once
#include <doctest/doctest.h>

#include "autodiff/grad.hpp"
#include "engine/philox.hpp"
#include "tests/devices.hpp"

namespace backbeat::test {

using Tensors = std::vector<Tensor>;

inline Array between(double low, double high, const Shape& shape, uint32_t stream = 1) {
  Array a(DType::f64, shape);
  for (int64_t i = 0; i < a.size(); ++i) {
    const double u = (philox4x32({static_cast<uint32_t>(i), 0, 0, 0}, {stream, 1})[0] + 0.5) * 0x1p-32;
    a.data<double>()[i] = low + (high - low) * u;
  }
  return a;
}

inline Array any(const Shape& shape, uint32_t stream = 1) { return between(-1.5, 1.5, shape, stream); }
inline Array positive(const Shape& shape, uint32_t stream = 1) { return between(0.5, 2.5, shape, stream); }

// At least 0.1 from 0, and so from the kink of relu and abs.
inline Array not_zero(const Shape& shape, uint32_t stream = 1) {
  Array a = any(shape, stream);
  for (int64_t i = 0; i < a.size(); ++i) a.data<double>()[i] += a.data<double>()[i] < 0 ? -0.1 : 0.1;
  return a;
}

// Whether an array holds exactly these numbers; says what it holds if not.
inline bool same(const Array& array, const std::vector<double>& expected) {
  bool equal = array.size() == static_cast<int64_t>(expected.size());
  for (size_t i = 0; equal && i < expected.size(); ++i) equal = array.at(static_cast<int64_t>(i)) == expected[i];
  if (!equal) MESSAGE(concat("it holds ", array));
  return equal;
}

// Throws, with every order in the message, if a derivative up to the third is wrong.
inline void third_order(const std::function<Tensor(const Tensors&)>& f, const std::vector<Array>& values) {
  CHECK(check_grads(f, values, 3, on_reference).size() == 3);
}

}  // namespace backbeat::test
