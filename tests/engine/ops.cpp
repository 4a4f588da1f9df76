// What the primitives compute, against values worked out by hand.
#include <doctest/doctest.h>

#include <cmath>

#include "engine/ops.hpp"
#include "engine/philox.hpp"
#include "tests/devices.hpp"

using namespace backbeat;

namespace {

// The values of f of some inputs, on every device in turn.
void computes(const std::vector<Array>& inputs, const std::function<Tensor(const std::vector<Tensor>&)>& f,
              const Array& expected) {
  const Program program = record("values", [&](Recorder& r) {
    std::vector<Tensor> x;
    for (size_t i = 0; i < inputs.size(); ++i)
      x.push_back(r.input(concat('x', i), inputs[i].dtype(), inputs[i].shape()));
    r.output("y", f(x));
  });
  for (const test::NamedDevice& device : test::all_devices()) {
    INFO(std::string(device.name));
    const Array got = test::run(program, inputs, device)[0];
    INFO("got ", concat(got), ", expected ", concat(expected));
    CHECK(bitwise_equal(got, expected));
  }
}

template <class T>
Array array(const Shape& shape, const std::vector<T>& values) { return Array::from<T>(shape, values); }
Array f32(const Shape& shape, const std::vector<float>& values) { return array(shape, values); }
Array i32(const Shape& shape, const std::vector<int32_t>& values) { return array(shape, values); }

// 0, 1, 2, ... as f32.
Array counting(const Shape& shape) {
  Array a(DType::f32, shape);
  for (int64_t i = 0; i < a.size(); ++i) a.set(i, static_cast<double>(i));
  return a;
}

using Tensors = std::vector<Tensor>;

}  // namespace

TEST_SUITE_BEGIN("ops compute");

TEST_CASE("moves of elements") {
  const Array x = counting({2, 3});
  computes({x}, [](const Tensors& t) { return reshape(t[0], {3, 2}); }, f32({3, 2}, {0, 1, 2, 3, 4, 5}));
  computes({x}, [](const Tensors& t) { return transpose(t[0], {1, 0}); }, f32({3, 2}, {0, 3, 1, 4, 2, 5}));
  computes({counting({2, 1, 3})}, [](const Tensors& t) { return transpose(t[0], {2, 0, 1}); },
           f32({3, 2, 1}, {0, 3, 1, 4, 2, 5}));
  computes({counting({2})}, [](const Tensors& t) { return broadcast_in_dim(t[0], {2, 3}, {0}); },
           f32({2, 3}, {0, 0, 0, 1, 1, 1}));
  computes({counting({3})}, [](const Tensors& t) { return broadcast_in_dim(t[0], {2, 3}, {1}); },
           f32({2, 3}, {0, 1, 2, 0, 1, 2}));
  computes({x}, [](const Tensors& t) { return slice(t[0], {0, 0}, {2, 3}, {1, 2}); }, f32({2, 2}, {0, 2, 3, 5}));
  computes({x}, [](const Tensors& t) { return slice(t[0], {1, 1}, {2, 3}, {1, 1}); }, f32({1, 2}, {4, 5}));
  computes({x}, [](const Tensors& t) { return pad(t[0], {{1, 0}, {0, 1}, {0, 1}}); },
           f32({3, 6}, {0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0}));
  computes({x}, [](const Tensors& t) { return pad(t[0], {{-1, -1}, {1, 1}, {0, 0}}); },
           f32({2, 3}, {4, 5, 0, 0, 0, 0}));
  computes({f32({3}, {1, 2, 3})}, [](const Tensors& t) { return pad(t[0], {{-1}, {-1}, {1}}); }, f32({3}, {0, 2, 0}));
  computes({f32({3}, {1, 2, 3})}, [](const Tensors& t) { return pad(t[0], {{-4}, {2}, {2}}); },
           f32({5}, {0, 0, 3, 0, 0}));
  computes({f32({2}, {1, 2})}, [](const Tensors& t) { return pad(t[0], {{-3}, {4}, {0}}); }, f32({3}, {0, 0, 0}));
  computes({x, f32({2, 1}, {8, 9})}, [](const Tensors& t) { return concatenate({t[1], t[0], t[1]}, 1); },
           f32({2, 5}, {8, 0, 1, 2, 8, 9, 3, 4, 5, 9}));
  computes({x, counting({1, 3})}, [](const Tensors& t) { return concatenate({t[0], t[1]}, 0); },
           f32({3, 3}, {0, 1, 2, 3, 4, 5, 0, 1, 2}));
  computes({x}, [](const Tensors& t) { return reverse(t[0], {1}); }, f32({2, 3}, {2, 1, 0, 5, 4, 3}));
  computes({x}, [](const Tensors& t) { return reverse(t[0], {0, 1}); }, f32({2, 3}, {5, 4, 3, 2, 1, 0}));
  computes({x}, [](const Tensors& t) { return iota(t[0].tape(), DType::i32, {2, 3}, 1); },
           i32({2, 3}, {0, 1, 2, 0, 1, 2}));
  computes({x}, [](const Tensors& t) { return iota(t[0].tape(), DType::bf16, {2, 2}, 0); },
           f32({2, 2}, {0, 0, 1, 1}).converted(DType::bf16));
}

