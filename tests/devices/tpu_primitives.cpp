// Windows, scans, sorts and computed places on the simulated TPU: the bits of the reference device and balanced books.
#include <doctest/doctest.h>

#include <random>

#include "engine/composite.hpp"
#include "engine/ops.hpp"
#include "tests/devices/cost_checks.hpp"

using namespace backbeat;
using test::check_cost, test::inputs_of, test::run_on;

namespace {

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
  static const std::vector<Shape> shapes = {{1},          {7},          {130},    {1, 1},    {1, 9},
                                            {5, 1},       {8, 8},       {17, 9},  {3, 1, 5}, {2, 11, 3},
                                            {9, 2, 2, 5}, {1, 4, 1, 3}, {4, 130}, {33, 70},  {2, 8, 16}};
  const Shape shape = shapes[seed % shapes.size()];
  std::mt19937 engine(seed);
  const auto pick = [&](int64_t n) { return static_cast<int64_t>(engine() % static_cast<uint32_t>(n)); };
  const int64_t axis = pick(shape.size()), count = 1 + pick(12);
  const auto indices = [](Recorder& r, const Shape& s) { return r.input("indices", DType::i32, s); };
  Shape part;
  for (int64_t d : shape) part.push_back(1 + pick(d));
  std::vector<Case> all;
  const auto add = [&](const char* name, std::function<Tensor(Recorder&, DType, bool)> build) {
    all.push_back({name, std::move(build)});
  };
  const auto x = [shape](Recorder& r, DType t, bool view) { return operand(r, "x", t, shape, view); };
  add("cumsum", [=](Recorder& r, DType t, bool v) { return cumsum(x(r, t, v), axis); });
  add("cumsum from the end", [=](Recorder& r, DType t, bool v) { return cumsum(x(r, t, v), axis, true); });
  add("argmax", [=](Recorder& r, DType t, bool v) { return argmax(x(r, t, v), axis); });
  add("argmin", [=](Recorder& r, DType t, bool v) { return argmin(x(r, t, v), axis); });
  add("sort", [=](Recorder& r, DType t, bool v) { return sort(x(r, t, v), axis); });
  add("argsort", [=](Recorder& r, DType t, bool v) { return argsort(x(r, t, v), axis); });
  add("sort_by", [=](Recorder& r, DType t, bool v) {
    return sort_by(x(r, t, v), operand(r, "values", DType::f32, shape, !v), axis);
  });
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
  add("dynamic_slice",
      [=](Recorder& r, DType t, bool v) { return dynamic_slice(x(r, t, v), indices(r, start), part); });
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
        for (DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64, DType::i32, DType::i64, DType::i8,
                            DType::u8, DType::u32}) {
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
        Tensor x = r.input("x", f32, {4 + pick(20), 3 + pick(40)}), i = r.input("i", i32, {1 + pick(9)}),
               s = r.input("s", i32, {2});
        std::vector<Tensor> outputs;
        for (int n = 0; n < 8; ++n) {
          Scope scope(concat("layer_", n / 2));
          switch (pick(10)) {
            case 0:
              x = cumsum(x * 0.5, pick(2));
              break;
            case 1:
              x = sort(abs(x), pick(2));
              break;
            case 2:
              x = take(x + 1.0, i, pick(2));
              break;
            case 3:
              x = transpose(x, {1, 0});
              break;
            case 4:
              x = reduce_window(x, {Reduction::max, {2, 2}, {1, 1}, {1, 0}, {0, 1}, {1, 1}, {1, 1}});
              break;
            case 5:
              x = dynamic_slice(x, s, {1 + pick(x.dim(0)), 1 + pick(x.dim(1))});
              break;
            case 6:
              x = dynamic_update_slice(x * 2.0, slice(x, {0, 0}, {1, 1}, {1, 1}), s);
              break;
            case 7:
              x = optimization_barrier(x, {s});
              break;
            case 8:
              x = reverse(x, {pick(2)});
              break;
            case 9:
              outputs.push_back(convert(argmax(x, pick(2)), f32));
              break;
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

TEST_CASE("tpu: arrays without elements") {
  const Program program = record("empty", [](Recorder& r) {
    const Tensor none = r.input("none", f32, {0, 8}), x = r.input("x", f32, {5, 8}), i = r.input("i", i32, {0, 1});
    r.output("cumsum", cumsum(none, 0));
    r.output("sort", sort(transpose(none, {1, 0}), 1));
    r.output("argmax", argmax(none, 1));
    r.output("gather", gather(x, i, embedding));
    r.output("scatter", scatter(x, i, none, {embedding, true}));
    r.output("slice", dynamic_slice(x, r.input("start", i32, {2}), {0, 3}));
    r.output("windows", reduce_window(x, {Reduction::max, {6, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}, {1, 1}}));
  });
  const std::vector<Array> inputs = inputs_of(program, 3), expected = run_on(*make_reference_device(), program, inputs);
  for (const char* chip : {"tpu-v3", "edu-8x8"}) {
    auto device = make_tpu_device(sim::load_chip(chip));
    auto executable = device->compile(program);
    StateStore state;
    const std::vector<Array> got = executable->run(inputs, state);
    for (size_t n = 0; n < got.size(); ++n) CHECK(bitwise_equal(got[n], expected[n]));
    check_cost(*executable);
  }
}

TEST_CASE("tpu: barriers and collectives of one replica cost nothing and are in the books") {
  const Program program = record("one", [](Recorder& r) {
    const Tensor x = r.input("x", f32, {6, 5});
    const Tensor y =
        all_reduce(optimization_barrier(abs(x), {x}), Reduction::sum, 1) + convert(replica_id(x.tape()), f32);
    r.output("y", all_to_all(all_gather(reduce_scatter(y, 0, 1), 1, 1), 0, 1, 1));
    r.output("kept", collective_permute(x, {{0, 0}}, 1));
    r.output("lost", collective_permute(x, {}, 1));
    r.output("segment",
             call("segment", [](const std::vector<Tensor>& t) { return std::vector<Tensor>{negate(t[0])}; }, {x})[0]);
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
  const Program two =
      record("two", [](Recorder& r) { r.output("y", all_reduce(r.input("x", f32, {4}), Reduction::sum, 2)); });
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

TEST_CASE("tpu: what a derivative computes again is a phase of its own") {
  const Program program = record("segment", [](Recorder& r) {
    const Tensor x = r.input("x", f32, {40, 50});
    const Tensor y =
        call("segment", [](const std::vector<Tensor>& t) { return std::vector<Tensor>{cumsum(abs(t[0]), 1)}; }, {x})[0];
    const NodeId operands[] = {optimization_barrier(x, {y}).id()};
    const std::vector<NodeId> again = append_body(x.tape(), y.node(), operands, 1);
    r.output("y", y);
    r.output("again", Tensor(x.tape(), again[0]) * 2.0);
  });
  auto executable = make_tpu_device(sim::load_chip("edu-8x8"))->compile(program);
  check_cost(*executable);
  Cycles recomputed = 0, forward = 0;
  for (const CostRow& row : executable->cost().by_phase) {
    if (row.key == name_of(Phase::recompute)) recomputed = row.cycles;
    if (row.key == name_of(Phase::forward)) forward = row.cycles;
  }
  CHECK(recomputed > 0);
  CHECK(forward > recomputed);
  StateStore state;
  const std::vector<Array> got = executable->run(inputs_of(program, 4), state);
  for (int64_t i = 0; i < got[0].size(); ++i) CHECK(got[1].at(i) == 2 * got[0].at(i));
}

TEST_CASE("tpu: a key that is a view draws the words of the key it shows") {
  const Array keys = Array::from<uint32_t>({5, 2}, {1, 10, 2, 20, 3, 30, 4, 40, 5, 50});
  const Program view = record("view", [](Recorder& r) {
    const Tensor turned = transpose(r.input("keys", DType::u32, {5, 2}), {1, 0});  // [2,5]
    r.output("bits", rng_bit_generator(reshape(slice(turned, {1, 0}, {2, 5}, {1, 1}), {5}), {3, 6}));
    r.output("reversed", rng_bit_generator(reverse(r.input("key", DType::u32, {5}), {0}), {3, 6}));
  });
  const Program plain = record("plain", [](Recorder& r) {
    r.output("bits", rng_bit_generator(r.input("key", DType::u32, {5}), {3, 6}));
  });
  auto device = make_tpu_device(sim::load_chip("tpu-v3"));
  const std::vector<Array> got = run_on(*device, view, {keys, Array::from<uint32_t>({5}, {5, 4, 3, 2, 1})});
  CHECK(bitwise_equal(got[0], run_on(*device, plain, {Array::from<uint32_t>({5}, {10, 20, 30, 40, 50})})[0]));
  CHECK(bitwise_equal(got[1], run_on(*device, plain, {Array::from<uint32_t>({5}, {1, 2, 3, 4, 5})})[0]));
}
