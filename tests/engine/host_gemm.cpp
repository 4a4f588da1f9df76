// The packed, threaded GEMM against its plain definition, bit for bit.
#include <omp.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "doctest/doctest.h"
#include "engine/error.hpp"
#include "engine/host/gemm.hpp"
#include "engine/host/instruction_set.hpp"

using namespace backbeat;
using namespace backbeat::host;

namespace {

struct Tables {
  std::vector<int64_t> row, column;
};
Tables strided(int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride) {
  Tables t;
  for (int64_t i = 0; i < rows; ++i) t.row.push_back(i * row_stride);
  for (int64_t i = 0; i < columns; ++i) t.column.push_back(i * column_stride);
  return t;
}

enum class Values { ordinary, wide, special };

std::vector<float> values(size_t n, Values kind, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> v(n);
  for (float& x : v) {
    x = normal(random);
    if (kind != Values::ordinary) x = std::ldexp(x, static_cast<int>(random() % 160) - 80);
    if (kind == Values::special) {
      const float odd[] = {0.0f, -0.0f, 1e-40f, -3e-39f, 0x1p-126f, 3e38f, -3.3e38f, std::numeric_limits<float>::infinity(),
                           std::numeric_limits<float>::quiet_NaN()};
      if (random() % 40 == 0) x = odd[random() % 7];
      if (random() % 400 == 0) x = odd[7 + random() % 2];
    }
  }
  return v;
}

// NaN is one value where the definition does not say which.
template <class T>
bool same(const std::vector<T>& a, const std::vector<T>& b, bool exact_nan) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof(T)) == 0) continue;
    if (!exact_nan && std::isnan(a[i]) && std::isnan(b[i])) continue;
    return false;
  }
  return true;
}

template <class From, class T>
bool agrees(int64_t m, int64_t n, int64_t k, const std::vector<From>& a, const std::vector<From>& b, const Tables& at,
            const Tables& bt, const Tables& ct, size_t size, GemmOptions o) {
  std::vector<T> fast(size, T(0.5)), plain(size, T(0.5));
  const auto call = [&](auto&& f, std::vector<T>& c) {
    f(m, n, k, Indexed<From>{a.data(), at.row.data(), at.column.data()}, Indexed<From>{b.data(), bt.row.data(), bt.column.data()},
      IndexedOut<T>{c.data(), ct.row.data(), ct.column.data()}, o);
  };
  call([](auto... x) { gemm(x...); }, fast);
  call([](auto... x) { gemm_plain(x...); }, plain);
  return same(fast, plain, o.matrix_unit);
}

std::vector<int64_t> tiles(int64_t k, int64_t by) {
  std::vector<int64_t> ends;
  for (int64_t e = by; e < k; e += by) ends.push_back(e);
  if (k) ends.push_back(k);
  return ends;
}

struct Size {
  int64_t m, n, k, tile;
};
const Size sizes[] = {{1, 1, 1, 1},   {1, 37, 19, 8},   {41, 1, 300, 128}, {3, 5, 7, 3},     {12, 32, 64, 16},
                      {13, 33, 65, 4}, {70, 90, 530, 256}, {64, 64, 128, 128}, {25, 100, 1, 1}, {5, 6, 0, 4}};

}  // namespace

TEST_CASE("gemm: f32 and f64 in every layout equal the definition") {
  for (const Size& s : sizes)
    for (int layout = 0; layout < 8; ++layout)
      for (bool accumulate : {false, true}) {
        const auto operand = [](int64_t r, int64_t c, bool transposed) {
          return transposed ? strided(r, c, 1, r) : strided(r, c, c, 1);
        };
        const Tables at = operand(s.m, s.k, layout & 1), bt = operand(s.k, s.n, layout & 2), ct = operand(s.m, s.n, layout & 4);
        const auto a = values(static_cast<size_t>(s.m * s.k), Values::special, 1), b = values(static_cast<size_t>(s.k * s.n), Values::wide, 2);
        const auto ends = tiles(s.k, s.tile);
        GemmOptions o;
        o.accumulate = accumulate;
        o.k_tiles = ends;
        CAPTURE(s.m);
        CAPTURE(layout);
        CHECK(agrees<float, float>(s.m, s.n, s.k, a, b, at, bt, ct, static_cast<size_t>(s.m * s.n), o));
        const std::vector<double> ad(a.begin(), a.end()), bd(b.begin(), b.end());
        CHECK(agrees<double, double>(s.m, s.n, s.k, ad, bd, at, bt, ct, static_cast<size_t>(s.m * s.n), o));
      }
}

