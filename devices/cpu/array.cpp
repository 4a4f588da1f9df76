// Operations on whole arrays that this device shares with the chip, and zeros.
#include <algorithm>

#include "devices/cpu/copy.hpp"
#include "devices/cpu/step.hpp"
#include "engine/host/array_operation.hpp"

namespace backbeat::cpu {

Step array_step(const Tape& tape, NodeId id) {
  const Node& node = tape[id];
  Step step{{id}, node.operands, {id}, {}, 0, {}};
  const auto operation = std::make_shared<const host::ArrayOperation>(tape, id);
  step.scratch_bytes = operation->scratch_bytes();
  // These may be written over their first operand, if that is read as nothing else.
  const bool in_place = node.op == Op::dynamic_update_slice || node.op == Op::scatter;
  const bool once = std::count(node.operands.begin(), node.operands.end(), node.operands[0]) == 1;
  if (in_place && once) step.elementwise_reads = {node.operands[0]};
  step.work = [operation, id, from = node.operands](const Memory& m) {
    const void* operands[3];  // none of them has more
    for (size_t i = 0; i < from.size(); ++i) operands[i] = m.at(from[i]);
    operation->run(std::span(operands, from.size()), m.at(id), m.scratch);
  };
  return step;
}

Step zeros_step(const Tape& tape, NodeId id) {
  const int64_t bytes = element_count(tape[id].shape) * size_of(tape[id].dtype);
  Step step{{id}, {}, {id}, {}, 0, {}};
  step.work = [=](const Memory& m) { fill_zero(m.at(id), bytes); };
  return step;
}

}  // namespace backbeat::cpu
