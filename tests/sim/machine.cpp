#include "sim/machine.hpp"

#include <doctest/doctest.h>

#include "sim/recording.hpp"

using namespace backbeat;
using namespace backbeat::sim;

namespace {
Stream empty_stream(const Chip& chip) {
  Stream s;
  s.engines = static_cast<int32_t>(engine_names(chip).size());
  s.labels.push_back({{0, 1.0}});
  s.kernels = 1;
  return s;
}
}  // namespace

TEST_CASE("machine: an instruction waits for its engine, its operands and its destination") {
  const Chip chip = load_chip("edu-8x8");
  Stream s = empty_stream(chip);
  const Slot a = s.new_slot(), b = s.new_slot();
  Append(s, Kind::fetch, 0, 0).part(dma_in, 10).write(a).latency(5);       // 0..10, ready at 15
  Append(s, Kind::vector, 0, 0).part(vpu, 4).read(a).write(b).latency(3);  // 15..19, ready at 22
  Append(s, Kind::fetch, 0, 0).part(dma_in, 2).write(a);  // the engine is free at 10, `a` is read until 19
  Append(s, Kind::vector, 0, 0).part(vpu, 1).read(b);     // ready at 22
  const Times t = simulate(s, chip);
  CHECK(t.start == std::vector<Cycles>{0, 15, 19, 22});
  CHECK(t.total == 23);
  CHECK(total_cycles(s) == 23);
  CHECK(t.cause[1] == Cause::hbm);
  CHECK(t.cause[2] == Cause::buffers);
  CHECK(t.cause[3] == Cause::operands);
  CHECK(t.engines[vpu].busy == 5);
  CHECK(t.engines[vpu].stalled == 15 + 3);
  CHECK(t.engines[vpu].idle == 0);
  CHECK(t.engines[dma_in].idle == 2);
  Cycles walked = 0;
  for (const PathSegment& p : critical_path(s, t)) walked += p.end - p.begin;
  CHECK(walked == t.total);
}

TEST_CASE("machine: double buffering hides all but the first transfer") {
  for (int buffers : {1, 2}) {
    const Chip chip = load_chip("edu-8x8");
    Stream s = empty_stream(chip);
    std::vector<Slot> slots;
    for (int i = 0; i < buffers; ++i) slots.push_back(s.new_slot());
    for (int i = 0; i < 10; ++i) {
      Append(s, Kind::fetch, 0, 0).part(dma_in, 8).write(slots[static_cast<size_t>(i % buffers)]);
      Append(s, Kind::vector, 0, 0).part(vpu, 8).read(slots[static_cast<size_t>(i % buffers)]);
    }
    CHECK(total_cycles(s) == (buffers == 2 ? 8 + 10 * 8 : 10 * 16));
  }
}

TEST_CASE("machine: parts are apportioned to the last unit") {
  CHECK(apportion(10, {1, 1, 1}) == std::vector<int64_t>{4, 3, 3});
  CHECK(apportion(7, {0, 0}) == std::vector<int64_t>{4, 3});
  CHECK(apportion(100, {0.5, 0.25, 0.25}) == std::vector<int64_t>{50, 25, 25});
  CHECK(apportion(0, {1, 2}) == std::vector<int64_t>{0, 0});
}
