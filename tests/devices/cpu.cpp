// The cpu device against the reference: families of operations, random programs, state, threads, memory.
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>

#include "devices/device.hpp"
#include "devices/placement.hpp"
#include "doctest/doctest.h"
#include "engine/ops.hpp"

using namespace backbeat;

namespace {

Array values(DType dtype, const Shape& shape, std::mt19937& random) {
  Array a(dtype, shape);
  for (int64_t i = 0; i < a.size(); ++i) {
    const double x = static_cast<double>(random() % 4001) / 1000 - 2;
    a.set(i, is_float(dtype) ? x : dtype == DType::boolean ? static_cast<double>(random() % 2) : dtype == DType::u32 ? static_cast<double>(random() % 1000) : std::round(5 * x));
  }
  return a;
}

double tolerance(DType dtype) { return dtype == DType::f64 ? 1e-11 : dtype == DType::f32 ? 2e-5 : dtype == DType::bf16 ? 0.03 : 0; }

// The largest difference in units of the tolerance; infinite where one is NaN and the other is not.
double distance(const Array& a, const Array& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return 1e9;
  double scale = 1, worst = 0;
  for (int64_t i = 0; i < a.size(); ++i) if (std::isfinite(b.at(i))) scale = std::max(scale, std::fabs(b.at(i)));
  const double unit = tolerance(a.dtype());
  for (int64_t i = 0; i < a.size(); ++i) {
    const double x = a.at(i), y = b.at(i);
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    worst = std::max(worst, std::isfinite(x) && std::isfinite(y) && unit > 0 ? std::fabs(x - y) / (unit * scale) : 1e9);
  }
  return worst;
}

std::vector<Array> inputs_of(const Program& program, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Array> inputs;
  for (const Program::Port& port : program.inputs) inputs.push_back(values(program.tape[port.node].dtype, program.tape[port.node].shape, random));
  return inputs;
}
StateStore state_of(const Program& program, unsigned seed) {
  std::mt19937 random(seed);
  StateStore store;
  for (const Program::State& s : program.states) store.set(s.name, values(program.tape[s.read].dtype, program.tape[s.read].shape, random));
  return store;
}

// Both devices, with and without fusion, twice in a row so that state and reused memory take part.
void agree(const Program& program) {
  const auto inputs = inputs_of(program, 1);
  StateStore expected_state = state_of(program, 2);
  const auto reference = make_reference_device()->compile(program);
  std::vector<std::vector<Array>> expected;
  for (int round = 0; round < 2; ++round) expected.push_back(reference->run(inputs, expected_state));
  for (bool fusion : {true, false}) {
    CAPTURE(fusion);
    StateStore store = state_of(program, 2);
    const auto cpu = make_cpu_device()->compile(program, {.fusion = fusion});
    for (int round = 0; round < 2; ++round) {
      const auto got = cpu->run(inputs, store);
      REQUIRE(got.size() == expected[static_cast<size_t>(round)].size());
      for (size_t i = 0; i < got.size(); ++i) {
        CAPTURE(program.outputs[i].name);
        CHECK(distance(got[i], expected[static_cast<size_t>(round)][i]) <= 1);
      }
    }
    for (const auto& [name, array] : expected_state.arrays()) {
      CAPTURE(name);
      CHECK(distance(store.at(name), array) <= 1);
    }
  }
}
void agree(const std::function<void(Recorder&)>& write) { agree(record("test", write)); }

const DType floats[] = {DType::f32, DType::f64, DType::bf16};

}  // namespace