TEST_CASE("moves keep every dtype and every bit") {
  const std::vector<Array> arrays{f32({3}, {1, -0.0f, 3}), f32({3}, {1, -0.0f, 3}).converted(DType::bf16),
                                  array<double>({3}, {1, -0.0, 3}), array<int64_t>({3}, {INT64_MIN, -1, INT64_MAX}),
                                  i32({3}, {INT32_MIN, 0, 7}), array<uint32_t>({3}, {0, 1, UINT32_MAX}),
                                  array<bool>({3}, {true, false, true})};
  for (const Array& x : arrays) {
    Array y(x.dtype(), {3}), z = Array::zeros(x.dtype(), {4});
    for (int64_t i = 0; i < 3; ++i) {
      const int64_t width = size_of(x.dtype());
      const auto* from = static_cast<const std::byte*>(x.raw()) + (2 - i) * width;
      std::memcpy(static_cast<std::byte*>(y.raw()) + i * width, from, static_cast<size_t>(width));
    }
    std::memcpy(static_cast<std::byte*>(z.raw()) + size_of(x.dtype()), x.raw(), static_cast<size_t>(x.bytes()));
    computes({x}, [](const Tensors& t) { return reverse(t[0], {0}); }, y);
    computes({x}, [](const Tensors& t) { return pad(t[0], {{1}, {0}, {0}}); }, z);
    computes({x}, [](const Tensors& t) { return slice(broadcast_in_dim(t[0], {2, 3}, {1}), {1, 0}, {2, 3}, {1, 1}); },
           x.reshaped({1, 3}));
    computes({x, y}, [](const Tensors& t) { return select(full(t[0].tape(), DType::boolean, {}, 1), t[0], t[1]); }, x);
  }
}

TEST_CASE("arithmetic") {
  const Array a = f32({4}, {1, -2, 3, -4}), b = f32({4}, {2, 2, -2, -2});
  computes({a, b}, [](const Tensors& t) { return t[0] + t[1]; }, f32({4}, {3, 0, 1, -6}));
  computes({a, b}, [](const Tensors& t) { return t[0] - t[1]; }, f32({4}, {-1, -4, 5, -2}));
  computes({a, b}, [](const Tensors& t) { return t[0] * t[1]; }, f32({4}, {2, -4, -6, 8}));
  computes({a, b}, [](const Tensors& t) { return t[0] / t[1]; }, f32({4}, {0.5, -1, -1.5, 2}));
  computes({a, b}, [](const Tensors& t) { return maximum(t[0], t[1]); }, f32({4}, {2, 2, 3, -2}));
  computes({a, b}, [](const Tensors& t) { return minimum(t[0], t[1]); }, f32({4}, {1, -2, -2, -4}));
  computes({a}, [](const Tensors& t) { return -t[0]; }, f32({4}, {-1, 2, -3, 4}));
  computes({a}, [](const Tensors& t) { return abs(t[0]); }, f32({4}, {1, 2, 3, 4}));
  computes({f32({3}, {-2, 0, 5})}, [](const Tensors& t) { return sign(t[0]); }, f32({3}, {-1, 0, 1}));
  computes({f32({3}, {4, 9, 0})}, [](const Tensors& t) { return sqrt(t[0]); }, f32({3}, {2, 3, 0}));
  computes({f32({1}, {4})}, [](const Tensors& t) { return rsqrt(t[0]); }, f32({1}, {0.5}));
  computes({f32({2, 1}, {1, 2}), f32({3}, {10, 20, 30})}, [](const Tensors& t) { return t[0] + t[1]; },
           f32({2, 3}, {11, 21, 31, 12, 22, 32}));
  computes({f32({0, 3}, {})}, [](const Tensors& t) { return t[0] + 1.0; }, f32({0, 3}, {}));
  computes({f32({}, {2})}, [](const Tensors& t) { return 3.0 - t[0]; }, f32({}, {1}));
}

