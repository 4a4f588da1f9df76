#include <algorithm>

#include "devices/device.hpp"
#include "engine/composite.hpp"

namespace backbeat {

Program flattened(const Program& program, const std::string& device) {
  Program flat = inline_calls(program);
  for (NodeId id = 0; id < flat.tape.size(); ++id) {
    const Node& node = flat.tape[id];
    if (!is_collective(node.op)) continue;
    const int64_t replicas = std::get<std::shared_ptr<const CollectiveDims>>(node.attributes)->replicas;
    if (replicas != 1)
      fail(name_of(node.op).data(), device, " runs with 1 replica, ", program.name, " expects ", replicas);
  }
  return flat;
}

void check_run(const Program& program, std::span<const Array> inputs, const StateStore& state) {
  const Tape& tape = program.tape;
  if (inputs.size() != program.inputs.size())
    fail("run", program.name, " takes ", program.inputs.size(), " inputs, got ", inputs.size());
  const auto check = [&](const char* what, const std::string& name, NodeId id, const Array& got) {
    const Node& node = tape[id];
    if (got.empty()) fail("run", program.name, ": ", what, " '", name, "' is empty, expected ", node.dtype, node.shape);
    if (got.dtype() != node.dtype || got.shape() != node.shape)
      fail("run", program.name, ": ", what, " '", name, "' is ", node.dtype, node.shape, ", got ", got.dtype(), got.shape());
  };
  for (size_t i = 0; i < inputs.size(); ++i) check("input", program.inputs[i].name, program.inputs[i].node, inputs[i]);
  for (const Program::State& s : program.states) {
    if (!state.contains(s.name)) fail("run", program.name, " needs state '", s.name, "', the store has none");
    check("state", s.name, s.read, state.at(s.name));
  }
}

void separate_state(const Program& program, std::span<const Array> inputs, std::span<const Array> constants,
                    std::span<Array* const> states, std::vector<const void*>& seen) {
  seen.clear();
  for (const Array& a : inputs) seen.push_back(a.raw());
  for (const Array& a : constants) seen.push_back(a.raw());
  for (const Array* a : states) seen.push_back(a->raw());
  std::sort(seen.begin(), seen.end());
  for (size_t i = 0; i < states.size(); ++i) {
    if (!program.states[i].write) continue;
    const auto same = std::equal_range(seen.begin(), seen.end(), static_cast<const void*>(states[i]->raw()));
    if (same.second - same.first > 1) *states[i] = states[i]->clone();
  }
}

}  // namespace backbeat