TEST_CASE("cpu: elementwise chains with every kind of broadcast") {
  for (DType dtype : floats)
    agree([&](Recorder& r) {
      const Tensor x = r.input("x", dtype, {3, 4, 5, 7}), bias = r.input("bias", dtype, {4}), row = r.input("row", dtype, {7}),
                   column = r.input("column", dtype, {3, 1, 1, 1}), one = r.input("one", dtype, {});
      const Tensor b = broadcast_in_dim(bias, {3, 4, 5, 7}, {1});
      Tensor y = tanh(x * 0.5 + b) * row - column / (one + 3.5);
      y = select(y > 0.1, exp(-abs(y)), logistic(y) + maximum(x, b) * minimum(x, row));
      r.output("y", y);
      r.output("z", sqrt(abs(y)) + rsqrt(abs(y) + 1) + sine(y) * cosine(x) + log(abs(x) + 0.5));
      r.output("p", power(abs(x) + 0.1, y) + sign(x));
      r.output("s", reduce_sum(y * y, {1, 3}));
      r.output("m", convert(compare(y, x, Direction::ge), DType::i32));
      r.output("b", b);
    });
}

TEST_CASE("cpu: integers, bools, conversions, iota, random bits") {
  agree([](Recorder& r) {
    const Tensor i = r.input("i", DType::i32, {6, 9}), u = r.input("u", DType::u32, {9}), f = r.input("f", DType::f32, {6, 9}),
                 key = r.input("key", DType::u32, {5}), l = r.input("l", DType::i64, {6, 9});
    const Tensor n = iota(r.tape(), DType::i32, {6, 9}, 1);
    r.output("sum", i * n - i + n);
    r.output("shift", shift_right_logical(u, full(r.tape(), DType::u32, {9}, 3)));
    r.output("mask", logical_not(i > n));
    r.output("back", convert(convert(f, DType::i32), DType::f64));
    r.output("half", convert(convert(f, DType::bf16), DType::f32));
    r.output("bits", rng_bit_generator(key, {5, 3, 7}));
    r.output("uniform", uniform(key, {33, 9}));
    r.output("long", reduce(l, Reduction::max, {0}));
    r.output("total", reduce_sum(i, {0, 1}));
  });
}

TEST_CASE("cpu: operations that move elements") {
  for (DType dtype : {DType::f32, DType::bf16, DType::f64, DType::boolean})
    agree([&](Recorder& r) {
      const Tensor x = r.input("x", dtype, {5, 36, 7, 40}), y = r.input("y", dtype, {5, 3, 7, 40});
      for (const Dims& p : {Dims{3, 2, 1, 0}, Dims{0, 3, 1, 2}, Dims{0, 2, 3, 1}, Dims{1, 0, 2, 3}, Dims{2, 0, 3, 1}, Dims{0, 1, 3, 2}})
        r.output(concat("transpose", p), transpose(x, p));
      r.output("slice", slice(x, {1, 0, 2, 3}, {5, 36, 7, 39}, {2, 5, 1, 3}));
      r.output("reverse", reverse(x, {1, 3}));
      r.output("concatenate", concatenate({x, y, y}, 1));
      r.output("reshape", reshape(x, {180, 280}));
      r.output("flat", reshape(transpose(reshape(x, {180, 280}), {1, 0}), {280 * 180}));
      r.output("broadcast", broadcast_in_dim(reshape(slice(x, {0, 0, 0, 0}, {5, 1, 1, 1}, {1, 1, 1, 1}), {5}), {4, 5, 6}, {1}));
      if (dtype != DType::boolean) {
        r.output("pad", pad(x, {{1, -2, 0, 3}, {0, 4, -1, -3}, {0, 1, 2, 0}}));
        r.output("cut", pad(y, {{-2, 0, -9, 0}, {-1, 0, 20, 1}, {0, 0, 1, 3}}));
      }
    });
}

