// Conversions to and from the halves: all 2^16 values one way, all 2^32 floats the other, against a derivation that knows
// only which numbers a format has.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "engine/array.hpp"
#include "engine/host/kernels.hpp"

using namespace backbeat;

namespace {

struct Format {
  DType dtype;
  int exponent_bits, fraction_bits;
};
const Format formats[] = {{DType::bf16, 8, 7}, {DType::f16, 5, 10}};

// The magnitude that 15 bits stand for, from the definition of an IEEE format; the code above the largest number stands
// for infinity, and where that comes next, rounding takes it for the number that would follow.
double magnitude(const Format& f, int code) {
  const int bias = (1 << (f.exponent_bits - 1)) - 1, exponent = code >> f.fraction_bits;
  const int fraction = code & ((1 << f.fraction_bits) - 1);
  if (exponent == 0) return std::ldexp(fraction, 1 - bias - f.fraction_bits);
  return std::ldexp((1 << f.fraction_bits) + fraction, exponent - bias - f.fraction_bits);
}
int infinity(const Format& f) { return ((1 << f.exponent_bits) - 1) << f.fraction_bits; }

std::vector<double> magnitudes_of(const Format& f) {
  std::vector<double> all;
  for (int code = 0; code <= infinity(f); ++code) all.push_back(magnitude(f, code));
  return all;
}

// The nearer of the two neighbours of a value between them, the even one in the middle. Where a value lies near the one
// before, its place is found by steps.
class Rounding {
 public:
  Rounding(const Format& f, const std::vector<double>& magnitudes) : infinity_(infinity(f)), magnitudes_(magnitudes) {}
  uint16_t operator()(double x) {
    const uint16_t sign = std::signbit(x) ? 0x8000 : 0;
    const double size = std::fabs(x);
    if (size > magnitudes_.back()) return static_cast<uint16_t>(sign | infinity_);
    if (at_ > 0 && magnitudes_[at_ - 1] >= size) {
      const auto found = std::lower_bound(magnitudes_.begin(), magnitudes_.end(), size);
      at_ = static_cast<size_t>(found - magnitudes_.begin());
    }
    while (magnitudes_[at_] < size) ++at_;
    size_t code = at_;
    if (magnitudes_[at_] != size) {
      const double up = magnitudes_[at_] - size, down = size - magnitudes_[at_ - 1];  // exact: both are close to x
      if (down < up || (up == down && code % 2 == 1)) --code;
    }
    return static_cast<uint16_t>(sign | code);
  }

 private:
  int infinity_;
  const std::vector<double>& magnitudes_;
  size_t at_ = 0;  // the first that is not below the last value
};

uint16_t half_bits(DType dtype, float x) { return dtype == DType::bf16 ? bf16(x).bits : f16(x).bits; }
uint16_t half_bits(DType dtype, double x) { return dtype == DType::bf16 ? bf16(x).bits : f16(x).bits; }
float as_float(DType dtype, uint16_t bits) {
  bf16 b;
  f16 h;
  b.bits = h.bits = bits;
  return dtype == DType::bf16 ? static_cast<float>(b) : static_cast<float>(h);
}
bool same_bits(float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b); }
bool is_nan(const Format& f, uint16_t bits) { return (bits & 0x7fff) > infinity(f); }

struct Level {
  std::string name;
  host::Kernels kernels;
};
std::vector<Level> levels() {
  std::vector<Level> all{{"sse2", {}}};
  host::sse2::fill_f32(all.back().kernels);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    all.push_back({"avx2", {}});
    host::avx2::fill_f32(all.back().kernels);
  }
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    all.push_back({"avx512", {}});
    host::avx512::fill_f32(all.back().kernels);
  }
  return all;
}

}  // namespace

TEST_CASE("conversions: every half is the float that its bits say, and comes back") {
  for (const Format& f : formats) {
    CAPTURE(name_of(f.dtype));
    std::vector<uint16_t> bits(1 << 16), back(1 << 16);
    Array halves(f.dtype, {1 << 16});
    for (int i = 0; i < 1 << 16; ++i) bits[static_cast<size_t>(i)] = static_cast<uint16_t>(i);
    std::memcpy(halves.raw(), bits.data(), 1 << 17);
    int wrong = 0, wrong_back = 0;
    for (int i = 0; i < 1 << 16; ++i) {
      const auto code = static_cast<uint16_t>(i);
      const float x = as_float(f.dtype, code);
      if (is_nan(f, code)) {
        wrong += !std::isnan(x) || std::signbit(x) != (i >> 15);
        wrong_back += !is_nan(f, half_bits(f.dtype, x)) || !is_nan(f, half_bits(f.dtype, static_cast<double>(x)));
        continue;
      }
      const int size = i & 0x7fff;
      const double expected = size == infinity(f) ? HUGE_VAL : magnitude(f, size);
      wrong += std::fabs(static_cast<double>(x)) != expected || std::signbit(x) != (i >> 15);
      wrong_back += half_bits(f.dtype, x) != code || half_bits(f.dtype, static_cast<double>(x)) != code;
    }
    CHECK(wrong == 0);
    CHECK(wrong_back == 0);
    const Array floats = halves.converted(DType::f32), again = floats.converted(f.dtype);
    int differs = 0;
    for (int i = 0; i < 1 << 16; ++i) differs += !same_bits(floats.data<float>()[i], as_float(f.dtype, static_cast<uint16_t>(i)));
    CHECK(differs == 0);
    for (const Level& level : levels()) {
      CAPTURE(level.name);
      std::vector<float> wide(1 << 16), same(1 << 16);
      const auto& k = level.kernels;
      (f.dtype == DType::bf16 ? k.bf16_to_f32 : k.f16_to_f32)(bits.data(), wide.data(), 1 << 16);
      (f.dtype == DType::bf16 ? k.f32_to_bf16 : k.f32_to_f16)(wide.data(), back.data(), 1 << 16);
      (f.dtype == DType::bf16 ? k.round_to_bf16 : k.round_to_f16)(wide.data(), same.data(), 1 << 16);
      CHECK(std::memcmp(wide.data(), floats.raw(), 1 << 18) == 0);
      CHECK(std::memcmp(back.data(), again.raw(), 1 << 17) == 0);
      int changed = 0;  // every number is left alone
      for (size_t i = 0; i < 1 << 16; ++i) changed += !std::isnan(wide[i]) && !same_bits(same[i], wide[i]);
      CHECK(changed == 0);
    }
  }
}