TEST_CASE("integers wrap; division by zero has a value") {
  const Array a = i32({4}, {7, -7, INT32_MIN, INT32_MAX}), b = i32({4}, {2, 2, -1, 0});
  computes({a, b}, [](const Tensors& t) { return t[0] / t[1]; }, i32({4}, {3, -3, INT32_MIN, -1}));
  computes({a, b}, [](const Tensors& t) { return t[0] + t[1]; }, i32({4}, {9, -5, INT32_MAX, INT32_MAX}));
  computes({a, a}, [](const Tensors& t) { return t[0] * t[1]; }, i32({4}, {49, 49, 0, 1}));
  computes({a}, [](const Tensors& t) { return -t[0]; }, i32({4}, {-7, 7, INT32_MIN, -INT32_MAX}));
  const Array u = array<uint32_t>({3}, {0xffffffffu, 5, 8}), v = array<uint32_t>({3}, {0xffffffffu, 0, 1});
  computes({u, v}, [](const Tensors& t) { return t[0] * t[1]; }, array<uint32_t>({3}, {1, 0, 8}));
  computes({u, v}, [](const Tensors& t) { return t[0] - t[1]; }, array<uint32_t>({3}, {0, 5, 7}));
  computes({u, v}, [](const Tensors& t) { return t[0] / t[1]; }, array<uint32_t>({3}, {1, 0xffffffffu, 8}));
  computes({u, v}, [](const Tensors& t) { return maximum(t[0], t[1]); }, array<uint32_t>({3}, {0xffffffffu, 5, 8}));
  computes({u, array<uint32_t>({3}, {31, 1, 32})}, [](const Tensors& t) { return shift_right_logical(t[0], t[1]); },
           array<uint32_t>({3}, {1, 2, 0}));
  computes({a}, [](const Tensors& t) { return sum(t[0]); }, i32({}, {-1}));
}

TEST_CASE("compare, logical_not, convert") {
  const float nan = std::nanf("");
  const Array a = f32({4}, {1, 2, 3, nan}), b = f32({4}, {2, 2, 2, nan});
  const auto by = [&](Direction direction, const std::vector<bool>& expected) {
    computes({a, b}, [&](const Tensors& t) { return compare(t[0], t[1], direction); }, array<bool>({4}, expected));
  };
  by(Direction::eq, {false, true, false, false});
  by(Direction::ne, {true, false, true, true});
  by(Direction::lt, {true, false, false, false});
  by(Direction::le, {true, true, false, false});
  by(Direction::gt, {false, false, true, false});
  by(Direction::ge, {false, true, true, false});
  computes({array<bool>({2}, {true, false})}, [](const Tensors& t) { return logical_not(t[0]); },
           array<bool>({2}, {false, true}));
  const Array x = f32({6}, {1.9f, -1.9f, 3e9f, -3e9f, nan, 0.5f});
  computes({x}, [](const Tensors& t) { return convert(t[0], DType::i32); },
           i32({6}, {1, -1, INT32_MAX, INT32_MIN, 0, 0}));
  computes({x}, [](const Tensors& t) { return convert(t[0], DType::u32); },
           array<uint32_t>({6}, {1, 0, 3000000000u, 0, 0, 0}));
  computes({i32({2}, {0, -3})}, [](const Tensors& t) { return convert(t[0], DType::boolean); },
           array<bool>({2}, {false, true}));
  computes({array<bool>({2}, {true, false})}, [](const Tensors& t) { return convert(t[0], DType::f32); },
           f32({2}, {1, 0}));
}

TEST_CASE("bf16 computes in f32 and rounds once, to nearest even") {
  const auto rounded = [](const Shape& shape, const std::vector<float>& values) {
    return f32(shape, values).converted(DType::bf16);
  };
  computes({f32({6}, {1.0f, 1.00390625f, 1.005859375f, 1.01171875f, 65504.0f, 3.3961e38f})},
           [](const Tensors& t) { return convert(convert(t[0], DType::bf16), DType::f32); },
           f32({6}, {1.0f, 1.0f, 1.0078125f, 1.015625f, 65536.0f, 0x1.fep127f}));
  // 1 + 2^-8 + 2^-8: each sum alone would round back to 1.
  const Array terms = rounded({3}, {1, 0x1p-8f, 0x1p-8f});
  computes({terms}, [](const Tensors& t) { return sum(t[0]); }, rounded({}, {1 + 0x1p-7f}));
  computes({rounded({1, 3}, {1, 1, 1}), terms},
           [](const Tensors& t) { return dot_general(t[0], t[1], {{}, {}, {1}, {0}}); },
           rounded({1}, {1 + 0x1p-7f}));
  computes({rounded({1}, {1}), rounded({1}, {0x1p-8f})}, [](const Tensors& t) { return t[0] + t[1] + t[1]; },
           rounded({1}, {1}));
}

