// Windows, scans, sorts and computed places on the simulated TPU: the reference device's bits, and times that can be
// worked out by hand.
#include <doctest/doctest.h>

#include <random>

#include "engine/composite.hpp"
#include "engine/ops.hpp"
#include "tests/devices/cost_checks.hpp"

using namespace backbeat;
using test::check_cost, test::run_on;

namespace {

// Few distinct values, so that windows and sorts meet ties.
Array random_array(DType dtype, const Shape& shape, uint32_t seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<double> normal(0, 2);
  Array a(dtype, shape);
  for (int64_t i = 0; i < a.size(); ++i) {
    const double v = normal(engine);
    a.set(i, dtype == DType::boolean ? v > 0 : is_float(dtype) ? std::round(v * 8) / 8 : std::round(v));
  }
  return a;
}

// An operand as it comes, or as the view of a transposed input: the same values in another order of memory.
Tensor operand(Recorder& r, const std::string& name, DType dtype, const Shape& shape, bool view) {
  if (!view || shape.size() < 2) return r.input(name, dtype, shape);
  Dims back = Dims::range(shape.size());
  for (int64_t d = 0; d < back.size(); ++d) back[d] = back.size() - 1 - d;
  Shape reversed;
  for (int64_t d : back) reversed.push_back(shape[d]);
  return transpose(r.input(name, dtype, reversed), back);
}

Shape windows_of(const Shape& x, const WindowDims& w) { return window_shape(x, w); }

WindowDims random_window(const Shape& shape, Reduction kind, std::mt19937& engine) {
  const auto pick = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(engine() % static_cast<uint32_t>(high - low + 1));
  };
  WindowDims w;
  w.kind = kind;
  for (int64_t d = 0; d < shape.size(); ++d) {
    w.window.push_back(pick(1, 3));
    w.strides.push_back(pick(1, 3));
    w.pad_low.push_back(pick(-1, 2));
    w.pad_high.push_back(pick(-1, 2));
    w.base_dilation.push_back(pick(1, 4) == 1 ? 2 : 1);
    w.window_dilation.push_back(pick(1, 4) == 1 ? 2 : 1);
  }
  return w;
}

struct Case {
  std::string name;
  std::function<Tensor(Recorder&, DType, bool view)> build;
};

