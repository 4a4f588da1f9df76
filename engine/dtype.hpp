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

enum class DType : uint8_t { f64, f32, bf16, f16, i64, i32, i16, i8, u32, u8, boolean };

int64_t size_of(DType dtype);        // bytes per element
std::string_view name_of(DType dtype);  // "f32", "bool", ...
constexpr bool is_float(DType d) { return d <= DType::f16; }
constexpr bool is_integer(DType d) { return d >= DType::i64 && d <= DType::u8; }
constexpr bool is_half(DType d) { return d == DType::bf16 || d == DType::f16; }  // computes in f32, rounds once a node
std::ostream& operator<<(std::ostream& out, DType dtype);

// A double as the float whose last bit also says whether anything was cut off, so that rounding it once more to a
// narrower type rounds once in all.
inline float round_to_odd(double value) {
  const float nearest = static_cast<float>(value);
  const double back = nearest;
  if (back == value || value != value) return nearest;
  uint32_t u = std::bit_cast<uint32_t>(nearest);
  if ((back < 0 ? -back : back) > (value < 0 ? -value : value)) --u;
  return std::bit_cast<float>(u | 1u);
}

// The same for an int64 on its way to a double.
inline double round_to_odd(int64_t value) {
  constexpr int64_t exact = int64_t{1} << 53, lost = 0x3ff;  // a double keeps the upper 54 bits and the sign
  if (value > -exact && value < exact) return static_cast<double>(value);
  return static_cast<double>((value & ~lost) | (value & lost ? lost + 1 : 0));
}

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
  explicit bf16(double value) : bf16(round_to_odd(value)) {}
  explicit operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
  explicit operator double() const { return static_cast<double>(static_cast<float>(*this)); }
};

// IEEE 754 binary16: 5 bits of exponent, 10 of fraction. Rounds like bf16; beyond 65504 + 16 lies infinity.
struct f16 {
  uint16_t bits = 0;

  f16() = default;
  explicit f16(float value) {
    const uint32_t u = std::bit_cast<uint32_t>(value), sign = (u >> 16) & 0x8000u, magnitude = u & 0x7fffffffu;
    uint32_t h;
    if (magnitude > 0x7f800000u) {
      h = 0x7e00u | ((magnitude >> 13) & 0x1ffu);
    } else if (magnitude >= 0x47800000u) {  // 2^16
      h = 0x7c00u;
    } else if (magnitude >= 0x38800000u) {  // 2^-14: normal; a carry out of the fraction raises the exponent
      h = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    } else {  // adding 1/2 leaves the value in units of 2^-24 in the low bits, rounded to even
      h = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
    }
    bits = static_cast<uint16_t>(sign | h);
  }
  explicit f16(double value) : f16(round_to_odd(value)) {}
  explicit operator float() const {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16, exponent = (bits >> 10) & 31u, fraction = bits & 0x3ffu;
    if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
    if (exponent == 0) {
      const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
      return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
    }
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
  }
  explicit operator double() const { return static_cast<double>(static_cast<float>(*this)); }
};

template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, double>) return DType::f64;
  else if constexpr (std::is_same_v<T, float>) return DType::f32;
  else if constexpr (std::is_same_v<T, bf16>) return DType::bf16;
  else if constexpr (std::is_same_v<T, f16>) return DType::f16;
  else if constexpr (std::is_same_v<T, int64_t>) return DType::i64;
  else if constexpr (std::is_same_v<T, int32_t>) return DType::i32;
  else if constexpr (std::is_same_v<T, int16_t>) return DType::i16;
  else if constexpr (std::is_same_v<T, int8_t>) return DType::i8;
  else if constexpr (std::is_same_v<T, uint32_t>) return DType::u32;
  else if constexpr (std::is_same_v<T, uint8_t>) return DType::u8;
  else { static_assert(std::is_same_v<T, bool>, "no such dtype"); return DType::boolean; }
}

// visit(dtype, [&]<class T>() { ... }) calls the body with the C++ type of `dtype`.
template <class Body>
decltype(auto) visit(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::f64: return body.template operator()<double>();
    case DType::f32: return body.template operator()<float>();
    case DType::bf16: return body.template operator()<bf16>();
    case DType::f16: return body.template operator()<f16>();
    case DType::i64: return body.template operator()<int64_t>();
    case DType::i32: return body.template operator()<int32_t>();
    case DType::i16: return body.template operator()<int16_t>();
    case DType::i8: return body.template operator()<int8_t>();
    case DType::u32: return body.template operator()<uint32_t>();
    case DType::u8: return body.template operator()<uint8_t>();
    case DType::boolean: break;
  }
  return body.template operator()<bool>();
}

}  // namespace backbeat
