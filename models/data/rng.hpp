// Randomness for data on the host: a pure function of (seed, stream, step), so a resumed run sees the same batches.
// Nothing here depends on the logarithms and sines of the C library, whose last bits differ between machines.
#pragma once
#include <array>
#include <cstdint>

namespace backbeat {

// One sequence of numbers for each (seed, stream, step). A stream is one purpose: noise, shuffling, a data set.
class HostRandom {
 public:
  HostRandom(uint64_t seed, uint32_t stream, uint64_t step);

  uint32_t bits();
  double uniform();          // [0, 1), a multiple of 2^-53
  double normal();           // mean 0, standard deviation 1, from one uniform number
  int64_t below(int64_t n);  // 0 ... n - 1, each equally likely; n >= 1

 private:
  uint64_t wide_bits();

  std::array<uint32_t, 2> key_;
  std::array<uint32_t, 4> counter_;  // block, stream, step
  std::array<uint32_t, 4> block_{};
  int used_ = 4;
};

// A permutation of 0 ... size - 1 for each (seed, epoch), evaluated at one position without storing it.
int64_t shuffled_index(int64_t position, int64_t size, uint64_t seed, uint64_t epoch);

// Made of + - * / and square root, which IEEE 754 defines to the last bit; accurate to about 1e-15.
double portable_log(double x);  // x > 0
double portable_sin(double x);  // |x| up to about 1e5
double portable_cos(double x);
double normal_quantile(double probability);  // 0 < probability < 1

}  // namespace backbeat
