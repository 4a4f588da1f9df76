// Elementwise kernels, vector programs and reductions of the host: exact bits, accuracy, every layout.
#include <omp.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "doctest/doctest.h"
#include "engine/array.hpp"
#include "engine/host/definitions.hpp"
#include "engine/host/elementwise.hpp"
#include "engine/host/kernels.hpp"
#include "engine/host/reduce.hpp"
#include "engine/host/vector_program.hpp"
#include "engine/host/vector_values.hpp"

using namespace backbeat;
using namespace backbeat::host;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

bool same_bits(float a, float b) { return std::memcmp(&a, &b, 4) == 0 || (std::isnan(a) && std::isnan(b)); }

// Every special value and a sweep over all exponents.
std::vector<float> probes() {
  std::vector<float> v{0.0f, -0.0f, 1, -1, 2, -2, 3, -3, 0.5f, -0.5f, inf, -inf, std::nanf(""), 1e-40f, -1e-40f, 3e38f, -3e38f,
                       0x1p-126f, 88.7f, 88.8f, -87.4f, -103.9f, -104.1f, 0.625f, 8388607.5f, 16777215, 16777216, 4194304, 1e30f};
  std::mt19937 random(11);
  for (int i = 0; i < 4000; ++i) {
    const uint32_t u = random();
    float x;
    std::memcpy(&x, &u, 4);
    v.push_back(i % 2 ? x : static_cast<float>(static_cast<int32_t>(u)) * 0x1p-24f);
  }
  return v;
}

struct Unary {
  const char* name;
  Op op;
  float (*define)(float);
  double (*exact)(double);
  double ulps;
};
const Unary unary[] = {
    {"negate", Op::negate, define::negate<Scalar>, [](double x) { return -x; }, 0},
    {"abs", Op::abs, define::absolute<Scalar>, [](double x) { return std::fabs(x); }, 0},
    {"sign", Op::sign, define::sign<Scalar>, [](double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : x; }, 0},
    {"exp", Op::exp, define::exp<Scalar>, [](double x) { return std::exp(x); }, 2},
    {"expm1", Op::expm1, define::expm1<Scalar>, [](double x) { return std::expm1(x); }, 2},
    {"log", Op::log, define::log<Scalar>, [](double x) { return std::log(x); }, 2},
    {"log1p", Op::log1p, define::log1p<Scalar>, [](double x) { return std::log1p(x); }, 2},
    {"sqrt", Op::sqrt, Scalar::root, [](double x) { return std::sqrt(x); }, 0.51},
    {"rsqrt", Op::rsqrt, define::rsqrt<Scalar>, [](double x) { return 1 / std::sqrt(x); }, 2},
    {"tanh", Op::tanh, define::tanh<Scalar>, [](double x) { return std::tanh(x); }, 4},
    {"logistic", Op::logistic, define::logistic<Scalar>, [](double x) { return 1 / (1 + std::exp(-x)); }, 2},
    {"erf", Op::erf, define::erf<Scalar>, [](double x) { return std::erf(x); }, 2},
    {"sine", Op::sine, define::sine, [](double x) { return std::sin(x); }, 1.5},
    {"cosine", Op::cosine, define::cosine, [](double x) { return std::cos(x); }, 1.5},
    {"floor", Op::floor, define::floor<Scalar>, [](double x) { return std::floor(x); }, 0},
    {"ceil", Op::ceil, define::ceil<Scalar>, [](double x) { return std::ceil(x); }, 0},
    {"round_nearest_even", Op::round_nearest_even, define::round_nearest_even<Scalar>, [](double x) { return std::nearbyint(x); }, 0},
};
struct Binary {
  const char* name;
  Op op;
  float (*define)(float, float);
};
const Binary binary[] = {
    {"add", Op::add, [](float x, float y) { return x + y; }},       {"subtract", Op::subtract, [](float x, float y) { return x - y; }},
    {"multiply", Op::multiply, [](float x, float y) { return x * y; }}, {"divide", Op::divide, [](float x, float y) { return x / y; }},
    {"maximum", Op::maximum, define::maximum<Scalar>},              {"minimum", Op::minimum, define::minimum<Scalar>},
    {"power", Op::power, define::power<Scalar>},
};

