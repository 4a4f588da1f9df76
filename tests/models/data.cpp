// Data sets, the randomness under them, and the metrics over them.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numbers>
#include <set>

#include "engine/io/sha256.hpp"
#include "models/data/dataset.hpp"
#include "models/data/metrics.hpp"
#include "models/data/rng.hpp"
#include "tests/error_of.hpp"

using namespace backbeat;
namespace fs = std::filesystem;

namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

const char* const toys[] = {"8gaussians", "25gaussians", "swissroll"};

// Nine images of 2 x 3 pixels, image k filled with 20 k, label k, under MNIST's names.
struct SmallImages {
  SmallImages() {
    std::string name = (fs::temp_directory_path() / "backbeat-data-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    folder = name;
    std::string pixels("\0\0\x08\x03\0\0\0\x09\0\0\0\x02\0\0\0\x03", 16), labels("\0\0\x08\x01\0\0\0\x09", 8);
    for (char k = 0; k < 9; ++k) {
      pixels.append(6, static_cast<char>(20 * k));
      labels.push_back(k);
    }
    write("train-images-idx3-ubyte", pixels);
    write("train-labels-idx1-ubyte", labels);
  }
  ~SmallImages() { fs::remove_all(folder); }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream out(folder / name, std::ios::binary);
    out << bytes;
  }
  fs::path folder;
};

Array points(const std::vector<float>& values) {
  return Array::from<float>({static_cast<int64_t>(values.size()) / 2, 2}, values);
}

}  // namespace

TEST_CASE("random: a pure function of seed, stream and step") {
  HostRandom a(7, 1, 3), b(7, 1, 3);
  for (int i = 0; i < 100; ++i) CHECK(a.uniform() == b.uniform());
  const double first = HostRandom(7, 1, 3).uniform();
  CHECK(HostRandom(8, 1, 3).uniform() != first);
  CHECK(HostRandom(7 + (uint64_t{1} << 32), 1, 3).uniform() != first);
  CHECK(HostRandom(7, 2, 3).uniform() != first);
  CHECK(HostRandom(7, 1, 4).uniform() != first);
  CHECK(HostRandom(7, 1, 3 + (uint64_t{1} << 32)).uniform() != first);
  CHECK(HostRandom(0, 0, 0).bits() == 0x6627e8d5);  // Philox's own first word
}

