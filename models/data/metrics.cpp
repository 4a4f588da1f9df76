#include "models/data/metrics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "models/data/rng.hpp"

namespace backbeat {

namespace {

// A cloud as rows of doubles.
struct Cloud {
  int64_t count = 0, dimensions = 0;
  std::vector<double> values;
};

Cloud cloud_of(const char* where, const Array& array) {
  if (array.shape().empty() || array.size() == 0 || (array.dtype() != DType::f32 && array.dtype() != DType::f64))
    fail(where, "expected f32 or f64 samples [n,...], got ", array.dtype(), array.shape());
  Cloud cloud{array.shape()[0], array.size() / array.shape()[0], {}};
  for (int64_t i = 0; i < array.size(); ++i) cloud.values.push_back(array.at(i));
  return cloud;
}

std::vector<std::vector<double>> directions_in(int64_t dimensions, int64_t count) {
  if (dimensions == 1) return {{1.0}};
  std::vector<std::vector<double>> directions;
  constexpr uint64_t seed = 0;
  constexpr uint32_t stream = 0x736c6963;
  for (int64_t k = 0; k < count; ++k) {
    if (dimensions == 2) {
      const double angle = std::numbers::pi * (static_cast<double>(k) + 0.5) / static_cast<double>(count);
      directions.push_back({portable_cos(angle), portable_sin(angle)});
      continue;
    }
    HostRandom random(seed, stream, static_cast<uint64_t>(k));
    std::vector<double> direction;
    double square = 0;
    for (int64_t d = 0; d < dimensions; ++d) {
      direction.push_back(random.normal());
      square += direction.back() * direction.back();
    }
    for (double& x : direction) x /= std::sqrt(square);
    directions.push_back(std::move(direction));
  }
  return directions;
}

std::vector<double> projected(const Cloud& cloud, const std::vector<double>& direction) {
  std::vector<double> line(static_cast<size_t>(cloud.count));
  const double* row = cloud.values.data();
  for (double& x : line) {
    x = 0;
    for (double u : direction) x += *row++ * u;
  }
  std::sort(line.begin(), line.end());
  return line;
}

// The area between two quantile functions, which are stairs with steps of 1/n and 1/m.
double wasserstein_on_a_line(const std::vector<double>& a, const std::vector<double>& b) {
  const double n = static_cast<double>(a.size()), m = static_cast<double>(b.size());
  double area = 0, done = 0;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const double end_a = static_cast<double>(i + 1) / n, end_b = static_cast<double>(j + 1) / m;
    const double end = std::min(end_a, end_b);
    area += (end - done) * std::fabs(a[i] - b[j]);
    done = end;
    if (end_a <= end) ++i;
    if (end_b <= end) ++j;
  }
  return area;
}

}  // namespace

double sliced_wasserstein(const Array& a, const Array& b, int64_t count) {
  const Cloud left = cloud_of("sliced_wasserstein", a), right = cloud_of("sliced_wasserstein", b);
  if (left.dimensions != right.dimensions)
    fail("sliced_wasserstein", "samples differ in size: ", a.shape(), " and ", b.shape());
  if (count < 1) fail("sliced_wasserstein", "expected at least 1 direction, got ", count);
  for (const Cloud* cloud : {&left, &right})
    for (double x : cloud->values)
      if (!std::isfinite(x)) return std::numeric_limits<double>::quiet_NaN();
  const auto directions = directions_in(left.dimensions, count);
  double sum = 0;
  for (const auto& u : directions) sum += wasserstein_on_a_line(projected(left, u), projected(right, u));
  return sum / static_cast<double>(directions.size());
}

std::vector<Point> mode_centres(const std::string& dataset) {
  std::vector<Point> centres;
  if (dataset == "8gaussians") {  // radius 2, every 45 degrees, in the original's order
    const double h = 1 / std::sqrt(2.0);
    for (const Point& p : {Point{1, 0}, {-1, 0}, {0, 1}, {0, -1}, {h, h}, {h, -h}, {-h, h}, {-h, -h}})
      centres.push_back({2 * p[0] / 1.414, 2 * p[1] / 1.414});
  } else if (dataset == "25gaussians") {  // a grid of spacing 2
    for (int x = -2; x <= 2; ++x)
      for (int y = -2; y <= 2; ++y) centres.push_back({2 * x / 2.828, 2 * y / 2.828});
  }
  return centres;
}

ModeCoverage mode_coverage(const Array& samples, const std::vector<Point>& centres, double radius,
                           double smallest_share) {
  const Cloud cloud = cloud_of("mode_coverage", samples);
  if (cloud.dimensions != 2) fail("mode_coverage", "expected points of the plane [n,2], got ", samples.shape());
  if (centres.empty()) fail("mode_coverage", "expected at least one mode, got none");
  std::vector<int64_t> counts(centres.size(), 0);
  for (int64_t i = 0; i < cloud.count; ++i) {
    size_t nearest = 0;
    double smallest = std::numeric_limits<double>::infinity();
    for (size_t k = 0; k < centres.size(); ++k) {
      const double distance = std::hypot(cloud.values[static_cast<size_t>(2 * i)] - centres[k][0],
                                         cloud.values[static_cast<size_t>(2 * i + 1)] - centres[k][1]);
      if (distance < smallest) {
        smallest = distance;
        nearest = k;
      }
    }
    if (smallest <= radius) ++counts[nearest];
  }
  ModeCoverage coverage;
  for (int64_t n : counts) {
    const double share = static_cast<double>(n) / static_cast<double>(cloud.count);
    coverage.share.push_back(share);
    coverage.covered += share >= smallest_share;
    coverage.near_a_mode += share;
  }
  return coverage;
}

}  // namespace backbeat
