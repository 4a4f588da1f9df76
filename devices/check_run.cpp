#include "devices/device.hpp"

namespace backbeat {

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

}  // namespace backbeat