// One of every operation over a random shape.
std::vector<Case> cases(uint32_t seed) {
  static const std::vector<Shape> shapes = {{1},       {7},        {130},        {1, 1},      {1, 9},   {5, 1},    {8, 8},   {17, 9},
                                            {3, 1, 5}, {2, 11, 3}, {9, 2, 2, 5}, {1, 4, 1, 3}, {4, 130}, {33, 70}, {2, 8, 16}};
  const Shape shape = shapes[seed % shapes.size()];
  std::mt19937 engine(seed);
  const auto pick = [&](int64_t n) { return static_cast<int64_t>(engine() % static_cast<uint32_t>(n)); };
  const int64_t axis = pick(shape.size()), count = 1 + pick(12);
  const auto indices = [](Recorder& r, const Shape& s) { return r.input("indices", DType::i32, s); };
  Shape part;
  for (int64_t d : shape) part.push_back(1 + pick(d));
  std::vector<Case> all;
  const auto add = [&](const char* name, std::function<Tensor(Recorder&, DType, bool)> build) { all.push_back({name, std::move(build)}); };
  const auto x = [shape](Recorder& r, DType t, bool view) { return operand(r, "x", t, shape, view); };
  add("cumsum", [=](Recorder& r, DType t, bool v) { return cumsum(x(r, t, v), axis); });
  add("cumsum from the end", [=](Recorder& r, DType t, bool v) { return cumsum(x(r, t, v), axis, true); });
  add("argmax", [=](Recorder& r, DType t, bool v) { return argmax(x(r, t, v), axis); });
  add("argmin", [=](Recorder& r, DType t, bool v) { return argmin(x(r, t, v), axis); });
  add("sort", [=](Recorder& r, DType t, bool v) { return sort(x(r, t, v), axis); });
  add("argsort", [=](Recorder& r, DType t, bool v) { return argsort(x(r, t, v), axis); });
  add("sort_by", [=](Recorder& r, DType t, bool v) { return sort_by(x(r, t, v), operand(r, "values", DType::f32, shape, !v), axis); });
  add("take", [=](Recorder& r, DType t, bool v) { return take(x(r, t, v), indices(r, {count}), axis); });
  GatherDims rows{{}, {axis}, {axis}, part, engine() % 2 ? Bounds::clip : Bounds::fill_or_drop};
  rows.slice_sizes[axis] = 1;
  for (int64_t d = 0; d + 1 < shape.size(); ++d) rows.offset.push_back(d + 1);
  Shape slices{count};
  for (int64_t d = 0; d < shape.size(); ++d)
    if (d != axis) slices.push_back(part[d]);
  add("gather", [=](Recorder& r, DType t, bool v) { return gather(x(r, t, v), indices(r, {count, 1}), rows); });
  for (bool sums : {true, false})
    add(sums ? "scatter adds" : "scatter sets", [=](Recorder& r, DType t, bool v) {
      return scatter(x(r, t, v), indices(r, {count, 1}), operand(r, "updates", t, slices, v), {rows, sums});
    });
  const Shape start{shape.size()};
  add("dynamic_slice", [=](Recorder& r, DType t, bool v) { return dynamic_slice(x(r, t, v), indices(r, start), part); });
  add("dynamic_update_slice", [=](Recorder& r, DType t, bool v) {
    return dynamic_update_slice(x(r, t, v), operand(r, "update", t, part, v), indices(r, start));
  });
  add("dynamic_update_slice in place", [=](Recorder& r, DType t, bool v) {
    const Tensor y = x(r, t, v);
    return dynamic_update_slice(maximum(y, negate(y)), operand(r, "update", t, part, v), indices(r, start));
  });
  for (Reduction kind : {Reduction::sum, Reduction::max, Reduction::min}) {
    const WindowDims w = random_window(shape, kind, engine);
    add("reduce_window", [=](Recorder& r, DType t, bool v) { return reduce_window(x(r, t, v), w); });
    if (kind == Reduction::sum) continue;
    add("select_and_scatter", [=](Recorder& r, DType t, bool v) {
      return select_and_scatter(x(r, t, v), operand(r, "source", t, windows_of(shape, w), v), w);
    });
    add("select_and_gather", [=](Recorder& r, DType t, bool v) {
      return select_and_gather(x(r, t, v), operand(r, "source", t, shape, !v), w);
    });
  }
  add("reduce product", [=](Recorder& r, DType t, bool v) {  // of ones and twos: the order does not show
    const Tensor y = x(r, t, v);
    return reduce(select(y > 0.0, full(y.tape(), t, shape, 2), ones_like(y)), Reduction::product, {axis});
  });
  return all;
}

std::vector<Array> inputs_of(const Program& program, uint32_t seed) {
  std::vector<Array> inputs;
  for (const Program::Port& port : program.inputs)
    inputs.push_back(random_array(program.tape[port.node].dtype, program.tape[port.node].shape, ++seed));
  return inputs;
}

Cost cost_of(const char* chip, const std::function<void(Recorder&)>& build) {
  CompileOptions options;
  options.timing_only = true;
  return make_tpu_device(sim::load_chip(chip))->compile(record("timed", build), options)->cost();
}

constexpr DType f32 = DType::f32, i32 = DType::i32;
const GatherDims embedding{{1}, {0}, {0}, {1, 8}, Bounds::clip};  // rows of [n, 8] by indices [m, 1]

}  // namespace

TEST_CASE("tpu: operations on whole arrays have the bits of the reference, however they are cut, and balanced books") {
  auto reference = make_reference_device();
  for (const char* name : {"tpu-v3", "edu-8x8"}) {
    const sim::Chip chip = sim::load_chip(name);
    auto device = make_tpu_device(chip), small_blocks = make_tpu_device(chip);
    set_block_budget(*small_blocks, 16 * chip.vpu.sublanes * chip.vpu.lanes);
    for (uint32_t seed = 0; seed < 30; ++seed)
      for (const Case& c : cases(seed))
        for (DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64, DType::i32, DType::i64, DType::i8, DType::u8, DType::u32}) {
          if (seed >= 15 && dtype != DType::f32 && dtype != DType::bf16) continue;
          const bool view = seed % 2 == 1;
          CAPTURE(name);
          CAPTURE(seed);
          CAPTURE(c.name);
          CAPTURE(dtype);
          const Program program = record(c.name, [&](Recorder& r) { r.output("y", c.build(r, dtype, view)); });
          const std::vector<Array> inputs = inputs_of(program, seed);
          const Array expected = run_on(*reference, program, inputs)[0];
          StateStore state;
          auto executable = device->compile(program);
          CHECK(bitwise_equal(executable->run(inputs, state)[0], expected));
          CHECK(bitwise_equal(executable->run(inputs, state)[0], expected));
          check_cost(*executable);
          CHECK(bitwise_equal(run_on(*small_blocks, program, inputs)[0], expected));
          CHECK(bitwise_equal(run_on(*device, program, inputs, {false, false})[0], expected));
        }
  }
}