TEST_CASE("reductions of one, several and no axes") {
  const Array x = counting({2, 3, 2});
  computes({x}, [](const Tensors& t) { return reduce_sum(t[0], {1}); }, f32({2, 2}, {6, 9, 24, 27}));
  computes({x}, [](const Tensors& t) { return reduce_sum(t[0], {2, 0}); }, f32({3}, {14, 22, 30}));
  computes({x}, [](const Tensors& t) { return sum(t[0]); }, f32({}, {66}));
  computes({x}, [](const Tensors& t) { return reduce_sum(t[0], {}); }, x);
  computes({x}, [](const Tensors& t) { return reduce(t[0], Reduction::max, {0, 1}); }, f32({2}, {10, 11}));
  computes({x}, [](const Tensors& t) { return reduce(t[0], Reduction::min, {1, 2}); }, f32({2}, {0, 6}));
  computes({f32({2, 0}, {})}, [](const Tensors& t) { return reduce_sum(t[0], {1}); }, f32({2}, {0, 0}));
  computes({f32({2}, {-INFINITY, -INFINITY})}, [](const Tensors& t) { return reduce(t[0], Reduction::max, {0}); },
           f32({}, {-INFINITY}));
  computes({i32({3}, {-5, INT32_MIN, -7})}, [](const Tensors& t) { return reduce(t[0], Reduction::max, {0}); },
           i32({}, {-5}));
}

TEST_CASE("products") {
  const Array a = counting({2, 3}), b = counting({3, 2});
  computes({a, b}, [](const Tensors& t) { return matmul(t[0], t[1]); }, f32({2, 2}, {10, 13, 28, 40}));
  computes({a, a}, [](const Tensors& t) { return dot_general(t[0], t[1], {{}, {}, {1}, {1}}); },
           f32({2, 2}, {5, 14, 14, 50}));
  computes({a, a}, [](const Tensors& t) { return dot_general(t[0], t[1], {{}, {}, {0}, {0}}); },
           f32({3, 3}, {9, 12, 15, 12, 17, 22, 15, 22, 29}));
  computes({a, a}, [](const Tensors& t) { return dot_general(t[0], t[1], {{0}, {0}, {1}, {1}}); }, f32({2}, {5, 50}));
  computes({a, a}, [](const Tensors& t) { return dot_general(t[0], t[1], {{1}, {1}, {0}, {0}}); },
           f32({3}, {9, 17, 29}));
  computes({counting({2}), counting({3})}, [](const Tensors& t) { return dot_general(t[0], t[1], {}); },
           f32({2, 3}, {0, 0, 0, 0, 1, 2}));
  computes({f32({2, 0}, {}), f32({0, 3}, {})}, [](const Tensors& t) { return matmul(t[0], t[1]); },
           f32({2, 3}, {0, 0, 0, 0, 0, 0}));
}

TEST_CASE("convolutions") {
  const Array x = counting({1, 1, 3, 3}), k = f32({1, 1, 2, 2}, {1, 2, 3, 4});
  ConvDims plain;
  computes({x, k}, [&](const Tensors& t) { return convolution(t[0], t[1], plain); },
           f32({1, 1, 2, 2}, {27, 37, 57, 67}));
  ConvDims padded;
  padded.pad_low = {1, 0}, padded.pad_high = {0, 1}, padded.strides = {2, 2};
  computes({x, k}, [&](const Tensors& t) { return convolution(t[0], t[1], padded); },
           f32({1, 1, 2, 2}, {4, 6, 57, 5 * 1 + 8 * 3}));
  ConvDims cropped;
  cropped.pad_low = {-1, 0}, cropped.pad_high = {0, -1};
  computes({x, k}, [&](const Tensors& t) { return convolution(t[0], t[1], cropped); }, f32({1, 1, 1, 1}, {57}));
  ConvDims dilated;
  dilated.kernel_dilation = {2, 2};
  computes({x, k}, [&](const Tensors& t) { return convolution(t[0], t[1], dilated); },
           f32({1, 1, 1, 1}, {0 + 2 * 2 + 3 * 6 + 4 * 8}));
  ConvDims spread;
  spread.lhs_dilation = {2, 2};
  computes({f32({1, 1, 2, 2}, {1, 2, 3, 4}), k}, [&](const Tensors& t) { return convolution(t[0], t[1], spread); },
           f32({1, 1, 2, 2}, {1, 4, 9, 16}));
  ConvDims grouped;
  grouped.feature_groups = 2;
  computes({f32({1, 2, 1, 1}, {2, 3}), f32({2, 1, 1, 1}, {5, 7})},
           [&](const Tensors& t) { return convolution(t[0], t[1], grouped); },
           f32({1, 2, 1, 1}, {10, 21}));
  ConvDims batched;
  batched.batch_groups = 2;
  computes({f32({2, 1, 1, 1}, {2, 3}), f32({2, 1, 1, 1}, {5, 7})},
           [&](const Tensors& t) { return convolution(t[0], t[1], batched); },
           f32({1, 2, 1, 1}, {10, 21}));
  computes({counting({1, 1, 2, 2}), counting({1, 1, 3, 3})},
           [&](const Tensors& t) { return convolution(t[0], t[1], plain); },
           f32({1, 1, 0, 0}, {}));
}

