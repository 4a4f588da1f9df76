// Sine and cosine of large f32 arguments. x 2/pi modulo 4 is found exactly enough by integers (Payne and Hanek, "Radian
// reduction for trigonometric functions", 1983): of 2/pi, the product with a 24-bit integer needs only a window of 96 bits.
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>

#include "engine/host/definitions.hpp"

namespace backbeat::host {

namespace {

struct FarAngle {
  double r;          // in [-pi/4, pi/4]
  uint32_t quarter;  // modulo 4
};

// 2/pi, binary; the point stands after the first word.
constexpr uint64_t two_over_pi[] = {0,          0xa2f9836e, 0x4e441529, 0xfc2757d1,
                                    0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab};

// |x| = m 2^e, m of 24 bits and -10 <= e <= 104. Bits of 2/pi of weight 2^(2 - e) and above only add multiples of 4, so the
// window starts right after them; it ends 2^-94 of a quarter down, m times which is far below what r is rounded to.
FarAngle far_angle(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint64_t m = (bits & 0x7fffffu) | 0x800000u;
  const uint32_t start = ((bits >> 23) & 0xffu) - 150 + 30, shift = start % 32;
  const uint64_t* word = two_over_pi + start / 32;
  const auto window = [&](int i) { return ((word[i] << 32 | word[i + 1]) << shift) >> 32; };
  const uint64_t quarters = (m * window(0) << 32) + m * window(1) + (m * window(2) >> 32);  // times 2^62
  const uint64_t nearest = (quarters + (uint64_t{1} << 61)) >> 62;
  const auto rest = static_cast<int64_t>(quarters - (nearest << 62));
  return {static_cast<double>(rest) * (std::numbers::pi * 0x1p-63), static_cast<uint32_t>(nearest)};
}

// Taylor polynomials: on [0, pi/4] both are within 1e-11 of the value.
double near_sine(double r) {
  const double z = r * r;
  return r + r * z * (-1.0 / 6 + z * (1.0 / 120 + z * (-1.0 / 5040 + z * (1.0 / 362880 + z * (-1.0 / 39916800)))));
}
double near_cosine(double r) {
  const double z = r * r;
  return 1 + z * (-0.5 + z * (1.0 / 24 + z * (-1.0 / 720 + z * (1.0 / 40320 + z * (-1.0 / 3628800 + z * (1.0 / 479001600))))));
}

float of_quarter(double r, uint32_t quarter) {
  const double y = quarter & 1u ? near_cosine(r) : near_sine(r);
  return static_cast<float>(quarter & 2u ? -y : y);
}

}  // namespace

float far_sine(float x) {
  if (std::isinf(x)) return std::numeric_limits<float>::quiet_NaN();
  const FarAngle a = far_angle(x);
  const float y = of_quarter(a.r, a.quarter);
  return x < 0 ? -y : y;
}

float far_cosine(float x) {
  if (std::isinf(x)) return std::numeric_limits<float>::quiet_NaN();
  const FarAngle a = far_angle(x);
  return of_quarter(a.r, a.quarter + 1);
}

}  // namespace backbeat::host