TEST_CASE("tpu: chains of new and old operations agree with the reference, and their books balance") {
  auto reference = make_reference_device();
  for (const char* name : {"tpu-v3", "edu-8x8"}) {
    const sim::Chip chip = sim::load_chip(name);
    auto device = make_tpu_device(chip), small_blocks = make_tpu_device(chip);
    set_block_budget(*small_blocks, chip.vmem.bytes / 16);
    for (uint32_t seed = 0; seed < 20; ++seed) {
      CAPTURE(name);
      CAPTURE(seed);
      std::mt19937 engine(seed);
      const auto pick = [&](int64_t n) { return static_cast<int64_t>(engine() % static_cast<uint32_t>(n)); };
      const Program program = record("chain", [&](Recorder& r) {
        Tensor x = r.input("x", f32, {4 + pick(20), 3 + pick(40)}), i = r.input("i", i32, {1 + pick(9)}), s = r.input("s", i32, {2});
        std::vector<Tensor> outputs;
        for (int n = 0; n < 8; ++n) {
          Scope scope(concat("layer_", n / 2));
          switch (pick(10)) {
            case 0: x = cumsum(x * 0.5, pick(2)); break;
            case 1: x = sort(abs(x), pick(2)); break;
            case 2: x = take(x + 1.0, i, pick(2)); break;
            case 3: x = transpose(x, {1, 0}); break;
            case 4: x = reduce_window(x, {Reduction::max, {2, 2}, {1, 1}, {1, 0}, {0, 1}, {1, 1}, {1, 1}}); break;
            case 5: x = dynamic_slice(x, s, {1 + pick(x.dim(0)), 1 + pick(x.dim(1))}); break;
            case 6: x = dynamic_update_slice(x * 2.0, slice(x, {0, 0}, {1, 1}, {1, 1}), s); break;
            case 7: x = optimization_barrier(x, {s}); break;
            case 8: x = reverse(x, {pick(2)}); break;
            case 9: outputs.push_back(convert(argmax(x, pick(2)), f32)); break;
          }
        }
        outputs.push_back(x);
        for (size_t n = 0; n < outputs.size(); ++n) r.output(concat("y", n), outputs[n]);
      });
      const std::vector<Array> inputs = inputs_of(program, seed), expected = run_on(*reference, program, inputs);
      StateStore state;
      auto executable = device->compile(program);
      const std::vector<Array> got = executable->run(inputs, state), cut = run_on(*small_blocks, program, inputs),
                               plain = run_on(*device, program, inputs, {false, false});
      check_cost(*executable);
      for (size_t n = 0; n < expected.size(); ++n) {
        CHECK(bitwise_equal(got[n], expected[n]));
        CHECK(bitwise_equal(cut[n], expected[n]));
        CHECK(bitwise_equal(plain[n], expected[n]));
      }
    }
  }
}