TEST_CASE("random: the distributions") {
  constexpr int n = 200'000;
  HostRandom random(1, 2, 3);
  double sum = 0, square = 0, cube = 0, fourth = 0, uniform_sum = 0;
  for (int i = 0; i < n; ++i) {
    const double x = random.normal(), u = random.uniform();
    sum += x;
    square += x * x;
    cube += x * x * x;
    fourth += x * x * x * x;
    uniform_sum += u;
    if (!(u >= 0 && u < 1)) FAIL("uniform() left [0,1): ", u);
  }
  // Five standard errors each.
  CHECK(std::fabs(sum / n) < 5 / std::sqrt(n));
  CHECK(std::fabs(square / n - 1) < 5 * std::sqrt(2.0 / n));
  CHECK(std::fabs(cube / n) < 5 * std::sqrt(15.0 / n));
  CHECK(std::fabs(fourth / n - 3) < 5 * std::sqrt(96.0 / n));
  CHECK(std::fabs(uniform_sum / n - 0.5) < 5 / std::sqrt(12.0 * n));

  std::vector<int> counts(7, 0);
  for (int i = 0; i < 70'000; ++i) ++counts[static_cast<size_t>(random.below(7))];
  for (int count : counts) CHECK(std::abs(count - 10'000) < 500);
  CHECK(random.below(1) == 0);
  CHECK(error_of([&] { random.below(0); }) == "[random] expected a count of at least 1, got 0");
}

TEST_CASE("random: portable functions agree with the mathematics library") {
  const auto close = [](double a, double b, double scale) { return std::fabs(a - b) <= 1e-15 * scale; };
  int far = 0;
  for (int k = 1; k < 20'000; ++k) {
    const double x = 0.0037 * k;
    far += !close(portable_sin(x), std::sin(x), 1) + !close(portable_cos(-x), std::cos(x), 1);
    far += !close(portable_log(x), std::log(x), 1 + std::fabs(std::log(x)));
    far += !close(portable_log(1 / (x * x * x)), std::log(1 / (x * x * x)), 1 + std::fabs(std::log(x * x * x)));
  }
  CHECK(far == 0);
  CHECK(portable_log(1) == 0);
  CHECK(portable_sin(0) == 0);
  CHECK(portable_cos(0) == 1);

  // The quantile is the inverse of the distribution function, which the library gives as erfc.
  CHECK(normal_quantile(0.5) == 0);
  for (double p : {1e-300, 1e-20, 1e-12, 1e-5, 0.01, 0.0749, 0.0751, 0.3, 0.6, 0.9249, 0.9251, 0.99, 1 - 1e-9}) {
    CAPTURE(p);
    CHECK(std::erfc(-normal_quantile(p) / std::numbers::sqrt2) / 2 == doctest::Approx(p).epsilon(1e-12));
  }
  CHECK(normal_quantile(0.975) == doctest::Approx(1.959963984540054).epsilon(1e-15));
}

TEST_CASE("shuffle: a permutation of any size, another for each seed and epoch") {
  for (int64_t size : {1, 2, 3, 4, 5, 16, 17, 1000, 4097, 60'000}) {
    CAPTURE(size);
    std::vector<bool> seen(static_cast<size_t>(size), false);
    for (int64_t i = 0; i < size; ++i) seen[static_cast<size_t>(shuffled_index(i, size, 5, 9))] = true;
    CHECK(std::count(seen.begin(), seen.end(), true) == size);
  }
  const auto order = [](uint64_t seed, uint64_t epoch) {
    std::vector<int64_t> indices;
    for (int64_t i = 0; i < 100; ++i) indices.push_back(shuffled_index(i, 100, seed, epoch));
    return indices;
  };
  CHECK(order(1, 1) == order(1, 1));
  CHECK(order(1, 1) != order(1, 2));
  CHECK(order(1, 1) != order(2, 1));

  // Over many epochs each index comes first about equally often.
  std::vector<int> counts(10, 0);
  for (uint64_t epoch = 0; epoch < 10'000; ++epoch) ++counts[static_cast<size_t>(shuffled_index(0, 10, 3, epoch))];
  for (int count : counts) CHECK(std::abs(count - 1000) < 160);
  CHECK(contains(error_of([] { shuffled_index(3, 3, 0, 0); }), "[shuffle] expected a position below 3, got 3"));
}

TEST_CASE("data sets: a batch depends on the seed and the step alone") {
  for (const char* name : toys) {
    CAPTURE(name);
    const Dataset set = open_dataset(name);
    CHECK(set.name == name);
    CHECK(set.sample_shape == Shape{2});
    const Array batch = set.batch(256, 1, 100);
    CHECK(batch.dtype() == DType::f32);
    CHECK(batch.shape() == Shape{256, 2});
    set.batch(64, 9, 9);
    CHECK(bitwise_equal(open_dataset(name).batch(256, 1, 100), batch));
    CHECK_FALSE(bitwise_equal(set.batch(256, 1, 101), batch));
    CHECK_FALSE(bitwise_equal(set.batch(256, 2, 100), batch));
    CHECK(contains(error_of([&] { set.batch(0, 1, 1); }), "[data] expected a batch of at least 1, got 0"));
  }
}

TEST_CASE("data sets: the same bits on every machine") {
  const auto fingerprint = [](const char* name) {
    return sha256_of({{"batch", open_dataset(name).batch(4096, 1, 2)}});
  };
  CHECK(fingerprint("8gaussians") == "0d3fbf71872894b144a993f7573c02401cb5739dbe9548ab947e1d9637b39de7");
  CHECK(fingerprint("25gaussians") == "9aeda0ea5f68ea0fde1d1b404fd14ee763bee0ca4316744c1a829b2b5f4839ce");
  CHECK(fingerprint("swissroll") == "211149d0a778f80f2f711b19db85f5eadef50f4aef67c0b29e949f5373a0b1db");
}

TEST_CASE("data sets: the gaussians have the original's centres and widths") {
  struct Row {
    const char* name;
    double deviation;
  };
  for (const Row& row : {Row{"8gaussians", 0.02 / 1.414}, Row{"25gaussians", 0.05 / 2.828}}) {
    CAPTURE(row.name);
    const std::vector<Point> centres = mode_centres(row.name);
    const int64_t n = 50'000;
    const Array batch = open_dataset(row.name).batch(n, 1, 0);
    const ModeCoverage coverage = mode_coverage(batch, centres, 6 * row.deviation);
    CHECK(coverage.near_a_mode == doctest::Approx(1).epsilon(1e-3));
    CHECK(coverage.covered == static_cast<int64_t>(centres.size()));
    for (double share : coverage.share)
      CHECK(share == doctest::Approx(1.0 / static_cast<double>(centres.size())).epsilon(0.06));
    double square = 0;
    for (int64_t i = 0; i < n; ++i) {
      double nearest = std::numeric_limits<double>::infinity();
      for (const Point& c : centres)
        nearest = std::min(nearest, std::hypot(batch.at(2 * i) - c[0], batch.at(2 * i + 1) - c[1]));
      square += nearest * nearest;
    }
    CHECK(std::sqrt(square / (2 * n)) == doctest::Approx(row.deviation).epsilon(0.01));
  }
  CHECK(mode_centres("8gaussians")[0][0] == 2 / 1.414);
  CHECK(mode_centres("25gaussians")[24] == Point{4 / 2.828, 4 / 2.828});
}

TEST_CASE("data sets: an epoch of the 25 gaussians has 4000 points a mode") {
  const Dataset set = open_dataset("25gaussians");
  REQUIRE(set.sample_count == 100'000);
  std::vector<double> shares(25, 0.0);
  std::set<std::pair<double, double>> distinct;
  for (uint64_t step = 0; step < 10; ++step) {
    const Array batch = set.batch(10'000, 3, step);
    const ModeCoverage coverage = mode_coverage(batch, mode_centres("25gaussians"), 1);
    for (size_t k = 0; k < 25; ++k) shares[k] += coverage.share[k] / 10;
    for (int64_t i = 0; i < 10'000; ++i) distinct.insert({batch.at(2 * i), batch.at(2 * i + 1)});
  }
  for (double share : shares) CHECK(share == doctest::Approx(0.04).epsilon(1e-9));
  CHECK(distinct.size() > 99'900);  // some of 100,000 random points may coincide in f32
  CHECK(set.samples(99'999, 1).shape() == Shape{1, 2});
  CHECK(contains(error_of([&] { set.samples(99'999, 2); }), "has 100000 samples"));
}

TEST_CASE("data sets: the swiss roll winds from 1.5 pi to 4.5 pi") {
  const int64_t n = 20'000;
  const Array batch = open_dataset("swissroll").batch(n, 1, 0);
  double shortest = 1e9, longest = 0, off_the_roll = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double x = batch.at(2 * i) * 7.5, z = batch.at(2 * i + 1) * 7.5, radius = std::hypot(x, z);
    shortest = std::min(shortest, radius);
    longest = std::max(longest, radius);
    // On the roll the angle is the radius, up to whole turns.
    const double turns = (radius - std::atan2(z, x)) / (2 * std::numbers::pi);
    off_the_roll = std::max(off_the_roll, std::fabs(turns - std::round(turns)));
  }
  CHECK(shortest == doctest::Approx(1.5 * std::numbers::pi - 0.8).epsilon(0.1));
  CHECK(longest == doctest::Approx(4.5 * std::numbers::pi + 0.8).epsilon(0.05));
  CHECK(off_the_roll < 0.25);
}

TEST_CASE("data sets: a directory of IDX files") {
  const SmallImages small;
  const Dataset set = open_dataset(small.folder.string());
  CHECK(set.sample_shape == Shape{1, 2, 3});
  CHECK(set.sample_count == 9);
  const Array all = set.samples(0, 9);
  CHECK(all.shape() == Shape{9, 1, 2, 3});
  CHECK(all.at(6 * 8 + 5) == 160.0f / 255.0f);

  // Batches of 4: two steps an epoch, the ninth sample is left over; no sample twice, labels in step with images.
  for (uint64_t epoch = 0; epoch < 3; ++epoch) {
    std::set<double> seen;
    for (uint64_t step = 2 * epoch; step < 2 * epoch + 2; ++step) {
      const Array images = set.batch(4, 11, step), labels = set.labels(4, 11, step);
      for (int64_t i = 0; i < 4; ++i) {
        seen.insert(labels.at(i));
        CHECK(images.at(6 * i) == static_cast<float>(20 * labels.at(i)) / 255.0f);
      }
    }
    CHECK(seen.size() == 8);
  }
  CHECK(contains(error_of([&] { set.batch(10, 0, 0); }), "has 9 samples, got a batch of 10"));

  const std::string folder = small.folder.string();
  CHECK(error_of([&] { open_dataset(folder, Split::test); }) ==
        "[data] " + folder +
            ": expected the IDX file t10k-images-idx3-ubyte or t10k-images-idx3-ubyte.gz, found neither");
  small.write("train-labels-idx1-ubyte", std::string("\0\0\x08\x01\0\0\0\x01\x05", 9));
  CHECK(contains(error_of([&] { open_dataset(folder); }), "expected one label for each of 9 images, got 1"));
  small.write("train-labels-idx1-ubyte", std::string("\0\0\x08\x02\0\0\0\x01\0\0\0\x01\x05", 13));
  CHECK(contains(error_of([&] { open_dataset(folder); }), "expected u8 of rank 1"));
  CHECK(error_of([] { open_dataset("mnits"); }) ==
        "[data] unknown data set 'mnits', expected 8gaussians, 25gaussians, swissroll, fashion-mnist or a directory of "
        "IDX files");
}

TEST_CASE("data sets: Fashion-MNIST as Debian installs it") {
  if (!fs::is_directory("/usr/share/datasets/fashion-mnist")) {
    CHECK(contains(error_of([] { open_dataset("fashion-mnist"); }), "apt-get install dataset-fashion-mnist"));
    CHECK(contains(error_of([] { open_dataset("fashion-mnist"); }), "--data DIR"));
    return;
  }
  const Dataset train = open_dataset("fashion-mnist"), test = open_dataset("fashion-mnist", Split::test);
  CHECK(train.sample_shape == Shape{1, 28, 28});
  CHECK(train.sample_count == 60'000);
  CHECK(test.sample_count == 10'000);
  CHECK(bitwise_equal(train.sample_labels(0, 10), Array::from<int32_t>({10}, {9, 0, 0, 3, 0, 2, 7, 2, 5, 5})));
  CHECK(bitwise_equal(test.sample_labels(0, 10), Array::from<int32_t>({10}, {9, 2, 1, 1, 6, 1, 4, 6, 5, 7})));
  std::vector<int> counts(10, 0);
  const Array labels = train.sample_labels(0, 60'000);
  for (int64_t i = 0; i < 60'000; ++i) ++counts[static_cast<size_t>(labels.at(i))];
  CHECK(counts == std::vector<int>(10, 6000));

  const Array batch = train.batch(50, 1, 7);
  CHECK(batch.shape() == Shape{50, 1, 28, 28});
  const float* pixels = batch.data<float>();
  CHECK(*std::min_element(pixels, pixels + batch.size()) == 0);
  CHECK(*std::max_element(pixels, pixels + batch.size()) == 1);
  CHECK(bitwise_equal(train.batch(50, 1, 7), batch));
}

TEST_CASE("sliced Wasserstein distance: cases done by hand") {
  const Array line_a = Array::from<float>({3, 1}, {0, 1, 5}), line_b = Array::from<float>({3, 1}, {4, 2, 2});
  CHECK(sliced_wasserstein(line_a, line_b) == doctest::Approx((2.0 + 1.0 + 1.0) / 3));  // 0 1 5 against 2 2 4
  CHECK(sliced_wasserstein(line_a, line_a) == 0);
  // Unequal counts: {0, 1} against {0, 0, 3}: a third of 0, a sixth of 0, a sixth of 1, a third of 2.
  CHECK(sliced_wasserstein(Array::from<double>({2, 1}, {0, 1}), Array::from<double>({3, 1}, {3, 0, 0})) ==
        doctest::Approx(1.0 / 6 + 2.0 / 3));

  // A shift by v in the plane: the mean of |v u| over directions u, which is 2 / pi |v|.
  const Array cloud = points({0, 0, 1, 2, -3, 1}), shifted = points({3, 4, 4, 6, 0, 5});
  CHECK(sliced_wasserstein(cloud, shifted) == doctest::Approx(5 * 2 / std::numbers::pi).epsilon(1e-3));
  CHECK(sliced_wasserstein(shifted, cloud) == sliced_wasserstein(cloud, shifted));
  CHECK(sliced_wasserstein(cloud, points({-3, 1, 0, 0, 1, 2})) == 0);  // the order of the samples does not matter

  // A shift by v in d dimensions: |v| Gamma(d/2) / (sqrt(pi) Gamma((d+1)/2)); in three, |v| / 2.
  const Array space = Array::from<float>({1, 3}, {0, 0, 0}), moved = Array::from<float>({1, 3}, {2, -1, 2});
  CHECK(sliced_wasserstein(space, moved, 4096) == doctest::Approx(1.5).epsilon(0.03));

  CHECK(std::isnan(sliced_wasserstein(cloud, points({NAN, 0}))));
  CHECK(contains(error_of([&] { sliced_wasserstein(cloud, space); }), "samples differ in size: [3,2] and [1,3]"));
  CHECK(contains(error_of([&] {
                   sliced_wasserstein(cloud, Array::from<int32_t>({1, 2}, {0, 0}));
                 }),
                 "expected f32 or f64"));
}

TEST_CASE("mode coverage: counted by hand") {
  const std::vector<Point> centres = {{0, 0}, {1, 0}, {5, 5}};
  const Array samples = points({0, 0.1f, 0.1f, 0, 0.8f, 0, 1.1f, 0, 0.5f, 0.5f});
  const ModeCoverage coverage = mode_coverage(samples, centres, 0.25);
  CHECK(coverage.share == std::vector<double>{0.4, 0.4, 0});
  CHECK(coverage.covered == 2);
  CHECK(coverage.near_a_mode == doctest::Approx(0.8));
  CHECK(mode_coverage(samples, centres, 0.25, 0.5).covered == 0);
  CHECK(mode_coverage(points({NAN, 0}), centres).near_a_mode == 0);
  CHECK(contains(error_of([&] { mode_coverage(samples, mode_centres("swissroll")); }), "expected at least one mode"));
}
