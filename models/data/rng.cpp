#include "models/data/rng.hpp"

#include <cmath>

#include "engine/error.hpp"
#include "engine/philox.hpp"

namespace backbeat {

namespace {

std::array<uint32_t, 2> halves(uint64_t value) {
  return {static_cast<uint32_t>(value), static_cast<uint32_t>(value >> 32)};
}

template <size_t n>
double polynomial(const std::array<double, n>& coefficients, double x) {  // constant term first
  double y = 0;
  for (size_t i = n; i-- > 0;) y = y * x + coefficients[i];
  return y;
}

// Sine and cosine of |r| <= pi/4 by their Taylor series; the first term left out is below 1e-18.
double sine_near_zero(double r) {
  double sum = 1;
  for (int k = 16; k >= 2; k -= 2) sum = 1 - sum * r * r / (k * (k + 1));
  return r * sum;
}
double cosine_near_zero(double r) {
  double sum = 1;
  for (int k = 17; k >= 1; k -= 2) sum = 1 - sum * r * r / (k * (k + 1));
  return sum;
}

// sin(x + quarter_turns * pi/2)
double sine_of(double x, int64_t quarter_turns) {
  constexpr double two_over_pi = 0.63661977236758134308;
  constexpr double half_pi_high = 1.57079632673412561417;  // 33 bits: its multiples are exact
  constexpr double half_pi_low = 6.07710050650619224932e-11;
  const double k = std::floor(x * two_over_pi + 0.5);
  const double r = (x - k * half_pi_high) - k * half_pi_low;
  const int64_t quadrant = ((static_cast<int64_t>(k) + quarter_turns) % 4 + 4) % 4;
  const double value = quadrant % 2 == 0 ? sine_near_zero(r) : cosine_near_zero(r);
  return quadrant < 2 ? value : -value;
}

}  // namespace

HostRandom::HostRandom(uint64_t seed, uint32_t stream, uint64_t step)
    : key_(halves(seed)), counter_{0, stream, halves(step)[0], halves(step)[1]} {}

uint32_t HostRandom::bits() {
  if (used_ == 4) {
    block_ = philox4x32(counter_, key_);
    ++counter_[0];
    used_ = 0;
  }
  return block_[static_cast<size_t>(used_++)];
}

uint64_t HostRandom::wide_bits() {
  const uint64_t low = bits();
  return low | uint64_t{bits()} << 32;
}

double HostRandom::uniform() { return static_cast<double>(wide_bits() >> 11) * 0x1p-53; }

double HostRandom::normal() { return normal_quantile((static_cast<double>(wide_bits() >> 12) + 0.5) * 0x1p-52); }

int64_t HostRandom::below(int64_t n) {
  if (n < 1) fail("random", "expected a count of at least 1, got ", n);
  // The last, incomplete run of n values is thrown away, or small remainders would come up more often.
  const uint64_t count = static_cast<uint64_t>(n);
  const uint64_t rejected_from = UINT64_MAX - UINT64_MAX % count;
  for (;;) {
    const uint64_t value = wide_bits();
    if (value < rejected_from) return static_cast<int64_t>(value % count);
  }
}

// A Feistel network is a permutation whatever its round function; numbers that land outside `size` are sent round again
// (cycle walking), which keeps it one on the smaller set.
int64_t shuffled_index(int64_t position, int64_t size, uint64_t seed, uint64_t epoch) {
  if (position < 0 || position >= size) fail("shuffle", "expected a position below ", size, ", got ", position);
  uint32_t half_bits = 1;
  while ((int64_t{1} << (2 * half_bits)) < size) ++half_bits;
  const uint32_t mask = half_bits >= 32 ? UINT32_MAX : (1u << half_bits) - 1;
  uint64_t value = static_cast<uint64_t>(position);
  do {
    uint32_t left = static_cast<uint32_t>(value >> half_bits), right = static_cast<uint32_t>(value) & mask;
    for (uint32_t round = 0; round < 6; ++round) {
      const uint32_t mixed = philox4x32({right, round, halves(epoch)[0], halves(epoch)[1]}, halves(seed))[0] & mask;
      const uint32_t previous = left;
      left = right;
      right = previous ^ mixed;
    }
    value = uint64_t{left} << half_bits | right;
  } while (value >= static_cast<uint64_t>(size));
  return static_cast<int64_t>(value);
}

// log(m * 2^e) = e log 2 + 2 artanh((m - 1) / (m + 1)), m between sqrt(1/2) and sqrt(2).
double portable_log(double x) {
  constexpr double log_2_high = 6.93147180369123816490e-01;  // its multiples by an exponent are exact
  constexpr double log_2_low = 1.90821492927058770002e-10;
  int exponent = 0;
  double m = std::frexp(x, &exponent);
  if (m < 0.70710678118654752440) {
    m *= 2;
    --exponent;
  }
  const double s = (m - 1) / (m + 1), z = s * s;
  double sum = 0;
  for (int k = 25; k >= 3; k -= 2) sum = (sum + 1.0 / k) * z;
  return exponent * log_2_high + (2 * s * (1 + sum) + exponent * log_2_low);
}

double portable_sin(double x) { return sine_of(x, 0); }
double portable_cos(double x) { return sine_of(x, 1); }

// Wichura, "Algorithm AS 241: the percentage points of the normal distribution", Applied Statistics 37 (1988): PPND16.
double normal_quantile(double probability) {
  using Polynomial = std::array<double, 8>;
  const double q = probability - 0.5;
  if (std::fabs(q) <= 0.425) {
    constexpr Polynomial a = {3.3871328727963666080e0,  1.3314166789178437745e+2, 1.9715909503065514427e+3,
                              1.3731693765509461125e+4, 4.5921953931549871457e+4, 6.7265770927008700853e+4,
                              3.3430575583588128105e+4, 2.5090809287301226727e+3};
    constexpr Polynomial b = {1.0,
                              4.2313330701600911252e+1,
                              6.8718700749205790830e+2,
                              5.3941960214247511077e+3,
                              2.1213794301586595867e+4,
                              3.9307895800092710610e+4,
                              2.8729085735721942674e+4,
                              5.2264952788528545610e+3};
    const double r = 0.180625 - q * q;
    return q * polynomial(a, r) / polynomial(b, r);
  }
  const double r = std::sqrt(-portable_log(q < 0 ? probability : 1 - probability));
  double tail = 0;
  if (r <= 5) {
    constexpr Polynomial c = {1.42343711074968357734e0,  4.63033784615654529590e0, 5.76949722146069140550e0,
                              3.64784832476320460504e0,  1.27045825245236838258e0, 2.41780725177450611770e-1,
                              2.27238449892691845833e-2, 7.74545014278341407640e-4};
    constexpr Polynomial d = {1.0,
                              2.05319162663775882187e0,
                              1.67638483018380384940e0,
                              6.89767334985100004550e-1,
                              1.48103976427480074590e-1,
                              1.51986665636164571966e-2,
                              5.47593808499534494600e-4,
                              1.05075007164441684324e-9};
    tail = polynomial(c, r - 1.6) / polynomial(d, r - 1.6);
  } else {
    constexpr Polynomial e = {6.65790464350110377720e0,  5.46378491116411436990e0,  1.78482653991729133580e0,
                              2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
                              2.71155556874348757815e-5, 2.01033439929228813265e-7};
    constexpr Polynomial f = {1.0,
                              5.99832206555887937690e-1,
                              1.36929880922735805310e-1,
                              1.48753612908506148525e-2,
                              7.86869131145613259100e-4,
                              1.84631831751005468180e-5,
                              1.42151175831644588870e-7,
                              2.04426310338993978564e-15};
    tail = polynomial(e, r - 5) / polynomial(f, r - 5);
  }
  return q < 0 ? -tail : tail;
}

}  // namespace backbeat