TEST_CASE("tpu: times of the new operations can be counted along on edu-8x8") {
  struct Row {
    const char* name;
    std::function<void(Recorder&)> build;
    Cycles expected;
  };
  // The launch takes 100 cycles, opening a step 10; an array of one register comes or goes in 8 + 20.
  const Cycles open = 100 + 10, come = 8 + 20, go = 8 + 20;
  // To VMEM and back 2 each, the vector unit 2, the XLU 16.
  const Cycles vector = 2 + 2 + 2, turned = vector + 16;
  const WindowDims four{Reduction::sum, {4}, {1}, {0}, {0}, {1}, {1}};
  const Row rows[] = {
      // 4 taps, 3 of them a rotation along the lanes (4) and one along the sublanes (1): the XLU is the slowest.
      {"reduce_window", [&](Recorder& r) { r.output("y", reduce_window(r.input("x", f32, {64}), four)); },
       open + come + 3 * (4 + 1) + turned + go},
      // 3 steps along the lanes, 3 along the sublanes, each with a rotation.
      {"cumsum", [&](Recorder& r) { r.output("y", cumsum(r.input("x", f32, {64}), 0)); }, open + come + 3 * 4 + 3 * 1 + turned + go},
      // Across the lanes twice: the extreme, then its first place.
      {"argmax", [&](Recorder& r) { r.output("y", argmax(r.input("x", f32, {8, 8}), 1)); }, open + come + 2 * 4 + turned + go},
      // 6 stages of 8 elements, each rotating keys and places.
      {"sort", [&](Recorder& r) { r.output("y", sort(r.input("x", f32, {8}), 0)); }, open + come + 6 * 2 * 4 + turned + go},
      // The table stays in main memory. 8 rows: 4 cycles for each address and 1 to start its transfer, 20 until the last is
      // there; they lie inside of the table: nothing else to do.
      {"gather",
       [&](Recorder& r) { r.output("y", gather(r.input("x", f32, {64, 8}), r.input("i", i32, {8, 1}), embedding)); },
       open + come + 8 * (4 + 1) + 20 + go},
      // Three arrays come. 4 rows, each loaded, added and stored before the next: 6 cycles.
      {"scatter",
       [&](Recorder& r) {
         r.output("y", scatter(r.input("x", f32, {8, 8}), r.input("i", i32, {4, 1}), r.input("u", f32, {4, 8}), {embedding, true}));
       },
       open + 3 * 8 + 20 + 4 * 6 + vector + go},
      // Two numbers of the start, and the block comes from there.
      {"dynamic_slice",
       [&](Recorder& r) { r.output("y", dynamic_slice(r.input("x", f32, {64, 8}), r.input("i", i32, {2}), {8, 8})); },
       open + come + 2 * 4 + 1 + 20 + go},
      // State is written where it lies: the update and the start come, the update goes.
      {"dynamic_update_slice",
       [&](Recorder& r) {
         r.update("x", dynamic_update_slice(r.state("x", f32, {64, 8}), r.input("u", f32, {8, 8}), r.input("i", i32, {2})));
       },
       open + 2 * 8 + 20 + 2 * 4 + 1 + 20},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CHECK(cost_of("edu-8x8", row.build).cycles == row.expected);
  }
}

TEST_CASE("tpu: more taps, rows or elements never cost less") {
  const auto pool = [](int64_t n, int64_t taps) {
    return [=](Recorder& r) {
      r.output("y", reduce_window(r.input("x", f32, {4, n, n, 8}), {Reduction::max, {1, taps, taps, 1}, {1, 1, 1, 1}, {0, 0, 0, 0}, {0, taps - 1, taps - 1, 0}, {1, 1, 1, 1}, {1, 1, 1, 1}}));
    };
  };
  const auto rows = [](int64_t n, int64_t count) {
    return [=](Recorder& r) { r.output("y", gather(r.input("x", f32, {n, 8}), r.input("i", i32, {count, 1}), embedding)); };
  };
  const auto adds = [](int64_t n, int64_t count) {
    return [=](Recorder& r) {
      r.output("y", scatter(r.input("x", f32, {n, 8}), r.input("i", i32, {count, 1}), r.input("u", f32, {count, 8}), {embedding, true}));
    };
  };
  const auto sorted = [](int64_t n, int64_t length) {
    return [=](Recorder& r) { r.output("y", argsort(r.input("x", f32, {n, length}), 1)); };
  };
  const auto scanned = [](int64_t n, int64_t length) {
    return [=](Recorder& r) { r.output("y", cumsum(r.input("x", f32, {n, length}), 1)); };
  };
  const auto extremes = [](int64_t n, int64_t length) {
    return [=](Recorder& r) { r.output("y", argmax(r.input("x", f32, {n, length}), 1)); };
  };
  struct Family {
    const char* name;
    std::function<std::function<void(Recorder&)>(int64_t, int64_t)> build;
    std::vector<int64_t> sizes, counts;
  };
  const Family families[] = {
      {"windows", pool, {4, 9, 16, 40}, {1, 2, 3, 5}},
      {"gather", rows, {8, 100, 5000}, {1, 8, 100, 3000}},
      {"scatter", adds, {8, 100, 5000}, {1, 8, 100, 3000}},
      // From two rows on: one alone is a line, which has a layout of its own.
      {"sort", sorted, {2, 8, 100}, {2, 8, 60, 1000}},
      {"cumsum", scanned, {2, 8, 100}, {2, 8, 60, 1000}},
      {"argmax", extremes, {2, 8, 100}, {2, 8, 60, 1000}},
  };
  for (const char* chip : {"edu-8x8", "tpu-v3"})
    for (const Family& f : families)
      for (size_t i = 0; i < f.sizes.size(); ++i)
        for (size_t j = 0; j < f.counts.size(); ++j) {
          CAPTURE(chip);
          CAPTURE(f.name);
          CAPTURE(f.sizes[i]);
          CAPTURE(f.counts[j]);
          const Cycles here = cost_of(chip, f.build(f.sizes[i], f.counts[j])).cycles;
          if (i > 0) CHECK(here >= cost_of(chip, f.build(f.sizes[i - 1], f.counts[j])).cycles);
          if (j > 0) CHECK(here >= cost_of(chip, f.build(f.sizes[i], f.counts[j - 1])).cycles);
        }
}