// Distance in units of the last place of the nearest float.
double ulps(double exact, float got) {
  if (std::isnan(exact) || std::isnan(got)) return std::isnan(exact) && std::isnan(got) ? 0 : 1e9;
  if (std::isinf(got)) return std::fabs(exact) > 3.4028235e38 && std::signbit(exact) == std::signbit(got) ? 0 : 1e9;
  int exponent;
  std::frexp(exact, &exponent);
  return std::fabs(got - exact) / std::ldexp(1, std::max(exponent - 24, -149));
}

std::vector<Kernels> levels() {
  std::vector<Kernels> all(1);
  sse2::fill_f32(all.back());
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    all.emplace_back();
    avx2::fill_f32(all.back());
  }
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    all.emplace_back();
    avx512::fill_f32(all.back());
  }
  return all;
}

}  // namespace

TEST_CASE("elementwise f32: every instruction-set level gives the bits of the definition") {
  const std::vector<float> x = probes();
  std::vector<float> y(x.rbegin(), x.rend()), out(x.size());
  for (size_t i = 0; i < y.size(); ++i) if (i % 3 == 0) y[i] = static_cast<float>(static_cast<int>(i % 40) - 20) / 2;
  const auto n = static_cast<int64_t>(x.size());
  for (const Kernels& k : levels()) {
    for (int i = 0; i < u_count; ++i) {
      CAPTURE(unary[i].name);
      k.unary[i](x.data(), out.data(), n);
      int wrong = 0;
      for (size_t j = 0; j < x.size(); ++j) wrong += !same_bits(out[j], unary[i].define(x[j]));
      CHECK(wrong == 0);
    }
    for (int i = 0; i < b_count; ++i) {
      CAPTURE(binary[i].name);
      k.binary[i](x.data(), y.data(), out.data(), n);
      int wrong = 0;
      for (size_t j = 0; j < x.size(); ++j) wrong += !same_bits(out[j], binary[i].define(x[j], y[j]));
      CHECK(wrong == 0);
    }
    k.clamp(y.data(), x.data(), x.data() + 1, out.data(), n - 1);
    int wrong_clamp = 0;
    for (size_t j = 0; j + 1 < x.size(); ++j) wrong_clamp += !same_bits(out[j], define::clamp<Scalar>(y[j], x[j], x[j + 1]));
    CHECK(wrong_clamp == 0);
    k.round_to_bf16(x.data(), out.data(), n);
    std::vector<uint16_t> half(x.size());
    k.f32_to_bf16(x.data(), half.data(), n);
    std::vector<float> back(x.size());
    k.bf16_to_f32(half.data(), back.data(), n);
    int wrong = 0;
    for (size_t j = 0; j < x.size(); ++j)
      wrong += !same_bits(out[j], static_cast<float>(bf16(x[j]))) + !same_bits(back[j], out[j]) + (half[j] != bf16(x[j]).bits);
    CHECK(wrong == 0);
  }
}

TEST_CASE("elementwise f32: accuracy against f64") {
  const std::vector<float> x = probes();
  for (const Unary& u : unary) {
    CAPTURE(u.name);
    double worst = 0;
    for (float v : x) worst = std::max(worst, ulps(u.exact(v), u.define(v)));
    CHECK(worst <= u.ulps);
  }
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i)
    for (float y : {x[(i * 7 + 3) % x.size()], 0.5f, 2.0f, -3.0f, 0.1f, x[i % 29]})
      worst = std::max(worst, ulps(std::pow(static_cast<double>(x[i]), static_cast<double>(y)), define::power<Scalar>(x[i], y)));
  for (size_t i = 0; i < 29; ++i)
    for (size_t j = 0; j < 29; ++j)
      worst = std::max(worst, ulps(std::pow(static_cast<double>(x[i]), static_cast<double>(x[j])), define::power<Scalar>(x[i], x[j])));
  CHECK(worst <= 2);
}