TEST_CASE("gemm: the matrix unit's bits, with parts, subnormals, infinities and NaN") {
  for (const Size& s : sizes)
    for (Values kind : {Values::ordinary, Values::wide, Values::special})
      for (int pass = 0; pass < 5; ++pass) {
        const auto a = values(static_cast<size_t>(s.m * s.k), kind, 3), b = values(static_cast<size_t>(s.k * s.n), kind, 4);
        const Tables at = strided(s.m, s.k, s.k, 1), bt = strided(s.k, s.n, s.n, 1), ct = strided(s.m, s.n, s.n, 1);
        const auto ends = tiles(s.k, s.tile);
        GemmOptions o;
        o.k_tiles = ends;
        o.matrix_unit = true;
        o.accumulate = pass == 1;
        const Part parts[][2] = {{Part::bf16_high, Part::bf16_high}, {Part::bf16_high, Part::bf16_middle},
                                 {Part::bf16_low, Part::bf16_high}, {Part::whole, Part::whole}};
        CAPTURE(s.m);
        CAPTURE(pass);
        CAPTURE(static_cast<int>(kind));
        if (pass < 4) {
          o.a_part = parts[pass][0];
          o.b_part = parts[pass][1];
          CHECK(agrees<float, float>(s.m, s.n, s.k, a, b, at, bt, ct, static_cast<size_t>(s.m * s.n), o));
        } else {
          const auto halves = [&]<class T>() {
            std::vector<T> ah, bh;
            for (float x : a) ah.push_back(T(x));
            for (float x : b) bh.push_back(T(x));
            for (bool unit : {true, false}) {
              o.matrix_unit = unit;
              CHECK(agrees<T, float>(s.m, s.n, s.k, ah, bh, at, bt, ct, static_cast<size_t>(s.m * s.n), o));
            }
          };
          halves.operator()<bf16>();
          halves.operator()<f16>();
        }
      }
}

TEST_CASE("gemm: offset tables are an implicit im2col") {
  // A 3 x 3 convolution with stride 2 over 4 channels of 11 x 9, 5 output channels.
  const int64_t height = 11, width = 9, channels = 4, out_h = 5, out_w = 4, features = 5;
  const auto image = values(static_cast<size_t>(channels * height * width), Values::ordinary, 5);
  const auto kernel = values(static_cast<size_t>(features * channels * 9), Values::ordinary, 6);
  Tables k = strided(features, channels * 9, channels * 9, 1), x, y = strided(features, out_h * out_w, out_h * out_w, 1);
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t i = 0; i < 9; ++i) x.row.push_back(c * height * width + i / 3 * width + i % 3);
  for (int64_t p = 0; p < out_h * out_w; ++p) x.column.push_back(p / out_w * 2 * width + p % out_w * 2);
  std::vector<float> out(static_cast<size_t>(features * out_h * out_w));
  gemm(features, out_h * out_w, channels * 9, Indexed<float>{kernel.data(), k.row.data(), k.column.data()},
       Indexed<float>{image.data(), x.row.data(), x.column.data()}, IndexedOut<float>{out.data(), y.row.data(), y.column.data()});
  double worst = 0;
  for (int64_t f = 0; f < features; ++f)
    for (int64_t p = 0; p < out_h * out_w; ++p) {
      double sum = 0;
      for (int64_t c = 0; c < channels; ++c)
        for (int64_t i = 0; i < 9; ++i)
          sum += static_cast<double>(kernel[static_cast<size_t>((f * channels + c) * 9 + i)]) *
                 image[static_cast<size_t>((c * height + p / out_w * 2 + i / 3) * width + p % out_w * 2 + i % 3)];
      worst = std::max(worst, std::fabs(sum - out[static_cast<size_t>(f * out_h * out_w + p)]));
    }
  CHECK(worst < 1e-5);
}