TEST_CASE("tpu: what does not fit VMEM goes through it in parts") {
  const auto fits = [](const std::function<void(Recorder&)>& build) {
    CHECK_NOTHROW(cost_of("edu-8x8", build));
  };
  fits([](Recorder& r) { r.output("y", sort(r.input("x", f32, {300000}), 0)); });
  fits([](Recorder& r) { r.output("y", cumsum(r.input("x", f32, {300000}), 0)); });
  fits([](Recorder& r) { r.output("y", argmax(r.input("x", f32, {300000, 3}), 1)); });
  fits([](Recorder& r) { r.output("y", gather(r.input("x", f32, {100000, 8}), r.input("i", i32, {100000, 1}), embedding)); });
  fits([](Recorder& r) {
    r.output("y", scatter(r.input("x", f32, {100000, 8}), r.input("i", i32, {5000, 1}), r.input("u", f32, {5000, 8}), {embedding, true}));
  });
  fits([](Recorder& r) {
    const WindowDims pool{Reduction::max, {1, 3, 3, 1}, {1, 2, 2, 1}, {0, 1, 1, 0}, {0, 1, 1, 0}, {1, 1, 1, 1}, {1, 1, 1, 1}};
    const Tensor x = r.input("x", f32, {8, 112, 112, 16});
    r.output("y", reduce_window(x, pool));
    r.output("z", select_and_scatter(x, r.input("s", f32, {8, 56, 56, 16}), pool));
    r.output("one", reduce_window(r.input("wide", f32, {1, 400, 400, 8}), pool));  // one image, larger than VMEM
  });
  // Part by part takes longer than what fits would: a sort goes through main memory several times.
  const auto traffic = [](int64_t n) {
    int64_t bytes = 0;
    for (const NodeCost& c : cost_of("edu-8x8", [&](Recorder& r) { r.output("y", sort(r.input("x", f32, {n}), 0)); }).nodes)
      if (const auto found = c.bytes.find("hbm"); found != c.bytes.end()) bytes += found->second;
    return bytes;
  };
  CHECK(traffic(4096) == 2 * 4 * 4096);
  CHECK(traffic(65536) > 4 * 2 * 4 * 65536);
}

TEST_CASE("tpu: an update takes the place of what nothing else reads") {
  const auto bytes = [](bool in_place) {
    int64_t total = 0;
    const Cost cost = cost_of("tpu-v3", [&](Recorder& r) {
      const Tensor x = r.state("cache", f32, {64, 64, 128}), u = r.input("u", f32, {64, 1, 128}), i = r.input("i", i32, {3});
      r.update("cache", dynamic_update_slice(x, u, i));
      if (!in_place) r.output("old", x * 2.0);
    });
    for (const NodeCost& n : cost.nodes)
      if (n.op == Op::dynamic_update_slice) total += n.bytes.at("hbm");
    return total;
  };
  CHECK(bytes(true) < 4 * 64 * 64 * 128 / 4);
  CHECK(bytes(false) >= 2 * 4 * 64 * 64 * 128);
  // The values: the old state is read, the new one kept.
  const Program program = record("cache", [](Recorder& r) {
    const Tensor x = r.state("cache", f32, {4, 2});
    const Tensor i = r.input("i", i32, {2}), u = r.input("u", f32, {1, 2}), y = dynamic_update_slice(x, u, i);
    r.update("cache", y);
    r.output("sum", sum(y));
  });
  auto device = make_tpu_device(sim::load_chip("edu-8x8"));
  auto executable = device->compile(program);
  StateStore state;
  state.set("cache", Array::full(f32, {4, 2}, 1));
  for (int32_t row : {1, 3}) {
    const Array got = executable->run(std::vector<Array>{Array::from<int32_t>({2}, {row, 0}), Array::from<float>({1, 2}, {5, 6})}, state)[0];
    CHECK(got.at(0) == (row == 1 ? 17 : 26));
  }
  CHECK(state.at("cache").at(2) == 5);
  CHECK(state.at("cache").at(7) == 6);
  check_cost(*executable);
}

