// What windows, scans, sorts and computed places cost on the simulated TPU: counted by hand, and that more is never
// cheaper.
#include <doctest/doctest.h>

#include "engine/ops.hpp"
#include "tests/devices/cost_checks.hpp"

using namespace backbeat;
using test::check_cost, test::inputs_of;

namespace {

Cost cost_of(const char* chip, const std::function<void(Recorder&)>& build) {
  CompileOptions options;
  options.timing_only = true;
  return make_tpu_device(sim::load_chip(chip))->compile(record("timed", build), options)->cost();
}

constexpr DType f32 = DType::f32, i32 = DType::i32;
const GatherDims embedding{{1}, {0}, {0}, {1, 8}, Bounds::clip};  // rows of [n, 8] by indices [m, 1]

}  // namespace

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
      {"cumsum", [&](Recorder& r) { r.output("y", cumsum(r.input("x", f32, {64}), 0)); },
       open + come + 3 * 4 + 3 * 1 + turned + go},
      // Across the lanes twice: the extreme, then its first place.
      {"argmax",
       [&](Recorder& r) {
         r.output("y", argmax(r.input("x", f32, {8, 8}), 1));
       },
       open + come + 2 * 4 + turned + go},
      // 6 stages of 8 elements, each rotating keys and places.
      {"sort", [&](Recorder& r) { r.output("y", sort(r.input("x", f32, {8}), 0)); },
       open + come + 6 * 2 * 4 + turned + go},
      // The table stays in main memory. 8 rows: 4 cycles for each address and 1 to start its transfer, 20 until the
      // last is
      // there; they lie inside of the table: nothing else to do.
      {"gather",
       [&](Recorder& r) {
         r.output("y", gather(r.input("x", f32, {64, 8}), r.input("i", i32, {8, 1}), embedding));
       },
       open + come + 8 * (4 + 1) + 20 + go},
      // Three arrays come. 4 rows, each loaded, added and stored before the next: 6 cycles.
      {"scatter",
       [&](Recorder& r) {
         r.output("y", scatter(r.input("x", f32, {8, 8}), r.input("i", i32, {4, 1}), r.input("u", f32, {4, 8}),
                               {embedding, true}));
       },
       open + 3 * 8 + 20 + 4 * 6 + vector + go},
      // Two numbers of the start, and the block comes from there.
      {"dynamic_slice",
       [&](Recorder& r) {
         r.output("y", dynamic_slice(r.input("x", f32, {64, 8}), r.input("i", i32, {2}), {8, 8}));
       },
       open + come + 2 * 4 + 1 + 20 + go},
      // State is written where it lies: the update and the start come, the update goes.
      {"dynamic_update_slice",
       [&](Recorder& r) {
         r.update("x",
                  dynamic_update_slice(r.state("x", f32, {64, 8}), r.input("u", f32, {8, 8}), r.input("i", i32, {2})));
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
      r.output("y", reduce_window(r.input("x", f32, {4, n, n, 8}), {Reduction::max,
                                                                    {1, taps, taps, 1},
                                                                    {1, 1, 1, 1},
                                                                    {0, 0, 0, 0},
                                                                    {0, taps - 1, taps - 1, 0},
                                                                    {1, 1, 1, 1},
                                                                    {1, 1, 1, 1}}));
    };
  };
  const auto rows = [](int64_t n, int64_t count) {
    return [=](Recorder& r) {
      r.output("y", gather(r.input("x", f32, {n, 8}), r.input("i", i32, {count, 1}), embedding));
    };
  };
  const auto adds = [](int64_t n, int64_t count) {
    return [=](Recorder& r) {
      r.output("y", scatter(r.input("x", f32, {n, 8}), r.input("i", i32, {count, 1}), r.input("u", f32, {count, 8}),
                            {embedding, true}));
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
  const auto fits = [](const std::function<void(Recorder&)>& build) { CHECK_NOTHROW(cost_of("edu-8x8", build)); };
  fits([](Recorder& r) { r.output("y", sort(r.input("x", f32, {300000}), 0)); });
  fits([](Recorder& r) { r.output("y", cumsum(r.input("x", f32, {300000}), 0)); });
  fits([](Recorder& r) { r.output("y", argmax(r.input("x", f32, {300000, 3}), 1)); });
  fits([](Recorder& r) {
    r.output("y", gather(r.input("x", f32, {100000, 8}), r.input("i", i32, {100000, 1}), embedding));
  });
  fits([](Recorder& r) {
    r.output("y", scatter(r.input("x", f32, {100000, 8}), r.input("i", i32, {5000, 1}), r.input("u", f32, {5000, 8}),
                          {embedding, true}));
  });
  fits([](Recorder& r) {
    const WindowDims pool{Reduction::max, {1, 3, 3, 1}, {1, 2, 2, 1}, {0, 1, 1, 0},
                          {0, 1, 1, 0},   {1, 1, 1, 1}, {1, 1, 1, 1}};
    const Tensor x = r.input("x", f32, {8, 112, 112, 16});
    r.output("y", reduce_window(x, pool));
    r.output("z", select_and_scatter(x, r.input("s", f32, {8, 56, 56, 16}), pool));
    r.output("one", reduce_window(r.input("wide", f32, {1, 400, 400, 8}), pool));  // one image, larger than VMEM
  });
  // Part by part takes longer than what fits would: a sort goes through main memory several times.
  const auto traffic = [](int64_t n) {
    int64_t bytes = 0;
    for (const NodeCost& c :
         cost_of("edu-8x8", [&](Recorder& r) { r.output("y", sort(r.input("x", f32, {n}), 0)); }).nodes)
      if (const auto found = c.bytes.find("hbm"); found != c.bytes.end()) bytes += found->second;
    return bytes;
  };
  CHECK(traffic(4096) == 2 * 4 * 4096);
  CHECK(traffic(65536) > 4 * 2 * 4 * 65536);
  const Program program = record("long", [](Recorder& r) { r.output("y", sort(r.input("x", f32, {65536}), 0)); });
  auto device = make_tpu_device(sim::load_chip("edu-8x8"));
  auto executable = device->compile(program);
  StateStore state;
  const Array sorted = executable->run(inputs_of(program, 5), state)[0];
  for (int64_t i = 1; i < sorted.size(); ++i) REQUIRE(sorted.at(i - 1) <= sorted.at(i));
  check_cost(*executable);
}

TEST_CASE("tpu: an update takes the place of what nothing else reads") {
  const auto bytes = [](bool in_place) {
    int64_t total = 0;
    const Cost cost = cost_of("tpu-v3", [&](Recorder& r) {
      const Tensor x = r.state("cache", f32, {64, 64, 128}), u = r.input("u", f32, {64, 1, 128}),
                   i = r.input("i", i32, {3});
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
    const Array got = executable->run(
        std::vector<Array>{Array::from<int32_t>({2}, {row, 0}), Array::from<float>({1, 2}, {5, 6})}, state)[0];
    CHECK(got.at(0) == (row == 1 ? 17 : 26));
  }
  CHECK(state.at("cache").at(2) == 5);
  CHECK(state.at("cache").at(7) == 6);
  check_cost(*executable);
}

TEST_CASE("tpu: an operand that has to be turned first is not updated in place, and its copy is paid for") {
  // x comes as a product leaves it. An update of most of its lanes is cheaper in the other layout.
  const auto loads = [](bool read_elsewhere) {
    const Cost cost = cost_of("tpu-v3", [&](Recorder& r) {
      const Tensor x = matmul(r.input("a", f32, {1024, 24}), r.input("b", f32, {24, 64}));
      r.output("y", dynamic_update_slice(x, r.input("u", f32, {1024, 63}), r.input("i", i32, {2})));
      if (read_elsewhere) r.output("x", x);
    });
    for (const NodeCost& n : cost.nodes)
      if (n.op == Op::dynamic_update_slice) return n.busy.at("vmem.load");
    return Cycles(-1);
  };
  CHECK(loads(false) == loads(true));
}
