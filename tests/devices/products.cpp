// Products and reductions in every dtype, on the cpu and on the chip, against the reference, within stated bounds.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>

#include "devices/device.hpp"
#include "devices/tpu/tpu.hpp"
#include "engine/ops.hpp"

using namespace backbeat;

namespace {

const DType floats[] = {DType::f64, DType::f32, DType::bf16, DType::f16};
const DType integers[] = {DType::i64, DType::i32, DType::i16, DType::i8, DType::u32, DType::u8};

// Normal numbers; of integers, random bits, so that products and sums wrap.
Array values(DType dtype, const Shape& shape, uint32_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0, 1);
  Array a(dtype, shape);
  for (int64_t i = 0; i < a.size(); ++i) {
    const uint64_t bits = random();
    if (is_float(dtype)) a.set(i, normal(random));
    else std::memcpy(static_cast<char*>(a.raw()) + i * size_of(dtype), &bits, static_cast<size_t>(size_of(dtype)));
  }
  return a;
}
Array magnitudes(const Array& x) {
  Array a = x.converted(DType::f64).clone();
  for (int64_t i = 0; i < a.size(); ++i) a.set(i, std::fabs(a.at(i)));
  return a;
}

// The error of one sum, in parts of the sum of its terms' magnitudes: one unit in the last place of the result, or of f32
// some dozen, for devices add in other orders. f32 operands of the chip are rounded to bf16, or to two or three of them.
double bound(DType result, DType operands, bool chip, Precision precision) {
  if (is_integer(result)) return 0;
  if (result == DType::f64) return 0x1p-48;
  if (result == DType::bf16) return 0x1p-8;
  if (result == DType::f16) return 0x1p-10;
  if (chip && operands == DType::f32 && precision == Precision::standard) return 0x1p-7;
  if (chip && operands == DType::f32 && precision == Precision::high) return 0x1p-15;
  return 0x1p-20;
}

struct Tested {
  std::string name;
  bool chip;
  std::unique_ptr<Device> device;
};
std::vector<Tested> tested() {
  std::vector<Tested> devices;
  devices.push_back({"cpu", false, make_cpu_device()});
  devices.push_back({"tpu-v3", true, make_tpu_device(sim::load_chip("tpu-v3"))});
  return devices;
}

Array run(Device& device, const Program& program, const std::vector<Array>& inputs) {
  StateStore state;
  return device.compile(program)->run(inputs, state)[0];
}

// `scale` holds each sum of magnitudes.
void check_close(const Array& got, const Array& expected, const Array& scale, double bound) {
  REQUIRE(got.dtype() == expected.dtype());
  REQUIRE(got.shape() == expected.shape());
  if (bound == 0) {
    CHECK(bitwise_equal(got, expected));
    return;
  }
  double worst = 0;
  for (int64_t i = 0; i < got.size(); ++i) worst = std::max(worst, std::fabs(got.at(i) - expected.at(i)) / scale.at(i));
  CHECK(worst <= bound);
}

struct Product {
  std::string name;
  Shape lhs, rhs;
  DotDims dims;
};
const Product products[] = {
    {"matrices", {20, 300}, {300, 33}, {{}, {}, {1}, {0}}},
    {"transposed", {70, 21}, {9, 70}, {{}, {}, {0}, {1}}},
    {"batches", {3, 17, 4, 9}, {9, 3, 21, 4}, {{0}, {1}, {2, 3}, {3, 0}}},
    {"vector", {40, 50}, {50}, {{}, {}, {1}, {0}}},
    {"inner", {90}, {90}, {{}, {}, {0}, {0}}},
    {"outer", {7}, {5}, {}},
    {"nothing", {4, 0}, {0, 3}, {{}, {}, {1}, {0}}},
};

void check_product(const Product& p, DType from, DType to, Precision precision, const std::vector<Tested>& devices) {
  CAPTURE(p.name);
  CAPTURE(name_of(from));
  CAPTURE(name_of(to));
  CAPTURE(name_of(precision));
  DotDims dims = p.dims;
  dims.precision = precision;
  if (to != from) dims.accumulation = to;
  const auto program = [&](DType operands, const DotDims& d) {
    return record("test", [&](Recorder& r) {
      const Tensor a = r.input("a", operands, p.lhs), b = r.input("b", operands, p.rhs);
      r.output("y", dot_general(a, b, d));
    });
  };
  const std::vector<Array> inputs{values(from, p.lhs, 1), values(from, p.rhs, 2)};
  const Array expected = run(*make_reference_device(), program(from, dims), inputs);
  REQUIRE(expected.dtype() == to);
  const Array scale = is_integer(to) ? Array()
                                     : run(*make_reference_device(), program(DType::f64, p.dims),
                                           {magnitudes(inputs[0]), magnitudes(inputs[1])});
  for (const Tested& d : devices) {
    CAPTURE(d.name);
    check_close(run(*d.device, program(from, dims), inputs), expected, scale, bound(to, from, d.chip, precision));
  }
}

}  // namespace