// 4.3 million values of every sign and exponent: a step that is coprime to all powers of two.
TEST_CASE("elementwise f32: expm1, log1p and erf in a dense sweep") {
  for (const Unary& u : unary) {
    if (u.op != Op::expm1 && u.op != Op::log1p && u.op != Op::erf) continue;
    CAPTURE(u.name);
    double worst = 0;
    int wrong_signs = 0;
    for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 997) {
      const float x = std::bit_cast<float>(static_cast<uint32_t>(bits)), y = u.define(x);
      worst = std::max(worst, ulps(u.exact(x), y));
      wrong_signs += y == y && std::signbit(y) != std::signbit(x);  // all three are odd in sign
      if (u.op == Op::erf) wrong_signs += x == x && !same_bits(define::erf<Scalar>(-x), -y);
    }
    CHECK(worst <= 1.2);
    CHECK(wrong_signs == 0);
  }
}

// glibc's sine and cosine of a double are within an ulp for every argument, and reduce it in another way.
TEST_CASE("elementwise f32: sine and cosine in a dense sweep") {
  for (const Unary& u : unary) {
    if (u.op != Op::sine && u.op != Op::cosine) continue;
    CAPTURE(u.name);
    double worst_near = 0, worst_far = 0;
    int wrong_signs = 0;
    for (uint32_t bits = 0; bits < 0x7f800000u; bits += 997) {
      const float x = std::bit_cast<float>(bits), y = u.define(x), mirrored = u.define(-x);
      double& worst = x < 12800 ? worst_near : worst_far;
      worst = std::max(worst, ulps(u.exact(x), y));
      wrong_signs += !same_bits(mirrored, u.op == Op::sine ? -y : y);
    }
    CHECK(worst_near <= 1.5);
    CHECK(worst_far <= 0.51);
    CHECK(wrong_signs == 0);
  }
}

// Rounded from 600 bits (mpmath): both sides of 12800, powers of two, and floats close to multiples of pi/2.
TEST_CASE("elementwise f32: sine and cosine of large arguments") {
  struct Golden {
    float x, sine, cosine;
  };
  const Golden table[] = {
      {12799.999f, 0x1.d3735ep-1f, 0x1.a1c644p-2f},
      {12800, 0x1.d3a788p-1f, 0x1.a0dc7ep-2f},
      {100000, 0x1.24daaap-5f, -0x1.ffac38p-1f},
      {1e6f, -0x1.6664b2p-2f, 0x1.df9dfap-1f},
      {0x1p20f, 0x1.526cccp-2f, 0x1.e33adap-1f},
      {0x1.fffffep21f, 0x1.c7abap-1f, 0x1.d2f0e6p-2f},
      {0x1p22f, 0x1.f34428p-1f, 0x1.c5e944p-3f},
      {-0x1p22f, -0x1.f34428p-1f, 0x1.c5e944p-3f},
      {0x1p23f, 0x1.ba9f46p-2f, -0x1.cdb2cap-1f},
      {0x1p24f, -0x1.8f22f8p-1f, 0x1.40ad68p-1f},
      {1e10f, -0x1.f334c8p-2f, 0x1.bf098ap-1f},
      {16367173 * 0x1p72f, 0x1p+0f, -0x1.bbdd52p-30f},
      {5.3721242e37f, 0x1.348cfap-1f, 0x1.98956p-1f},
      {1e30f, -0x1.95136p-1f, -0x1.392444p-1f},
      {0x1p127f, 0x1.3f2c62p-1f, 0x1.90571ep-1f},
      {0x1.fffffep127f, -0x1.0b3366p-1f, 0x1.b4bf2cp-1f},
      {-0x1.fffffep127f, 0x1.0b3366p-1f, 0x1.b4bf2cp-1f},
      {13947.1006f, -0x1p+0f, 0x1.5d9fccp-22f},
  };
  for (const Golden& g : table) {
    CAPTURE(g.x);
    CHECK(ulps(g.sine, define::sine(g.x)) <= (std::fabs(g.x) < 12800 ? 1 : 0));
    CHECK(ulps(g.cosine, define::cosine(g.x)) <= (std::fabs(g.x) < 12800 ? 1 : 0));
    for (const Kernels& k : levels())  // anywhere in a register, and in the incomplete one at the end
      for (size_t at = 0; at < 75; ++at)
        for (UnaryIndex kernel : {u_sine, u_cosine}) {
          std::vector<float> x(75, 0.5f), y(75);
          x[at] = g.x;
          k.unary[kernel](x.data(), y.data(), 75);
          int wrong = 0;
          for (size_t i = 0; i < 75; ++i) wrong += !same_bits(y[i], unary[kernel].define(x[i]));
          CHECK(wrong == 0);
        }
  }
}

