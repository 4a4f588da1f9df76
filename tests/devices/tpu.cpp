// The simulated TPU against the reference device, and the properties of its costs over random programs.
#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "engine/ops.hpp"
#include "engine/philox.hpp"
#include "tests/devices/cost_checks.hpp"

using namespace backbeat;
using test::check_cost, test::run_on;

namespace {

Array random_array(DType dtype, const Shape& shape, uint32_t seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<double> normal(0, 1);
  Array a(dtype, shape);
  for (int64_t i = 0; i < a.size(); ++i) a.set(i, normal(engine));
  return a;
}

std::vector<Array> random_inputs(const Program& program, uint32_t seed) {
  std::vector<Array> inputs;
  for (const Program::Port& port : program.inputs) {
    const Node& node = program.tape[port.node];
    inputs.push_back(random_array(node.dtype, node.shape, seed++));
  }
  return inputs;
}

// The largest difference, relative to the largest magnitude of the expected array.
double difference(const Array& got, const Array& expected) {
  double worst = 0, largest = 1e-30;
  for (int64_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(expected.at(i)));
    worst = std::max(worst, std::abs(got.at(i) - expected.at(i)));
  }
  return worst / largest;
}

// A program of random operations over small shapes.
Program random_program(uint32_t seed, DType dtype, Precision precision) {
  return record("random", [&](Recorder& r) {
    std::mt19937 engine(seed);
    const auto pick = [&](int64_t n) { return static_cast<int64_t>(engine() % static_cast<uint32_t>(n)); };
    const int64_t sizes[] = {1, 2, 3, 5, 8, 9, 17, 33, 130};
    std::vector<Tensor> pool;
    const auto any = [&] { return pool[static_cast<size_t>(pick(static_cast<int64_t>(pool.size())))]; };
    for (int i = 0; i < 4; ++i) pool.push_back(r.input(concat("x", i), dtype, {sizes[pick(9)], sizes[pick(9)]}));
    pool.push_back(r.input("bias", dtype, {pool[0].dim(1)}));
    pool.push_back(r.input("image", dtype, {2, 3, 6, 5}));
    const int count = 6 + static_cast<int>(pick(20));
    for (int i = 0; i < count; ++i) {
      Scope scope(concat("layer_", i / 4));
      Tensor a = any();
      switch (pick(14)) {
        case 0:
          pool.push_back(tanh(a));
          break;
        case 1:
          pool.push_back(a * 0.5 + 0.25);
          break;
        case 2:
          pool.push_back(exp(-abs(a)));
          break;
        case 3:
          pool.push_back(leaky_relu(a, 0.2) * square(tanh(a)));
          break;
        case 4:
          if (a.rank() == 2) pool.push_back(transpose(a, {1, 0}));
          break;
        case 5:
          if (a.rank() > 0) pool.push_back(reduce(a, Reduction::sum, {pick(a.rank())}));
          break;
        case 6:
          pool.push_back(reshape(a, {a.size()}));
          break;
        case 7:
        case 8:
        case 9: {
          if (a.rank() != 2) break;
          for (int tries = 0; tries < 8; ++tries) {
            Tensor b = any();
            if (b.rank() == 2 && b.dim(0) == a.dim(1)) {
              pool.push_back(relu(matmul(a, b, precision) * 0.1));
              break;
            }
            if (b.rank() == 2 && b.dim(1) == a.dim(1)) {
              DotDims dims;
              dims.lhs_contracting = dims.rhs_contracting = {1};
              dims.precision = precision;
              pool.push_back(dot_general(a, b, dims) * 0.1);
              break;
            }
            if (b.rank() == 2 && b.dim(0) == a.dim(0)) {
              DotDims dims;
              dims.lhs_contracting = dims.rhs_contracting = {0};
              dims.precision = precision;
              pool.push_back(tanh(dot_general(a, b, dims)));
              break;
            }
          }
          break;
        }
        case 10:
          if (a.rank() == 2) pool.push_back(norm(a, {1}));
          break;
        case 11:
          if (a.rank() > 0 && a.dim(0) > 1) {
            Dims z = Dims::filled(a.rank(), 0), o = Dims::filled(a.rank(), 1);
            Dims limit(std::vector<int64_t>(a.shape().begin(), a.shape().end()));
            z[0] = 1;
            pool.push_back(slice(a, z, limit, o));
          }
          break;
        case 12:
          if (a.rank() == 2) pool.push_back(concatenate({a, reverse(a, {1})}, 0));
          break;
        case 13:
          pool.push_back(a + mean(a));
          break;
      }
    }
    Tensor total = sum(pool.back());
    for (size_t i = 5; i < pool.size(); ++i) total = total + sum(square(pool[i])) * 1e-3;
    r.output("last", pool.back());
    r.output("total", total);
  });
}

}  // namespace