TEST_CASE("cpu: reductions over every choice of axes") {
  for (DType dtype : {DType::f32, DType::bf16, DType::f64, DType::i32})
    agree([&](Recorder& r) {
      const Tensor x = r.input("x", dtype, {4, 3, 5, 6}), row = r.input("row", dtype, {5, 1});
      const Tensor wide = broadcast_to(row, {4, 3, 5, 6});
      for (int mask = 0; mask < 16; ++mask) {
        Dims axes;
        for (int64_t a = 0; a < 4; ++a)
          if (mask >> a & 1) axes.push_back(a);
        r.output(concat("sum", axes), reduce_sum(x, axes));
        r.output(concat("max", axes), reduce(x, Reduction::max, axes));
        r.output(concat("min of a chain", axes), reduce(x * wide, Reduction::min, axes));
        r.output(concat("broadcast", axes), reduce_sum(wide, axes));
      }
    });
}

TEST_CASE("cpu: dot_general in every layout") {
  for (DType dtype : floats)
    agree([&](Recorder& r) {
      const Tensor a = r.input("a", dtype, {3, 17, 4, 9}), b = r.input("b", dtype, {9, 3, 21, 4}), v = r.input("v", dtype, {17});
      r.output("two contracting", dot_general(a, b, {{0}, {1}, {2, 3}, {3, 0}}));
      r.output("other order", dot_general(a, b, {{0}, {1}, {3, 2}, {0, 3}}));
      r.output("outer", dot_general(v, v, {{}, {}, {}, {}}));
      r.output("inner", dot_general(v, v, {{}, {}, {0}, {0}}));
      r.output("vector", dot_general(a, v, {{}, {}, {1}, {0}}));
      r.output("two batches", dot_general(a, b, {{0, 3}, {1, 0}, {2}, {3}}));
      const Tensor x = r.input("x", dtype, {50, 70}), w = r.input("w", dtype, {70, 10}), c = r.input("c", dtype, {10});
      r.output("dense", tanh(matmul(x, w) + c));
      r.output("empty", matmul(r.input("e", dtype, {4, 0}), r.input("f", dtype, {0, 3})));
    });
}

namespace {

struct Convolution {
  Shape lhs, kernel;
  ConvDims dims;
};
ConvDims conv(Dims strides, Dims low, Dims high, Dims lhs_dilation = {1, 1}, Dims kernel_dilation = {1, 1}, int64_t groups = 1, int64_t batch_groups = 1) {
  ConvDims d;
  d.strides = strides, d.pad_low = low, d.pad_high = high, d.lhs_dilation = lhs_dilation, d.kernel_dilation = kernel_dilation;
  d.feature_groups = groups, d.batch_groups = batch_groups;
  return d;
}
ConvDims nhwc(ConvDims d) {
  d.lhs = d.out = {0, 3, {1, 2}};
  d.kernel = {3, 2, {0, 1}};
  return d;
}
// The kernel's gradient: batch and features change places, the cotangent is the window.
ConvDims gradient(ConvDims d) {
  d.lhs = {1, 0, {2, 3}};
  d.kernel = {1, 0, {2, 3}};
  d.out = {1, 0, {2, 3}};
  return d;
}

}  // namespace