TEST_CASE("dot_general: every dtype, added up in every dtype that it admits") {
  const std::vector<Tested> devices = tested();
  for (const auto& dtypes : {std::vector<DType>(std::begin(floats), std::end(floats)),
                             std::vector<DType>(std::begin(integers), std::end(integers))})
    for (DType from : dtypes)
      for (DType to : dtypes) {
        if (size_of(to) < size_of(from)) continue;
        for (const Product& p : products) {
          check_product(p, from, to, Precision::standard, devices);
          if (from != DType::f32) continue;
          for (Precision precision : {Precision::high, Precision::highest}) check_product(p, from, to, precision, devices);
        }
      }
}

TEST_CASE("dot_general: the reference adds up in the dtype asked for") {
  const auto sum = [](DType from, DType to, double x, int64_t n) {
    const Program program = record("test", [&](Recorder& r) {
      DotDims dims{{}, {}, {0}, {0}};
      dims.accumulation = to;
      const Tensor a = r.input("a", from, {n}), b = r.input("b", from, {n});
      r.output("y", dot_general(a, b, dims));
    });
    return run(*make_reference_device(), program, {Array::full(from, {n}, x), Array::full(from, {n}, x)}).item();
  };
  CHECK(sum(DType::i8, DType::i8, 100, 1) == 16);  // 10000 mod 256
  CHECK(sum(DType::i8, DType::i16, 100, 4) == -25536);
  CHECK(sum(DType::i8, DType::i32, -100, 1000) == 1e7);
  CHECK(sum(DType::u8, DType::i32, 255, 3) == 3 * 65025);
  CHECK(sum(DType::bf16, DType::bf16, 1, 257) == 256);  // the sum is rounded, its terms are not
  CHECK(sum(DType::bf16, DType::f32, 1, 257) == 257);
  CHECK(sum(DType::f16, DType::f16, 300, 1) == std::numeric_limits<double>::infinity());
  CHECK(sum(DType::f16, DType::f32, 300, 1) == 90000);
  CHECK(sum(DType::f32, DType::f64, 0x1.000002p0, 1) == 0x1.000002p0 * 0x1.000002p0);
}

TEST_CASE("dot_general: sums that are refused") {
  struct Refusal {
    DType from, to;
    std::string words;
  };
  const std::string end = ": expected the same kind, at least as wide";
  for (const Refusal& r : {Refusal{DType::f32, DType::bf16, "cannot add up products of f32 in bf16" + end},
                           Refusal{DType::i8, DType::f32, "cannot add up products of i8 in f32" + end},
                           Refusal{DType::f16, DType::i32, "cannot add up products of f16 in i32" + end},
                           Refusal{DType::i64, DType::i32, "cannot add up products of i64 in i32" + end},
                           Refusal{DType::boolean, DType::i32, "expected two operands of one dtype of numbers, got bool[2] and bool[2]"}}) {
    DotDims dims{{}, {}, {0}, {0}};
    dims.accumulation = r.to;
    CHECK_THROWS_WITH_AS(record("test", [&](Recorder& recorder) {
                           const Tensor x = recorder.input("x", r.from, {2});
                           recorder.output("y", dot_general(x, x, dims));
                         }),
                         ("[dot_general] " + r.words).c_str(), Error);
  }
}

TEST_CASE("convolution: every floating-point dtype") {
  const std::vector<Tested> devices = tested();
  struct Case {
    Shape lhs, kernel;
    ConvDims dims;
  };
  ConvDims plain, strided, nhwc, grouped;
  plain.pad_low = plain.pad_high = {1, 1};
  strided.strides = {2, 1}, strided.lhs_dilation = {1, 2}, strided.pad_low = {1, 2};
  nhwc.lhs = nhwc.out = {0, 3, {1, 2}}, nhwc.kernel = {3, 2, {0, 1}};
  grouped.feature_groups = 2;
  for (const Case& c : {Case{{2, 3, 9, 8}, {5, 3, 3, 3}, plain}, Case{{2, 3, 11, 10}, {4, 3, 4, 4}, strided},
                        Case{{2, 9, 8, 3}, {3, 3, 3, 5}, nhwc}, Case{{2, 6, 7, 7}, {8, 3, 3, 3}, grouped}})
    for (DType dtype : floats) {
      CAPTURE(c.lhs);
      CAPTURE(name_of(dtype));
      const auto program = [&](DType d) {
        return record("test", [&](Recorder& r) {
          const Tensor x = r.input("x", d, c.lhs), w = r.input("w", d, c.kernel);
          r.output("y", convolution(x, w, c.dims));
        });
      };
      const std::vector<Array> inputs{values(dtype, c.lhs, 3), values(dtype, c.kernel, 4)};
      const Array expected = run(*make_reference_device(), program(dtype), inputs);
      const Array scale = run(*make_reference_device(), program(DType::f64), {magnitudes(inputs[0]), magnitudes(inputs[1])});
      for (const Tested& d : devices) {
        CAPTURE(d.name);
        check_close(run(*d.device, program(dtype), inputs), expected, scale, bound(dtype, dtype, d.chip, Precision::standard));
      }
    }
}