TEST_CASE("tpu: the product measured on a real chip comes out to every printed digit") {
  const Program program = record("golden", [](Recorder& r) {
    Tensor a = r.input("a", DType::f32, {2, 2}), b = r.input("b", DType::f32, {2, 2});
    r.output("c", matmul(a, b));
  });
  const std::vector<Array> inputs = {Array::from<float>({2, 2}, {.3744f, .1656f, .4707f, .1663f}),
                                     Array::from<float>({2, 2}, {.3946f, .1186f, .1569f, .3145f})};
  const float expected[] = {0.17405128f, 0.09669876f, 0.21180916f, 0.10805416f};  // jax issue 9973
  for (const char* chip : {"tpu-v3", "edu-8x8"}) {
    auto device = make_tpu_device(sim::load_chip(chip));
    const Array c = run_on(*device, program, inputs)[0];
    for (int i = 0; i < 4; ++i) CHECK(c.data<float>()[i] == expected[i]);
  }
}

TEST_CASE("tpu: random programs agree with the reference, whatever is fused, kept or cut") {
  auto reference = make_reference_device();
  for (const char* name : {"tpu-v3", "edu-8x8"}) {
    const sim::Chip chip = sim::load_chip(name);
    auto device = make_tpu_device(chip), small_blocks = make_tpu_device(chip);
    set_block_budget(*small_blocks, chip.vmem.bytes / 16);
    for (uint32_t seed = 0; seed < 40; ++seed) {
      CAPTURE(name);
      CAPTURE(seed);
      const bool wide = seed % 2 == 0;
      const Program program = random_program(seed, wide ? DType::f64 : DType::f32, Precision::highest);
      const std::vector<Array> inputs = random_inputs(program, seed);
      const std::vector<Array> expected = run_on(*reference, program, inputs);
      StateStore state;
      auto executable = device->compile(program);
      const std::vector<Array> got = executable->run(inputs, state);
      for (size_t i = 0; i < got.size(); ++i) CHECK(difference(got[i], expected[i]) < (wide ? 1e-11 : 1e-4));
      check_cost(*executable);
      for (CompileOptions options :
           {CompileOptions{false, true}, CompileOptions{true, false}, CompileOptions{false, false}}) {
        const std::vector<Array> other = run_on(*device, program, inputs, options);
        for (size_t i = 0; i < got.size(); ++i) CHECK(bitwise_equal(got[i], other[i]));
      }
      const std::vector<Array> cut = run_on(*small_blocks, program, inputs);
      for (size_t i = 0; i < got.size(); ++i) CHECK(bitwise_equal(got[i], cut[i]));
    }
  }
}