TEST_CASE("cpu: convolutions with strides, padding, dilations, groups and layouts") {
  const Convolution table[] = {
      {{2, 3, 9, 8}, {5, 3, 3, 3}, conv({1, 1}, {1, 1}, {1, 1})},
      {{2, 3, 9, 8}, {5, 3, 3, 2}, conv({1, 1}, {0, 0}, {0, 0})},
      {{2, 3, 11, 10}, {4, 3, 4, 4}, conv({2, 3}, {1, 2}, {2, 0})},
      {{2, 3, 9, 9}, {4, 3, 3, 3}, conv({1, 2}, {-1, 3}, {2, -2}, {1, 1}, {2, 1})},
      {{2, 3, 5, 6}, {4, 3, 4, 4}, conv({1, 1}, {2, 2}, {2, 2}, {2, 2})},
      {{2, 3, 5, 6}, {4, 3, 3, 3}, conv({2, 1}, {3, 1}, {1, 2}, {3, 2}, {1, 2})},
      {{2, 3, 5, 6}, {4, 3, 1, 1}, conv({1, 1}, {0, 0}, {0, 0}, {2, 2})},
      {{2, 6, 7, 7}, {8, 3, 3, 3}, conv({1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 2)},
      {{2, 6, 7, 7}, {12, 1, 3, 3}, conv({2, 2}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 6)},
      {{4, 3, 7, 7}, {6, 3, 3, 3}, conv({1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, 2)},
      {{2, 3, 4, 4}, {5, 3, 3, 3}, conv({1, 1}, {5, 5}, {5, 5})},
      {{2, 3, 4, 4}, {5, 3, 6, 6}, conv({1, 1}, {0, 0}, {0, 0})},
      {{2, 9, 8, 3}, {3, 3, 3, 5}, nhwc(conv({1, 1}, {1, 1}, {1, 1}))},
      {{2, 9, 8, 6}, {3, 3, 3, 4}, nhwc(conv({2, 1}, {1, 1}, {0, 1}, {1, 1}, {1, 1}, 2))},
      {{2, 5, 5, 3}, {4, 4, 3, 6}, nhwc(conv({1, 1}, {2, 2}, {2, 2}, {2, 2}))},
      {{4, 3, 9, 8}, {4, 5, 9, 8}, gradient(conv({1, 1}, {1, 1}, {1, 1}))},
      {{4, 3, 10, 9}, {4, 5, 5, 5}, gradient(conv({1, 1}, {1, 1}, {0, 1}, {1, 1}, {2, 2}))},
  };
  for (const Convolution& c : table)
    for (DType dtype : floats) {
      CAPTURE(c.lhs);
      CAPTURE(c.kernel);
      CAPTURE(dtype);
      agree([&](Recorder& r) { r.output("y", convolution(r.input("x", dtype, c.lhs), r.input("w", dtype, c.kernel), c.dims)); });
    }
  agree([](Recorder& r) {  // one spatial dimension, and three
    ConvDims d = conv({2}, {1}, {1}, {1}, {1});
    d.lhs.spatial = d.kernel.spatial = d.out.spatial = {2};
    r.output("y", convolution(r.input("x", DType::f32, {2, 3, 9}), r.input("w", DType::f32, {4, 3, 3}), d));
    ConvDims e = conv({1, 2, 1}, {1, 0, 1}, {1, 1, 0}, {1, 1, 2}, {1, 1, 1});
    e.lhs.spatial = e.kernel.spatial = e.out.spatial = {2, 3, 4};
    r.output("z", convolution(r.input("u", DType::f32, {2, 3, 5, 6, 4}), r.input("v", DType::f32, {4, 3, 2, 3, 2}), e));
  });
}

TEST_CASE("cpu: state is updated in place, swapped, shared and passed through") {
  const auto write = [](Recorder& r) {
    const Tensor w = r.state("w", DType::f32, {6, 5}), m = r.state("m", DType::f32, {6, 5}), step = r.state("step", DType::f32, {});
    const Tensor a = r.state("a", DType::f32, {4}), b = r.state("b", DType::f32, {4}), c = r.state("c", DType::f32, {4});
    const Tensor x = r.input("x", DType::f32, {3, 6});
    const Tensor y = matmul(x, w), g = dot_general(x, y, {{}, {}, {0}, {0}});
    const Tensor moment = 0.9 * m + 0.1 * g;
    r.update("m", moment);
    r.update("w", w - 0.01 * moment / (step + 1));
    r.update("step", step + 1);
    r.update("a", b);  // a swap
    r.update("b", a);
    r.update("c", x.size() ? reshape(slice(x, {0, 0}, {1, 4}, {1, 1}), {4}) + c : c);
    r.output("y", y);
    r.output("again", y);
    r.output("old w", w);
    r.output("x", x);
    r.output("flat", reshape(y, {15}));
  };
  agree(write);

  // Two states in one buffer come apart when one of them is written.
  const Program program = record("test", write);
  StateStore store = state_of(program, 2), plain = state_of(program, 2);
  plain.set("m", plain.at("w").clone());
  store.set("m", store.at("w"));
  const auto inputs = inputs_of(program, 1);
  make_cpu_device()->compile(program)->run(inputs, store);
  make_reference_device()->compile(program)->run(inputs, plain);
  for (const auto& [name, array] : plain.arrays()) CHECK(distance(store.at(name), array) <= 1);
}

namespace {

// A random program over a few shapes: every value so far may be an operand, some are outputs.
Program random_program(unsigned seed, DType dtype) {
  return record("random", [&](Recorder& r) {
    std::mt19937 random(seed);
    const auto below = [&](size_t n) { return static_cast<size_t>(random()) % n; };
    std::vector<Tensor> pool{r.input("x", dtype, {6, 8}), r.input("y", dtype, {8}), r.input("z", dtype, {6, 1}), r.state("s", dtype, {6, 8})};
    for (int i = 0; i < 40; ++i) {
      const Tensor a = pool[below(pool.size())], b = pool[below(pool.size())];
      const bool matrix = a.rank() == 2;
      Tensor t;
      switch (below(14)) {
        case 0: t = tanh(a); break;
        case 1: t = logistic(a) * 2.0; break;
        case 2: t = exp(-abs(a)); break;
        case 3: case 4: case 5: {
          const Tensor p = broadcast_to(a, a.shape() == Shape{8, 6} ? Shape{8, 6} : Shape{6, 8});
          if (b.shape() == p.shape() || b.shape() == Shape{} || (p.shape() == Shape{6, 8} && (b.shape() == Shape{8} || b.shape() == Shape{6, 1})))
            t = below(2) ? p + b : p * b;
          break;
        }
        case 6: if (matrix && a.shape() != Shape{6, 1}) t = transpose(a, {1, 0}); break;
        case 7: if (matrix) t = reduce_sum(a, {0}) / 8.0; break;
        case 8: if (a.shape() == Shape{6, 8}) t = reshape(reduce(a, Reduction::max, {1}), {6, 1}); break;
        case 9: if (a.shape() == Shape{6, 8} && b.shape() == Shape{8, 6}) t = matmul(matmul(a, b), a) / 50.0; break;
        case 10: if (a.shape() == Shape{6, 8} && b.shape() == a.shape()) t = select(a > b, a, sine(b)); break;
        case 11: if (a.shape() == Shape{6, 8}) t = reverse(a, {1}); break;
        case 12: if (a.shape() == Shape{6, 8}) t = pad(slice(a, {1, 2}, {5, 8}, {1, 2}), {{1, 2}, {1, 3}, {0, 0}}); break;
        default: t = mean(square(a)); break;
      }
      if (!t.defined() || (t.rank() == 1 && t.dim(0) != 8)) continue;
      pool.push_back(t);
      if (below(6) == 0) r.output(concat("o", i), t);
    }
    r.output("last", pool.back());
    for (size_t i = pool.size(); i-- > 4;)
      if (pool[i].shape() == Shape{6, 8}) {
        r.update("s", pool[i]);
        break;
      }
  });
}

}  // namespace

TEST_CASE("cpu: random programs") {
  for (unsigned seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    agree(random_program(seed, seed % 3 ? DType::f32 : DType::f64));
  }
}

TEST_CASE("cpu: costs add up and carry the tape's labels") {
  const Program program = record("test", [](Recorder& r) {
    Scope scope("layer");
    r.output("y", tanh(matmul(r.input("x", DType::f32, {64, 64}), r.input("w", DType::f32, {64, 64}))));
  });
  const auto executable = make_cpu_device()->compile(program);
  CHECK_THROWS_WITH_AS(executable->cost(), "[cpu] its times are measured: run the program before asking for its cost", RunError);
  StateStore store;
  executable->run(inputs_of(program, 1), store);
  const Cost cost = executable->cost();
  Cycles sum = 0, by_scope = 0;
  int64_t flops = 0;
  for (const NodeCost& node : cost.nodes) {
    sum += node.cycles;
    flops += node.flops;
    CHECK((node.id < 0 || node.scope == "layer"));
  }
  for (const CostRow& row : cost.by_scope) {
    by_scope += row.cycles;
    CHECK(row.removal_cycles == row.cycles);
  }
  CHECK(sum == cost.cycles);
  CHECK(by_scope == cost.cycles);
  CHECK(flops == 2 * 64 * 64 * 64 + 64 * 64);
  CHECK_THROWS_AS(make_cpu_device()->compile(program, {.timing_only = true}), Error);
}

TEST_CASE("cpu: wrong inputs are one line") {
  const Program program = record("test", [](Recorder& r) { r.output("y", r.input("x", DType::f32, {2}) + r.state("s", DType::f32, {2})); });
  const auto executable = make_cpu_device()->compile(program);
  StateStore store;
  const std::vector<Array> none, wrong{Array::zeros(DType::f32, {3})}, right{Array::zeros(DType::f32, {2})};
  CHECK_THROWS_WITH_AS(executable->run(none, store), "[run] test takes 1 inputs, got 0", Error);
  CHECK_THROWS_WITH_AS(executable->run(wrong, store), "[run] test: input 'x' is f32[2], got f32[3]", Error);
  CHECK_THROWS_WITH_AS(executable->run(right, store), "[run] test needs state 's', the store has none", Error);
}

TEST_CASE("cpu: buffers that live together never overlap, and others share") {
  std::mt19937 random(3);
  std::vector<Lifetime> buffers(200);
  int64_t total = 0;
  for (auto& b : buffers) {
    b.bytes = random() % 5000;
    b.first = random() % 100;
    b.last = b.first + random() % 10;
    total += b.bytes;
  }
  const int64_t size = place(buffers, 64);
  int overlaps = 0;
  for (const auto& a : buffers)
    for (const auto& b : buffers)
      if (&a != &b && a.bytes && b.bytes && a.first <= b.last && b.first <= a.last && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes) ++overlaps;
  CHECK(overlaps == 0);
  CHECK(size < total / 4);
}

TEST_SUITE("threads") {
  TEST_CASE("cpu: the same bits on any number of threads") {
    const Program program = record("test", [](Recorder& r) {
      const Tensor x = r.input("x", DType::f32, {16, 8, 40, 40}), k = r.input("k", DType::f32, {24, 8, 3, 3}), b = r.input("b", DType::f32, {24});
      const Tensor y = tanh(convolution(x, k, conv({1, 1}, {1, 1}, {1, 1})) + broadcast_in_dim(b, {16, 24, 40, 40}, {1}));
      const Tensor g = convolution(x, y, gradient(conv({1, 1}, {1, 1}, {1, 1})));
      r.output("y", y);
      r.output("g", g);
      r.output("bias", reduce_sum(y, {0, 2, 3}));
      r.output("total", sum(square(y)));
      r.output("turned", transpose(y, {0, 2, 3, 1}));
      r.output("back", convolution(y, k, [] {
        ConvDims d = conv({1, 1}, {1, 1}, {1, 1});
        d.kernel = {1, 0, {2, 3}};
        return d;
      }()));
      const Tensor w = r.input("w", DType::f32, {300, 500});
      r.output("gram", matmul(w, transpose(w, {1, 0})));
    });
    const auto inputs = inputs_of(program, 1);
    const int before = omp_get_max_threads();
    std::vector<std::vector<Array>> results;
    for (int threads : {1, 2, 3}) {
      omp_set_num_threads(threads);
      StateStore store;
      results.push_back(make_cpu_device()->compile(program)->run(inputs, store));
      for (size_t i = 0; i < results[0].size(); ++i) CHECK(bitwise_equal(results.back()[i], results[0][i]));
    }
    omp_set_num_threads(before);
  }
}
