// How well generated samples match real ones, without a downloaded network: sliced Wasserstein distance, modes covered.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "engine/array.hpp"

namespace backbeat {

using Point = std::array<double, 2>;

// SW(a, b) = mean over directions u of W1(a u, b u), where W1 of two clouds on a line is the area between their
// quantile functions: for equally many points, the mean of |i-th smallest of a u - i-th smallest of b u|.
// a is [n, ...] and b is [m, ...], f32 or f64, with d values a sample. The directions are fixed: in the plane
// `directions` equal steps of half a turn, in more dimensions normalised Gaussian vectors from a fixed seed, on a line
// the line. NaN if a value is not finite.
double sliced_wasserstein(const Array& a, const Array& b, int64_t directions = 128);

// The centres of "8gaussians" and "25gaussians" as scaled for training; empty for any other name.
std::vector<Point> mode_centres(const std::string& dataset);

struct ModeCoverage {
  std::vector<double> share;  // of all samples, for each mode: those nearest to its centre and within the radius
  int64_t covered = 0;        // modes with at least the smallest share
  double near_a_mode = 0;     // share of samples within the radius of any mode
};

ModeCoverage mode_coverage(const Array& samples, const std::vector<Point>& centres, double radius = 0.2,
                           double smallest_share = 0.02);

}  // namespace backbeat