TEST_CASE("elementwise f32: special values") {
  CHECK(define::expm1<Scalar>(-inf) == -1);
  CHECK(define::expm1<Scalar>(inf) == inf);
  CHECK(define::expm1<Scalar>(1e-30f) == 1e-30f);
  CHECK(std::signbit(define::expm1<Scalar>(-0.0f)));
  CHECK(define::log1p<Scalar>(-1.0f) == -inf);
  CHECK(std::isnan(define::log1p<Scalar>(-1.5f)));
  CHECK(define::log1p<Scalar>(inf) == inf);
  CHECK(define::log1p<Scalar>(1e-30f) == 1e-30f);
  CHECK(std::signbit(define::log1p<Scalar>(-0.0f)));
  CHECK(define::erf<Scalar>(inf) == 1);
  CHECK(define::erf<Scalar>(-4.0f) == -1);
  CHECK(std::signbit(define::erf<Scalar>(-0.0f)));
  CHECK(std::signbit(define::ceil<Scalar>(-0.5f)));
  CHECK(std::signbit(define::round_nearest_even<Scalar>(-0.5f)));
  CHECK(std::isnan(define::maximum<Scalar>(std::nanf(""), 1)));
  CHECK(std::isnan(define::minimum<Scalar>(1, std::nanf(""))));
  CHECK(define::sign<Scalar>(0.0f) == 0);
  for (float x : {inf, -inf, std::nanf("")}) {
    CHECK(std::isnan(define::sine(x)));
    CHECK(std::isnan(define::cosine(x)));
  }
  CHECK(same_bits(define::sine(-0.0f), -0.0f));
  CHECK(same_bits(define::sine(-1e-45f), -1e-45f));
  CHECK(define::cosine(-0.0f) == 1);
  CHECK(std::signbit(define::tanh<Scalar>(-0.0f)));
  CHECK(std::isnan(define::log<Scalar>(-1.0f)));
  CHECK(define::log<Scalar>(0.0f) == -inf);
}

