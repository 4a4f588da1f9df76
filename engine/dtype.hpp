// Element types: what they are called, how wide they are, and bfloat16 itself.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>
#include <ostream>
#include <string>
#include <string_view>
#include <type_traits>

namespace backbeat {

enum class DType : uint8_t { f64, f32, bf16, i64, i32, u32, boolean };

int64_t size_of(DType dtype);        // bytes per element
std::string_view name_of(DType dtype);  // "f32", "bool", ...
constexpr bool is_float(DType d) { return d == DType::f64 || d == DType::f32 || d == DType::bf16; }
std::ostream& operator<<(std::ostream& out, DType dtype);

// The upper half of a float32. Conversion rounds to nearest, ties to even; subnormals are kept (a chip that flushes them
// says so itself); NaN stays NaN.
struct bf16 {
  uint16_t bits = 0;

  bf16() = default;
  explicit bf16(float value) {
    const uint32_t u = std::bit_cast<uint32_t>(value);
    if ((u & 0x7fffffffu) > 0x7f800000u) {
      bits = static_cast<uint16_t>((u >> 16) | 0x0040u);
    } else {
      bits = static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
    }
  }
  explicit bf16(double value) : bf16(static_cast<float>(value)) {}
  explicit operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
  explicit operator double() const { return static_cast<double>(static_cast<float>(*this)); }
};

template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, double>) return DType::f64;
  else if constexpr (std::is_same_v<T, float>) return DType::f32;
  else if constexpr (std::is_same_v<T, bf16>) return DType::bf16;
  else if constexpr (std::is_same_v<T, int64_t>) return DType::i64;
  else if constexpr (std::is_same_v<T, int32_t>) return DType::i32;
  else if constexpr (std::is_same_v<T, uint32_t>) return DType::u32;
  else { static_assert(std::is_same_v<T, bool>, "no such dtype"); return DType::boolean; }
}

// visit(dtype, [&]<class T>() { ... }) calls the body with the C++ type of `dtype`.
template <class Body>
decltype(auto) visit(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::f64: return body.template operator()<double>();
    case DType::f32: return body.template operator()<float>();
    case DType::bf16: return body.template operator()<bf16>();
    case DType::i64: return body.template operator()<int64_t>();
    case DType::i32: return body.template operator()<int32_t>();
    case DType::u32: return body.template operator()<uint32_t>();
    case DType::boolean: break;
  }
  return body.template operator()<bool>();
}

}  // namespace backbeat