TEST_CASE("gemm: parts of an operand add up to it") {
  for (float x : values(2000, Values::ordinary, 7)) {
    const double sum = static_cast<double>(part_of(x, Part::bf16_high)) + part_of(x, Part::bf16_middle) + part_of(x, Part::bf16_low);
    CHECK(std::fabs(sum - x) <= std::fabs(x) * 0x1p-24);
  }
  CHECK(part_of(std::numeric_limits<float>::infinity(), Part::bf16_middle) == 0);
}

TEST_CASE("gemm: integers in any layout, wrapping in the width of the result") {
  const int64_t m = 5, n = 7, k = 11;
  const Tables at = strided(m, k, 1, m), bt = strided(k, n, n, 1), ct = strided(m, n, 1, m);
  std::mt19937 random(12);
  std::vector<int8_t> a(static_cast<size_t>(m * k)), b(static_cast<size_t>(k * n));
  for (int8_t& x : a) x = static_cast<int8_t>(random());
  for (int8_t& x : b) x = static_cast<int8_t>(random());
  std::vector<int8_t> narrow(static_cast<size_t>(m * n));
  std::vector<int64_t> wide(narrow.size());
  const IntegerOperand x{a.data(), at.row.data(), at.column.data()}, y{b.data(), bt.row.data(), bt.column.data()};
  gemm_integers(m, n, k, DType::i8, x, y, DType::i8, narrow.data(), ct.row.data(), ct.column.data());
  gemm_integers(m, n, k, DType::i8, x, y, DType::i64, wide.data(), ct.row.data(), ct.column.data());
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      int64_t sum = 0;
      for (int64_t l = 0; l < k; ++l) sum += int64_t{a[static_cast<size_t>(i + l * m)]} * b[static_cast<size_t>(l * n + j)];
      CHECK(wide[static_cast<size_t>(i + j * m)] == sum);
      CHECK(narrow[static_cast<size_t>(i + j * m)] == static_cast<int8_t>(sum));
    }
  CHECK_THROWS_WITH_AS(gemm_integers(1, 1, 1, DType::i8, x, y, DType::f32, wide.data(), ct.row.data(), ct.column.data()),
                       "[gemm] expected integers, got i8 and f32", Error);
}

TEST_CASE("gemm: a wrong request is one line") {
  const float x = 1;
  const int64_t zero = 0, ends[] = {2, 5};
  float y = 0;
  const Indexed<float> a{&x, &zero, &zero};
  GemmOptions o;
  o.k_tiles = ends;
  CHECK_THROWS_WITH_AS(gemm(1, 1, 1, a, a, IndexedOut<float>{&y, &zero, &zero}, o),
                       "[gemm] K tiles must ascend and end at 1, got an end of 2", Error);
}

TEST_SUITE("threads") {
  TEST_CASE("gemm: the same bits on any number of threads") {
    const int64_t m = 211, n = 230, k = 700;
    const auto a = values(static_cast<size_t>(m * k), Values::wide, 8), b = values(static_cast<size_t>(k * n), Values::wide, 9);
    const Tables at = strided(m, k, k, 1), bt = strided(k, n, n, 1), ct = strided(m, n, n, 1);
    std::vector<std::vector<float>> results;
    for (int threads : {1, 2, 3, 5}) {
      GemmOptions o;
      o.threads = threads;
      results.emplace_back(static_cast<size_t>(m * n));
      gemm(m, n, k, Indexed<float>{a.data(), at.row.data(), at.column.data()}, Indexed<float>{b.data(), bt.row.data(), bt.column.data()},
           IndexedOut<float>{results.back().data(), ct.row.data(), ct.column.data()}, o);
      CHECK(same(results.back(), results.front(), true));
    }
  }
}