TEST_CASE("vector program: every layout and dtype equals one element at a time") {
  // y = select(a < b, a * b + 3, convert(mask) - b), z = a * b
  for (DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64, DType::i64, DType::i32, DType::i16, DType::i8, DType::u32, DType::u8}) {
    VectorProgram p;
    p.inputs = 3;
    p.input_dtypes = {dtype, dtype, DType::boolean};
    p.ops = {{.op = Op::constant, .dtype = dtype, .destination = 3, .value = 3},
             {.op = Op::compare, .dtype = DType::boolean, .operand_dtype = dtype, .direction = Direction::lt, .destination = 4, .a = 0, .b = 1},
             {.op = Op::multiply, .dtype = dtype, .destination = 5, .a = 0, .b = 1},
             {.op = Op::add, .dtype = dtype, .destination = 6, .a = 5, .b = 3},
             {.op = Op::convert, .dtype = dtype, .operand_dtype = DType::boolean, .destination = 7, .a = 2},
             {.op = Op::subtract, .dtype = dtype, .destination = 7, .a = 7, .b = 1},
             {.op = Op::select, .dtype = dtype, .destination = 6, .a = 4, .b = 6, .c = 7}};
    p.outputs = {6, 5};
    p.output_dtypes = {dtype, dtype};
    p.registers = 8;
    struct Layout {
      int64_t rows, columns, row_stride, column_stride;
    };
    for (const Layout& s : {Layout{1, 1, 1, 1}, Layout{1, 3000, 0, 1}, Layout{7, 5, 5, 1}, Layout{300, 7, 0, 1}, Layout{5, 2100, 1, 0},
                            Layout{40, 60, 1, 40}, Layout{33, 700, 0, 0}, Layout{3, 1500, 3000, 2}, Layout{600, 1, 1, 0}}) {
      CAPTURE(dtype);
      CAPTURE(s.rows);
      CAPTURE(s.columns);
      const int64_t count = s.rows * s.columns;
      Array a(dtype, {(s.rows - 1) * s.row_stride + (s.columns - 1) * s.column_stride + 1}), b(dtype, {count}), mask(DType::boolean, {s.columns});
      std::mt19937 random(5);
      for (int64_t i = 0; i < a.size(); ++i) a.set(i, static_cast<double>(random() % 1000) / 8);
      for (int64_t i = 0; i < count; ++i) b.set(i, static_cast<double>(random() % 1000) / 8);
      for (int64_t i = 0; i < s.columns; ++i) mask.set(i, static_cast<double>(random() % 2));
      Array y(dtype, {count}), z(dtype, {count}), y1(dtype, {count}), z1(dtype, {count});
      const auto call = [&](int64_t r0, int64_t c0, int64_t rows, int64_t columns, Array& y_out, Array& z_out) {
        const auto offset = [&](const Array& x, int64_t i) { return static_cast<const char*>(x.raw()) + i * size_of(x.dtype()); };
        const VectorInput in[] = {{offset(a, r0 * s.row_stride + c0 * s.column_stride), s.row_stride, s.column_stride},
                                  {offset(b, r0 * s.columns + c0), s.columns, 1},
                                  {offset(mask, c0), 0, 1}};
        const VectorOutput out[] = {{const_cast<char*>(offset(y_out, r0 * s.columns + c0)), s.columns, 1},
                                    {const_cast<char*>(offset(z_out, r0 * s.columns + c0)), s.columns, 1}};
        run_parallel(p, rows, columns, in, out);
      };
      call(0, 0, s.rows, s.columns, y, z);
      for (int64_t i = 0; i < count; ++i) call(i / s.columns, i % s.columns, 1, 1, y1, z1);
      CHECK(bitwise_equal(y, y1));
      CHECK(bitwise_equal(z, z1));
      const int64_t last = count - 1;  // and the value is the right one
      const double x = a.at((s.rows - 1) * s.row_stride + (s.columns - 1) * s.column_stride), w = b.at(last);
      if (dtype == DType::f64) CHECK(y.at(last) == (x < w ? x * w + 3 : mask.at(s.columns - 1) - w));
    }
  }
}

TEST_CASE("vector program: integers and conversions at their edges") {
  const auto one = [](Op op, DType dtype, DType from, Array x, Array y) {
    Array out(dtype, {1});
    apply({.op = op, .dtype = dtype, .operand_dtype = from, .destination = 0}, 1, x.raw(), y.raw(), nullptr, out.raw());
    return out.at(0);
  };
  const auto i32 = [](int64_t v) { return Array::from<int32_t>({1}, {static_cast<int32_t>(v)}); };
  const auto f32 = [](float v) { return Array::from<float>({1}, {v}); };
  CHECK(one(Op::divide, DType::i32, DType::i32, i32(7), i32(0)) == -1);
  CHECK(one(Op::divide, DType::i32, DType::i32, i32(INT32_MIN), i32(-1)) == INT32_MIN);
  CHECK(one(Op::add, DType::i32, DType::i32, i32(INT32_MAX), i32(1)) == INT32_MIN);
  CHECK(one(Op::shift_right_logical, DType::i32, DType::i32, i32(-1), i32(31)) == 1);
  CHECK(one(Op::shift_right_logical, DType::i32, DType::i32, i32(-1), i32(32)) == 0);
  CHECK(one(Op::power, DType::i32, DType::i32, i32(-3), i32(3)) == -27);
  CHECK(one(Op::convert, DType::i32, DType::f32, f32(3e9f), f32(0)) == INT32_MAX);
  CHECK(one(Op::convert, DType::i32, DType::f32, f32(-3e9f), f32(0)) == INT32_MIN);
  CHECK(one(Op::convert, DType::u32, DType::f32, f32(-1), f32(0)) == 0);
  CHECK(one(Op::convert, DType::i32, DType::f32, f32(std::nanf("")), f32(0)) == 0);
  CHECK(one(Op::convert, DType::i32, DType::f32, f32(-2.7f), f32(0)) == -2);
}