TEST_CASE("tpu: convolutions of every kind") {
  struct Row {
    Shape lhs, kernel;
    Dims strides, low, high, lhs_dilation, kernel_dilation;
    int64_t feature_groups = 1, batch_groups = 1;
    bool exchanged = false;   // batch and features exchanged, as in a kernel gradient
    int64_t valid_pairs = 0;  // of output positions and taps that meet an element of the dilated lhs's grid
  };
  const std::vector<Row> rows = {
      {{2, 3, 7, 6}, {4, 3, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
      {{3, 1, 9, 9}, {5, 1, 5, 5}, {2, 2}, {2, 2}, {2, 2}, {1, 1}, {1, 1}},
      {{2, 4, 5, 5}, {3, 4, 5, 5}, {1, 1}, {2, 2}, {3, 3}, {2, 2}, {1, 1}},  // an input gradient
      {{3, 4, 7, 7}, {6, 4, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {2, 2}},  // a kernel gradient's dilation
      {{2, 6, 6, 6}, {4, 3, 3, 3}, {1, 2}, {0, 1}, {1, 0}, {1, 1}, {1, 1}, 2},
      {{4, 3, 6, 6}, {4, 3, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, 2},
      {{3, 2, 6, 6}, {3, 5, 4, 4}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, 1, true},
      {{2, 140, 4, 4}, {9, 140, 2, 2}, {2, 2}, {0, 0}, {0, 0}, {1, 1}, {1, 1}},
      {{2, 3, 4, 4}, {4, 3, 2, 2}, {1, 1}, {-1, 0}, {0, -1}, {3, 2}, {1, 1}},
  };
  auto reference = make_reference_device();
  for (const char* name : {"tpu-v3", "edu-8x8"})
    for (size_t i = 0; i < rows.size(); ++i)
      for (DType dtype : {DType::f64, DType::f32}) {
        CAPTURE(name);
        CAPTURE(i);
        const Row& row = rows[i];
        ConvDims dims;
        dims.strides = row.strides;
        dims.pad_low = row.low;
        dims.pad_high = row.high;
        dims.lhs_dilation = row.lhs_dilation;
        dims.kernel_dilation = row.kernel_dilation;
        dims.feature_groups = row.feature_groups;
        dims.batch_groups = row.batch_groups;
        dims.precision = Precision::highest;
        if (row.exchanged) {
          dims.lhs = {1, 0, {2, 3}};
          dims.kernel = {1, 0, {2, 3}};
          dims.out = {1, 0, {2, 3}};
        }
        int64_t flops = 0;
        const Program program = record("convolution", [&](Recorder& r) {
          Tensor x = r.input("x", dtype, row.lhs), w = r.input("w", dtype, row.kernel);
          Tensor y = convolution(x, w, dims);
          // Pairs of an output position and a tap that meet an element of the lhs, one dimension after the other.
          int64_t pairs = 1;
          for (int64_t s = 0; s < 2; ++s) {
            int64_t count = 0;
            for (int64_t o = 0; o < y.dim(dims.out.spatial[s]); ++o)
              for (int64_t t = 0; t < row.kernel[dims.kernel.spatial[s]]; ++t)
                for (int64_t e = 0; e < row.lhs[dims.lhs.spatial[s]]; ++e)
                  count += e * row.lhs_dilation[s] + row.low[s] == o * row.strides[s] + t * row.kernel_dilation[s];
            pairs *= count;
          }
          flops = 2 * pairs * y.dim(dims.out.batch) * y.dim(dims.out.feature) *
                  (row.lhs[dims.lhs.feature] / row.feature_groups);
          r.output("y", leaky_relu(y, 0.2));
          r.output("reversed", convolution(x, reverse(w, {2, 3}), dims));
        });
        const std::vector<Array> inputs = random_inputs(program, static_cast<uint32_t>(i));
        auto device = make_tpu_device(sim::load_chip(name));
        StateStore state;
        auto executable = device->compile(program);
        const std::vector<Array> got = executable->run(inputs, state), expected = run_on(*reference, program, inputs);
        for (size_t o = 0; o < got.size(); ++o)
          CHECK(difference(got[o], expected[o]) < (dtype == DType::f64 ? 1e-12 : 1e-5));
        check_cost(*executable);
        int64_t counted = 0;
        for (const NodeCost& n : executable->cost().nodes)
          if (n.op == Op::convolution) counted = n.flops;
        CHECK(counted == flops);
      }
}

TEST_CASE("tpu: precision streams 1, 3 and 6 times the rows, and the error falls as published") {
  const int64_t k = 4096, m = 64, n = 64;
  const Array a = random_array(DType::f32, {m, k}, 1), b = random_array(DType::f32, {k, n}, 2);
  std::vector<double> exact(static_cast<size_t>(m * n), 0);
  double power = 0;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l)
        sum += static_cast<double>(a.data<float>()[i * k + l]) * static_cast<double>(b.data<float>()[l * n + j]);
      exact[static_cast<size_t>(i * n + j)] = sum;
      power += sum * sum;
    }
  struct Row {
    Precision precision;
    int64_t times;
    double low, high;
  };
  double rows_at_one = 0;
  for (const Row& row : {Row{Precision::standard, 1, 2e-3, 3e-3}, Row{Precision::high, 3, 4e-6, 5e-6},
                         Row{Precision::highest, 6, 5e-8, 1e-6}}) {
    const Program program = record("product", [&](Recorder& r) {
      Tensor x = r.input("a", DType::f32, {m, k}), y = r.input("b", DType::f32, {k, n});
      r.output("c", matmul(x, y, row.precision));
    });
    auto device = make_tpu_device(sim::load_chip("tpu-v3"));
    auto executable = device->compile(program);
    StateStore state;
    const Array c = executable->run(std::vector<Array>{a, b}, state)[0];
    double error = 0;
    for (int64_t i = 0; i < m * n; ++i) error += std::pow(c.at(i) - exact[static_cast<size_t>(i)], 2);
    const double relative = std::sqrt(error / power);
    CHECK(relative > row.low);
    CHECK(relative < row.high);
    double streamed = 0;
    for (const EngineCost& e : executable->cost().engines)
      if (e.engine.rfind("mxu", 0) == 0 && e.engine.find('.') == std::string::npos)
        streamed += static_cast<double>(e.busy);
    if (row.times == 1) rows_at_one = streamed;
    CHECK(streamed == rows_at_one * static_cast<double>(row.times));
  }
}

TEST_CASE("tpu: a matrix times a vector runs in f32") {
  const Program program = record("matvec", [](Recorder& r) {
    Tensor a = r.input("a", DType::f32, {33, 70}), b = r.input("b", DType::f32, {70, 1});
    r.output("c", matmul(a, b) + 1);
  });
  const std::vector<Array> inputs = random_inputs(program, 3);
  auto device = make_tpu_device(sim::load_chip("tpu-v3"));
  auto reference = make_reference_device();
  CHECK(difference(run_on(*device, program, inputs)[0], run_on(*reference, program, inputs)[0]) < 1e-6);
}

TEST_CASE("tpu: more bandwidth or a faster engine never makes a fixed schedule slower") {
  for (uint32_t seed = 100; seed < 112; ++seed) {
    const Program program = random_program(seed, DType::f32, Precision::standard);
    const sim::Chip chip = sim::load_chip(seed % 2 ? "tpu-v3" : "edu-8x8");
    auto device = make_tpu_device(chip);
    CompileOptions options;
    options.timing_only = true;
    auto executable = device->compile(program, options);
    const sim::Stream& stream = instruction_stream(*executable);
    const Cycles base = sim::total_cycles(stream);
    CHECK(base == executable->cost().cycles);
    const size_t engines = sim::engine_names(chip).size();
    for (size_t e = 0; e < engines; ++e) {
      Cycles before = base;
      for (double factor : {0.7, 0.5, 0.1, 0.0}) {
        sim::Scaling scaling;
        scaling.by_engine.assign(engines, 1);
        scaling.by_engine[e] = factor;
        const Cycles now = sim::total_cycles(stream, scaling);
        CHECK(now <= before);
        before = now;
      }
    }
  }
}

TEST_CASE("tpu: state is updated in place, all of it from the old values") {
  const Program program = record("swap", [](Recorder& r) {
    Tensor a = r.state("a", DType::f32, {3}), b = r.state("b", DType::f32, {3}),
           count = r.state("count", DType::i64, {});
    r.update("a", b);
    r.update("b", a + b);
    r.update("count", count + 1);
    r.output("sum", a + b);
    r.output("a before", a);
  });
  auto device = make_tpu_device(sim::load_chip("edu-8x8"));
  auto executable = device->compile(program);
  StateStore state;
  state.set("a", Array::from<float>({3}, {1, 2, 3}));
  state.set("b", Array::from<float>({3}, {10, 20, 30}));
  state.set("count", Array::scalar<int64_t>(0));
  const void* place = state.at("a").raw();
  std::vector<Array> outputs;
  for (int i = 0; i < 3; ++i) outputs = executable->run({}, state);
  CHECK(state.at("a").data<float>()[0] == 21);  // 1 10, 10 11, 11 21, 21 32
  CHECK(state.at("b").data<float>()[2] == 96);
  CHECK(state.at("count").data<int64_t>()[0] == 3);
  CHECK(outputs[0].data<float>()[1] == 64);
  CHECK(outputs[1].data<float>()[1] == 22);
  CHECK(state.at("a").raw() == place);
  check_cost(*executable);
}

TEST_CASE("tpu: random words depend on the key and the sample alone") {
  const Program program = record("random", [](Recorder& r) {
    r.output("bits", rng_bit_generator(r.input("key", DType::u32, {5}), {3, 6}));
  });
  auto device = make_tpu_device(sim::load_chip("tpu-v3"));
  const Array bits = run_on(*device, program, {Array::from<uint32_t>({5}, {7, 8, 9, 10, 11})})[0];
  for (uint32_t i = 0; i < 3; ++i)
    for (uint32_t w = 0; w < 6; ++w)
      CHECK(bits.data<uint32_t>()[i * 6 + w] == philox4x32({w / 4, 11 + i, 10, 8}, {7, 9})[w % 4]);
}

TEST_CASE("tpu: a program that does not fit is refused with its peak and its largest buffers") {
  const auto build = [](int64_t n) {
    return record("big", [&](Recorder& r) {
      Scope scope("critic");
      Tensor x = r.input("x", DType::f32, {n, 1024});
      Tensor y = matmul(x, transpose(x, {1, 0}));
      r.output("y", tanh(y) + y);
      r.output("z", sum(exp(y)));
    });
  };
  auto device = make_tpu_device(sim::load_chip("edu-8x8"));
  CompileOptions options;
  options.timing_only = true;
  CHECK_NOTHROW(device->compile(build(1024), options));
  std::string message;
  try {
    device->compile(build(8192), options);
  } catch (const Error& e) {
    message = e.what();
  }
  CAPTURE(message);
  CHECK(message.rfind("big does not fit: peak ", 0) == 0);
  CHECK(message.find("of 256.0 MiB HBM") != std::string::npos);
  CHECK(message.find("critic") != std::string::npos);
  CHECK(message.find("largest: f32[8192,8192] 256.0 MiB") != std::string::npos);
}

TEST_CASE("tpu: keeping tensors in VMEM and fusing save traffic and time") {
  const Program program = record("layers", [](Recorder& r) {
    Tensor x = r.input("x", DType::f32, {256, 512});
    for (int i = 0; i < 3; ++i) {
      Tensor w = r.input(concat("w", i), DType::f32, {512, 512}), b = r.input(concat("b", i), DType::f32, {512});
      x = leaky_relu(matmul(x, w) + b, 0.2);
    }
    r.output("y", x);
  });
  auto device = make_tpu_device(sim::load_chip("tpu-v3"));
  const auto cost = [&](bool fusion, bool residency) {
    CompileOptions options{fusion, residency, true};
    return device->compile(program, options)->cost();
  };
  const auto traffic = [](const Cost& c) {
    int64_t bytes = 0;
    for (const NodeCost& n : c.nodes)
      if (auto found = n.bytes.find("hbm"); found != n.bytes.end()) bytes += found->second;
    return bytes;
  };
  const Cost best = cost(true, true);
  CHECK(best.cycles < cost(false, true).cycles);
  CHECK(best.cycles < cost(true, false).cycles);
  CHECK(traffic(best) < traffic(cost(true, false)));
  // Never below what has to come in and go out.
  CHECK(traffic(best) >= 4 * (256 * 512 * 2 + 3 * (512 * 512 + 512)));
  int64_t flops = 0;
  for (const NodeCost& n : best.nodes)
    if (n.op == Op::dot_general) flops += n.flops;
  CHECK(flops == 3 * 2 * int64_t{256} * 512 * 512);
}
