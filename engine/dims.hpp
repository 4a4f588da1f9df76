// Dims: up to eight int64 values held in place. Shapes, strides, axes and permutations are all Dims.
#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <vector>

#include "engine/error.hpp"

namespace backbeat {

class Dims {
 public:
  static constexpr int64_t max_rank = 8;

  Dims() = default;
  Dims(std::initializer_list<int64_t> values) {
    for (int64_t v : values) push_back(v);
  }
  explicit Dims(const std::vector<int64_t>& values) {
    for (int64_t v : values) push_back(v);
  }
  static Dims filled(int64_t count, int64_t value) {
    Dims d;
    for (int64_t i = 0; i < count; ++i) d.push_back(value);
    return d;
  }
  static Dims range(int64_t count) {  // 0, 1, ..., count - 1
    Dims d;
    for (int64_t i = 0; i < count; ++i) d.push_back(i);
    return d;
  }

  int64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int64_t& operator[](int64_t i) { return values_[static_cast<size_t>(i)]; }
  int64_t operator[](int64_t i) const { return values_[static_cast<size_t>(i)]; }
  int64_t back() const { return (*this)[size_ - 1]; }
  void push_back(int64_t v) {
    if (size_ == max_rank) fail("shape", "more than ", max_rank, " dimensions are not supported");
    values_[static_cast<size_t>(size_++)] = v;
  }
  const int64_t* begin() const { return values_.data(); }
  const int64_t* end() const { return values_.data() + size_; }
  bool contains(int64_t v) const {
    for (int64_t x : *this)
      if (x == v) return true;
    return false;
  }
  bool operator==(const Dims& other) const {
    if (size_ != other.size_) return false;
    for (int64_t i = 0; i < size_; ++i)
      if ((*this)[i] != other[i]) return false;
    return true;
  }

 private:
  std::array<int64_t, max_rank> values_{};
  int64_t size_ = 0;
};

using Shape = Dims;

inline int64_t element_count(const Shape& shape) {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  return n;
}

// Row-major strides, in elements.
inline Dims row_major_strides(const Shape& shape) {
  Dims strides = Dims::filled(shape.size(), 1);
  for (int64_t i = shape.size() - 2; i >= 0; --i) strides[i] = strides[i + 1] * shape[i + 1];
  return strides;
}

inline std::ostream& operator<<(std::ostream& out, const Dims& dims) {  // [2,3]
  out << '[';
  for (int64_t i = 0; i < dims.size(); ++i) out << (i ? "," : "") << dims[i];
  return out << ']';
}

}  // namespace backbeat