TEST_CASE("random bits: the words of philox, a function of the sample alone") {
  const Array key = array<uint32_t>({5}, {11, 22, 33, 44, 55});
  Array expected(DType::u32, {3, 2, 3});
  for (uint32_t i = 0; i < 3; ++i)
    for (uint32_t w = 0; w < 6; ++w)
      expected.data<uint32_t>()[i * 6 + w] = philox4x32({w / 4, 55 + i, 44, 22}, {11, 33})[w % 4];
  computes({key}, [](const Tensors& t) { return rng_bit_generator(t[0], {3, 2, 3}); }, expected);
  // A shard that starts at sample 56 sees the second and third sample.
  Array shard(DType::u32, {2, 2, 3});
  std::memcpy(shard.raw(), expected.data<uint32_t>() + 6, 48);
  computes({array<uint32_t>({5}, {11, 22, 33, 44, 56})},
           [](const Tensors& t) { return rng_bit_generator(t[0], {2, 2, 3}); }, shard);
}

TEST_CASE("philox agrees with the vectors of its authors") {
  using Words = std::array<uint32_t, 4>;
  CHECK(philox4x32({0, 0, 0, 0}, {0, 0}) == Words{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u});
  CHECK(philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}) == Words{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu});
  CHECK(philox4x32({0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}, {0xa4093822u, 0x299f31d0u}) ==
        Words{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u});
}

TEST_CASE("uniform lies in [0, 1), normal has mean 0 and variance 1") {
  const Program p = record("random", [](Recorder& r) {
    Tensor key = r.input("key", DType::u32, {5});
    r.output("uniform", uniform(key, {1000, 10})), r.output("normal", normal(key, {1000, 10}));
  });
  const auto out = test::run(p, {array<uint32_t>({5}, {1, 2, 3, 4, 5})});
  double mean_uniform = 0, mean = 0, variance = 0;
  bool inside = true;
  for (int64_t i = 0; i < 10000; ++i) {
    const double u = out[0].at(i), z = out[1].at(i);
    inside = inside && u >= 0 && u < 1;
    mean_uniform += u / 10000, mean += z / 10000, variance += z * z / 10000;
  }
  CHECK(inside);
  CHECK(std::abs(mean_uniform - 0.5) < 4 * 0.2887 / 100);
  CHECK(std::abs(mean) < 0.04);
  CHECK(std::abs(variance - 1) < 4 * std::sqrt(2.0) / 100);
}

TEST_CASE("outputs and written state are copies; state is updated by name") {
  const Program p = record("state", [](Recorder& r) {
    Tensor w = r.state("w", DType::f32, {2}), x = r.input("x", DType::f32, {2});
    r.output("x", x), r.output("w before", w), r.output("again", x);
    r.update("w", w + x);
  });
  for (const test::NamedDevice& device : test::all_devices()) {
    INFO(std::string(device.name));
    StateStore state;
    const Array w = f32({2}, {1, 2}), x = f32({2}, {10, 20});
    state.set("w", w.clone());
    auto executable = device.make()->compile(p);
    std::vector<Array> out = executable->run(std::vector{x}, state);
    CHECK(bitwise_equal(out[0], x));
    CHECK(bitwise_equal(out[1], w));
    CHECK(bitwise_equal(state.at("w"), f32({2}, {11, 22})));
    out[0].set(0, -1);
    CHECK(x.at(0) == 10);
    CHECK(out[2].at(0) == 10);
    executable->run(std::vector{x}, state);
    CHECK(bitwise_equal(state.at("w"), f32({2}, {21, 42})));
  }
}

TEST_SUITE_END();