TEST_CASE("conversions: a double or an integer is rounded to a half once") {
  for (const Format& f : formats) {
    CAPTURE(name_of(f.dtype));
    const std::vector<double> magnitudes = magnitudes_of(f);
    Rounding rounded(f, magnitudes);
    int wrong = 0;
    // Around every number of the format and every middle between two: one unit of the double to either side.
    for (size_t code = 0; code + 1 < magnitudes.size(); ++code)
      for (double x : {magnitudes[code], (magnitudes[code] + magnitudes[code + 1]) / 2})
        for (double y : {x, std::nextafter(x, 0.0), std::nextafter(x, HUGE_VAL), -x, -std::nextafter(x, HUGE_VAL)})
          wrong += half_bits(f.dtype, y) != rounded(y);
    CHECK(wrong == 0);
    wrong = 0;
    for (int shift = 0; shift < 63; ++shift)
      for (int64_t near : {-1, 0, 1})
        for (int64_t top : {1, 257, 259, 2049, 2051, 0x101, 0x103}) {
          if (static_cast<double>(top) * std::ldexp(1, shift) >= 0x1p63) continue;
          const int64_t value = (top << shift) + near;
          for (int64_t v : {value, -value}) {
            // long double holds every int64
            const long double exact = static_cast<long double>(v);
            const auto at = std::lower_bound(magnitudes.begin(), magnitudes.end(), std::fabs(exact));
            uint16_t expected = static_cast<uint16_t>(infinity(f));
            if (at != magnitudes.end()) {
              expected = static_cast<uint16_t>(at - magnitudes.begin());
              if (*at != std::fabs(exact)) {
                const long double up = *at - std::fabs(exact), down = std::fabs(exact) - magnitudes[expected - 1u];
                if (!(up < down || (up == down && expected % 2 == 0))) --expected;
              }
            }
            if (v < 0) expected |= 0x8000;
            uint16_t got;
            std::memcpy(&got, Array::scalar<int64_t>(v).converted(f.dtype).raw(), 2);
            wrong += got != expected;
          }
        }
    CHECK(wrong == 0);
  }
}

// Every float there is: by the scalar type, by Array and by the kernels of every instruction-set level.
TEST_SUITE("slow") {
  TEST_CASE("conversions: every float rounds to the nearest half") {
    constexpr int64_t run = 1 << 16;
    const std::vector<Level> all = levels();
    for (const Format& f : formats) {
      CAPTURE(name_of(f.dtype));
      const std::vector<double> magnitudes = magnitudes_of(f);
      std::atomic<int64_t> wrong_scalar = 0, wrong_array = 0, wrong_kernel = 0, wrong_round = 0;
#pragma omp parallel for schedule(dynamic)
      for (int64_t high = 0; high < 1 << 16; ++high) {
        Array floats(DType::f32, {run});
        float* x = floats.data<float>();
        for (int64_t i = 0; i < run; ++i) x[i] = std::bit_cast<float>(static_cast<uint32_t>(high << 16 | i));
        const Array halves = floats.converted(f.dtype);
        const auto* by_array = static_cast<const uint16_t*>(halves.raw());
        std::vector<uint16_t> expected(static_cast<size_t>(run)), by_kernel(static_cast<size_t>(run));
        std::vector<float> by_rounding(static_cast<size_t>(run));
        Rounding rounded(f, magnitudes);
        int64_t scalar = 0, array = 0, kernel = 0, round = 0;
        for (int64_t i = 0; i < run; ++i) {
          const auto s = static_cast<size_t>(i);
          expected[s] = half_bits(f.dtype, x[i]);
          scalar += std::isnan(x[i]) ? !is_nan(f, expected[s]) : expected[s] != rounded(x[i]);
          array += by_array[i] != expected[s];
        }
        for (const Level& level : all) {
          const auto& k = level.kernels;
          (f.dtype == DType::bf16 ? k.f32_to_bf16 : k.f32_to_f16)(x, by_kernel.data(), run);
          (f.dtype == DType::bf16 ? k.round_to_bf16 : k.round_to_f16)(x, by_rounding.data(), run);
          for (int64_t i = 0; i < run; ++i) {
            const auto s = static_cast<size_t>(i);
            kernel += by_kernel[s] != expected[s];
            round += !same_bits(by_rounding[s], as_float(f.dtype, expected[s]));
          }
        }
        wrong_scalar += scalar, wrong_array += array, wrong_kernel += kernel, wrong_round += round;
      }
      CHECK(wrong_scalar == 0);
      CHECK(wrong_array == 0);
      CHECK(wrong_kernel == 0);
      CHECK(wrong_round == 0);
    }
  }
}
