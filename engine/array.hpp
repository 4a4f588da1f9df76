// Array: a typed, aligned, row-major buffer with a shape. Copying an Array shares the buffer; `clone` copies it.
#pragma once
#include <memory>
#include <vector>

#include "engine/dims.hpp"
#include "engine/dtype.hpp"

namespace backbeat {

class Array {
 public:
  static constexpr size_t alignment = 64;

  Array() = default;                       // no buffer: `empty()` holds
  Array(DType dtype, const Shape& shape);  // uninitialised; Error for a shape that cannot be, RunError without the memory

  static Array zeros(DType dtype, const Shape& shape);
  static Array full(DType dtype, const Shape& shape, double value);
  template <class T>
  static Array scalar(T value) { return from(Shape{}, std::vector<T>{value}); }
  template <class T>
  static Array from(const Shape& shape, const std::vector<T>& values);

  bool empty() const { return !buffer_; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t size() const { return element_count(shape_); }
  int64_t bytes() const { return size() * size_of(dtype_); }

  void* raw() { return buffer_.get(); }
  const void* raw() const { return buffer_.get(); }
  template <class T>
  T* data() { check_dtype(dtype_of<T>()); return static_cast<T*>(raw()); }
  template <class T>
  const T* data() const { check_dtype(dtype_of<T>()); return static_cast<const T*>(raw()); }

  // Any dtype, as a double. Error for an index outside, or more than one element in item().
  double at(int64_t flat_index) const;
  void set(int64_t flat_index, double value);
  double item() const;                  // the one element of a scalar-sized array

  Array clone() const;
  Array converted(DType dtype) const;   // rounds once, to nearest even; a float becomes an integer by
                                        // truncation, saturated, and NaN becomes 0
  Array reshaped(const Shape& shape) const;  // shares the buffer

 private:
  void check_dtype(DType asked) const;
  void check_index(int64_t flat_index) const;

  DType dtype_ = DType::f32;
  Shape shape_;
  std::shared_ptr<std::byte> buffer_;
};

template <class T>
Array Array::from(const Shape& shape, const std::vector<T>& values) {
  if (element_count(shape) != static_cast<int64_t>(values.size()))
    fail("array", "shape ", shape, " holds ", element_count(shape), " values, got ", values.size());
  Array a(dtype_of<T>(), shape);
  T* out = a.data<T>();
  for (size_t i = 0; i < values.size(); ++i) out[i] = values[i];
  return a;
}

bool bitwise_equal(const Array& a, const Array& b);
std::ostream& operator<<(std::ostream& out, const Array& array);  // f32[2,3] {1, 2, 3, ...}: long ones are elided,
                                                                // floats to six digits, integers exact

}  // namespace backbeat
