// What a simulated run owes its caller, and what tests of it read.
#pragma once
#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <random>

#include "devices/tpu/tpu.hpp"

namespace backbeat::test {

// Few distinct values, so that windows and sorts meet ties.
inline Array random_array(DType dtype, const Shape& shape, uint32_t seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<double> normal(0, 2);
  Array a(dtype, shape);
  for (int64_t i = 0; i < a.size(); ++i) {
    const double v = normal(engine);
    a.set(i, dtype == DType::boolean ? v > 0 : is_float(dtype) ? std::round(v * 8) / 8 : std::round(v));
  }
  return a;
}

inline std::vector<Array> inputs_of(const Program& program, uint32_t seed) {
  std::vector<Array> inputs;
  for (const Program::Port& port : program.inputs)
    inputs.push_back(random_array(program.tape[port.node].dtype, program.tape[port.node].shape, ++seed));
  return inputs;
}

inline std::vector<Array> run_on(Device& device, const Program& program, const std::vector<Array>& inputs,
                                 const CompileOptions& options = {}) {
  StateStore state;
  return device.compile(program, options)->run(inputs, state);
}

// Everything a Cost promises about itself.
inline void check_cost(Executable& executable) {
  const Cost cost = executable.cost();
  Cycles nodes = 0;
  for (const NodeCost& n : cost.nodes) {
    CHECK(n.cycles >= 0);
    nodes += n.cycles;
    for (const auto& [cause, cycles] : n.stalls) CHECK(cycles >= 0);
    CHECK(n.flops <= n.flops_padded);
  }
  CHECK(nodes == cost.cycles);
  for (const auto* view : {&cost.by_phase, &cost.by_order, &cost.by_scope, &cost.by_op}) {
    Cycles sum = 0;
    for (const CostRow& row : *view) {
      sum += row.cycles;
      CHECK(row.removal_cycles >= 0);
      CHECK(row.removal_cycles <= cost.cycles);
    }
    CHECK(sum == cost.cycles);
  }
  for (const EngineCost& e : cost.engines) {
    CHECK(e.busy >= 0);
    CHECK(e.stalled >= 0);
    CHECK(e.idle >= 0);
    CHECK(e.busy + e.stalled + e.idle == cost.cycles);
  }
  const Timeline line = timeline(executable);
  CHECK(line.total == cost.cycles);
  Cycles last = 0;
  std::map<std::string, Cycles> end;
  for (const TimelineEvent& e : line.events) {
    CHECK(e.start >= end[e.engine]);  // engines take instructions in order
    end[e.engine] = e.end;
    last = std::max(last, e.end);
  }
  CHECK(last <= cost.cycles);
  // An engine's busy cycles are those of the nodes that paid for them.
  for (const EngineCost& e : cost.engines) {
    Cycles busy = 0;
    for (const NodeCost& n : cost.nodes)
      if (auto found = n.busy.find(e.engine); found != n.busy.end()) busy += found->second;
    CHECK(busy == e.busy);
  }
}

}  // namespace backbeat::test