namespace {

// The order of reduce.hpp, written again in the plainest way.
float plain_over_columns(Reduction kind, const std::vector<float>& row) {
  const auto take = [&](float a, float b) {
    return kind == Reduction::sum ? a + b : kind == Reduction::max ? define::maximum<Scalar>(a, b) : define::minimum<Scalar>(a, b);
  };
  const float start = kind == Reduction::sum ? 0 : kind == Reduction::max ? -inf : inf;
  float total = start;
  for (size_t c = 0; c < row.size(); c += 4096) {
    float lane[32];
    std::fill_n(lane, 32, start);
    for (size_t i = c; i < std::min(row.size(), c + 4096); ++i) lane[(i - c) % 32] = take(lane[(i - c) % 32], row[i]);
    for (int step = 16; step; step /= 2)
      for (int l = 0; l < step; ++l) lane[l] = take(lane[l], lane[l + step]);
    total = c == 0 ? lane[0] : take(total, lane[0]);
  }
  return total;
}

}  // namespace

TEST_SUITE("threads") {
  TEST_CASE("reduce: the written order, in every layout and on any number of threads") {
    struct Size {
      int64_t rows, columns;
    };
    const int before = omp_get_max_threads();
    for (const Size& s : {Size{1, 1}, Size{3, 31}, Size{2, 9000}, Size{700, 40}, Size{1, 600000}, Size{90000, 5}, Size{3, 0}})
      for (Reduction kind : {Reduction::sum, Reduction::max, Reduction::min})
        for (DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
          CAPTURE(s.rows);
          CAPTURE(s.columns);
          CAPTURE(dtype);
          Array x(dtype, {s.rows, s.columns}), turned(dtype, {s.columns, s.rows});
          std::mt19937 random(9);
          for (int64_t i = 0; i < x.size(); ++i) {
            x.set(i, static_cast<double>(random()) * 0x1p-32 - 0.4);
            turned.set(i % s.columns * s.rows + i / s.columns, x.at(i));
          }
          std::vector<Array> columns, rows;
          for (int threads : {1, 2, 3}) {
            omp_set_num_threads(threads);
            for (bool transposed : {false, true}) {
              const VectorInput in = transposed ? VectorInput{turned.raw(), 1, s.rows} : VectorInput{x.raw(), s.columns, 1};
              columns.emplace_back(dtype, Shape{s.rows});
              reduce_over_columns(kind, dtype, s.rows, s.columns, in, dtype, columns.back().raw());
              CHECK(bitwise_equal(columns.back(), columns.front()));
              rows.emplace_back(dtype, Shape{s.columns});
              reduce_over_rows(kind, dtype, s.rows, s.columns, in, dtype, rows.back().raw());
              CHECK(bitwise_equal(rows.back(), rows.front()));
            }
          }
          if (dtype == DType::f32) {
            const float* p = x.data<float>();
            CHECK(columns[0].data<float>()[0] == plain_over_columns(kind, std::vector<float>(p, p + s.columns)));
          }
          if (kind == Reduction::sum && s.columns && dtype == DType::f64) {
            double sum = 0;
            for (int64_t r = 0; r < s.rows; ++r) sum += x.at(r * s.columns);
            CHECK(rows[0].at(0) == doctest::Approx(sum));
          }
        }
    omp_set_num_threads(before);
  }
}

TEST_CASE("reduce: every instruction-set level gives the same bits") {
  const std::vector<float> x = [] {
    std::vector<float> v = probes();
    for (float& y : v) if (!std::isfinite(y) || std::fabs(y) > 1e30f) y = 1;
    return v;
  }();
  const std::vector<double> d(x.begin(), x.end());
  const auto all = levels();
  for (int kind = 0; kind < 3; ++kind)
    for (int64_t n : {int64_t{0}, int64_t{1}, int64_t{33}, int64_t{4000}})
      for (const Kernels& k : all) {
        CHECK(k.fold_f32(kind, x.data(), n) == all[0].fold_f32(kind, x.data(), n));
        CHECK(k.fold_f64(kind, d.data(), n) == all[0].fold_f64(kind, d.data(), n));
      }
}