TEST_CASE("reduce: sum, max and min of every dtype") {
  const std::vector<Tested> devices = tested();
  std::vector<DType> dtypes(std::begin(floats), std::end(floats));
  dtypes.insert(dtypes.end(), std::begin(integers), std::end(integers));
  const Shape shape{5, 7, 300};
  for (DType dtype : dtypes)
    for (Reduction kind : {Reduction::sum, Reduction::max, Reduction::min})
      for (const Dims& axes : {Dims{2}, Dims{0}, Dims{1}, Dims{0, 2}, Dims{0, 1, 2}}) {
        CAPTURE(name_of(dtype));
        CAPTURE(name_of(kind));
        CAPTURE(axes);
        const auto program = [&](DType d, Reduction k) {
          return record("test", [&](Recorder& r) { r.output("y", reduce(r.input("x", d, shape), k, axes)); });
        };
        const std::vector<Array> inputs{values(dtype, shape, 5)};
        const Array expected = run(*make_reference_device(), program(dtype, kind), inputs);
        const Array scale = run(*make_reference_device(), program(DType::f64, Reduction::sum), {magnitudes(inputs[0])});
        for (const Tested& d : devices) {
          CAPTURE(d.name);
          // The sums are f32 or wider on both sides: where n terms are added, n units of theirs and one of the result's.
          const double unit = kind == Reduction::sum ? bound(dtype, DType::bf16, false, Precision::standard) : 0;
          check_close(run(*d.device, program(dtype, kind), inputs), expected, scale, dtype == DType::f32 ? unit * 64 : unit);
        }
      }
}

TEST_CASE("reduce: a NaN wins, halves add up in f32, integers wrap") {
  const auto of = [](Device& device, Reduction kind, const Array& x) {
    const Program program = record("test", [&](Recorder& r) { r.output("y", reduce(r.input("x", x.dtype(), x.shape()), kind, {0})); });
    return run(device, program, {x}).item();
  };
  std::vector<Tested> devices = tested();
  devices.push_back({"reference", false, make_reference_device()});
  for (const Tested& d : devices) {
    CAPTURE(d.name);
    for (DType dtype : {DType::bf16, DType::f16}) {
      CHECK(of(*d.device, Reduction::sum, Array::full(dtype, {5000}, 1)) == (dtype == DType::bf16 ? 4992 : 5000));
      Array x = Array::full(dtype, {40}, -3);
      x.set(17, std::nan(""));
      for (Reduction kind : {Reduction::sum, Reduction::max, Reduction::min}) CHECK(std::isnan(of(*d.device, kind, x)));
    }
    CHECK(of(*d.device, Reduction::sum, Array::full(DType::i8, {3}, 100)) == 44);
    CHECK(of(*d.device, Reduction::sum, Array::full(DType::u8, {3}, 100)) == 44);
    CHECK(of(*d.device, Reduction::max, Array::full(DType::i8, {3}, -100)) == -100);
    CHECK(of(*d.device, Reduction::min, Array::full(DType::i16, {3}, 30000)) == 30000);
  }
}

TEST_CASE("iota: every dtype of numbers, exact where it fits and rounded or wrapped beyond") {
  std::vector<Tested> devices = tested();
  devices.push_back({"reference", false, make_reference_device()});
  for (const Tested& d : devices) {
    CAPTURE(d.name);
    const auto last = [&](DType dtype) {
      return run(*d.device, record("test", [&](Recorder& r) { r.output("y", iota(r.tape(), dtype, {2, 4100}, 1)); }), {}).at(8199);
    };
    for (DType dtype : {DType::f64, DType::f32, DType::i64, DType::i32, DType::i16, DType::u32}) CHECK(last(dtype) == 4099);
    CHECK(last(DType::f16) == 4100);  // in steps of 4
    CHECK(last(DType::bf16) == 4096);
    CHECK(last(DType::i8) == 3);
    CHECK(last(DType::u8) == 3);
  }
}

TEST_CASE("convolutions by a kernel that is read backwards, in every dtype") {
  ConvDims dims;
  dims.lhs = dims.out = {0, 3, {1, 2}}, dims.kernel = {3, 2, {0, 1}};
  dims.strides = dims.pad_low = dims.pad_high = {1, 1};
  for (DType dtype : floats) {
    CAPTURE(dtype);
    const Program program = record("reversed", [&](Recorder& r) {
      const Tensor x = r.input("x", dtype, {2, 5, 6, 3}), kernel = r.input("kernel", dtype, {3, 2, 3, 4});
      r.output("y", convolution(x, reverse(kernel, {0, 1}), dims));
    });
    std::vector<Array> inputs{Array(dtype, {2, 5, 6, 3}), Array(dtype, {3, 2, 3, 4})};
    for (Array& a : inputs)  // small whole numbers: every order of adding gives the same bits
      for (int64_t i = 0; i < a.size(); ++i) a.set(i, static_cast<double>(i * 7 % 11 - 5));
    const Array expected = run(*make_reference_device(), program, inputs);
    for (const Tested& d : tested()) {
      CAPTURE(d.name);
      CHECK(bitwise_equal(run(*d.device, program, inputs), expected));
    }
  }
}