TEST_CASE("tpu: barriers and collectives of one replica cost nothing and are in the books") {
  const Program program = record("one", [](Recorder& r) {
    const Tensor x = r.input("x", f32, {6, 5});
    const Tensor y = all_reduce(optimization_barrier(abs(x), {x}), Reduction::sum, 1) + convert(replica_id(x.tape()), f32);
    r.output("y", all_to_all(all_gather(reduce_scatter(y, 0, 1), 1, 1), 0, 1, 1));
    r.output("kept", collective_permute(x, {{0, 0}}, 1));
    r.output("lost", collective_permute(x, {}, 1));
    r.output("segment", call("segment", [](const std::vector<Tensor>& t) { return std::vector<Tensor>{negate(t[0])}; }, {x})[0]);
  });
  const std::vector<Array> inputs = inputs_of(program, 1);
  auto reference = make_reference_device();
  const std::vector<Array> expected = run_on(*reference, program, inputs);
  for (const char* chip : {"tpu-v3", "edu-8x8"}) {
    auto executable = make_tpu_device(sim::load_chip(chip))->compile(program);
    StateStore state;
    const std::vector<Array> got = executable->run(inputs, state);
    for (size_t i = 0; i < got.size(); ++i) CHECK(bitwise_equal(got[i], expected[i]));
    check_cost(*executable);
    bool found = false;
    for (const CostRow& row : executable->cost().by_phase) {
      if (row.key != name_of(Phase::collective)) continue;
      found = true;
      CHECK(row.nodes >= 4);
      CHECK(row.cycles == 0);
    }
    CHECK(found);
  }
  const Program two = record("two", [](Recorder& r) { r.output("y", all_reduce(r.input("x", f32, {4}), Reduction::sum, 2)); });
  std::string message;
  try {
    make_tpu_device(sim::load_chip("edu-8x8"))->compile(two);
  } catch (const Error& e) {
    message = e.what();
  }
  CHECK(message.find("2") != std::string::npos);
  CHECK(message.rfind("[all_reduce] ", 0) == 0);
  CHECK(message.find('\n') == std::string::npos);
}

TEST_CASE("tpu: a key that is a view draws the words of the key it shows") {
  const Array keys = Array::from<uint32_t>({5, 2}, {1, 10, 2, 20, 3, 30, 4, 40, 5, 50});
  const Program view = record("view", [](Recorder& r) {
    const Tensor turned = transpose(r.input("keys", DType::u32, {5, 2}), {1, 0});  // [2,5]
    r.output("bits", rng_bit_generator(reshape(slice(turned, {1, 0}, {2, 5}, {1, 1}), {5}), {3, 6}));
    r.output("reversed", rng_bit_generator(reverse(r.input("key", DType::u32, {5}), {0}), {3, 6}));
  });
  const Program plain = record("plain", [](Recorder& r) { r.output("bits", rng_bit_generator(r.input("key", DType::u32, {5}), {3, 6})); });
  auto device = make_tpu_device(sim::load_chip("tpu-v3"));
  const std::vector<Array> got = run_on(*device, view, {keys, Array::from<uint32_t>({5}, {5, 4, 3, 2, 1})});
  CHECK(bitwise_equal(got[0], run_on(*device, plain, {Array::from<uint32_t>({5}, {10, 20, 30, 40, 50})})[0]));
  CHECK(bitwise_equal(got[1], run_on(*device, plain, {Array::from<uint32_t>({5}, {1, 2, 3, 4, 5})})[0]));
}
