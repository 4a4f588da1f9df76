#include "devices/nonfinite.hpp"

#include <cmath>

#include "engine/composite.hpp"
#include "engine/ops.hpp"

namespace backbeat {

namespace {

// What a node's operands are, for the message: "f32[4,2] x f32[2,3]".
std::string operands_of(const Tape& tape, NodeId id) {
  std::string text;
  for (NodeId operand : tape[id].operands) text += concat(text.empty() ? "" : ", ", tape[operand].dtype, tape[operand].shape);
  return text.empty() ? "nothing" : text;
}

std::string line_of(const Node& node) { return node.line.line == 0 ? "" : concat(", ", node.line.file, ':', node.line.line); }

std::string described(const Program& program, const NonFinite& found, const char* operands) {
  const Tape& tape = program.tape;
  const Node& node = tape[found.node];
  const std::string what =
      concat(found.count, " of ", found.size, " elements ", found.nan ? "NaN" : "infinite");
  if (const auto* name = std::get_if<InputName>(&node.attributes)) return concat("'", name->name, "' comes with ", what);
  const std::string& scope = tape.scope_of(found.node);
  return concat(node.op, " ", node.dtype, node.shape, " of ", operands_of(tape, found.node), " makes ", what,
                " of ", operands, " operands (node ", found.node, ", order ", node.order, ", ", name_of(tape.phase_of(found.node)),
                scope.empty() ? "" : ", scope " + scope, line_of(node), ")");
}

}  // namespace

bool all_finite(const Array& array) {
  if (!is_float(array.dtype())) return true;
  bool finite = true;
  visit(array.dtype(), [&]<class T>() {
    const T* values = array.data<T>();
    for (int64_t i = 0; i < array.size(); ++i) {
      const double v = static_cast<double>(values[i]);
      finite = finite && v - v == 0;
    }
  });
  return finite;
}

std::optional<NonFinite> find_nonfinite(Device& device, const Program& program, std::span<const Array> inputs, const StateStore& state,
                                        const CompileOptions& options) {
  Program probe = inline_calls(program);
  Tape& tape = probe.tape;
  std::vector<NodeId> watched;
  const NodeId count = tape.size();
  std::vector<char> live(static_cast<size_t>(count), 0);
  for (NodeId root : probe.roots()) live[static_cast<size_t>(root)] = 1;
  for (NodeId id = count - 1; id >= 0; --id)
    if (live[static_cast<size_t>(id)])
      for (NodeId operand : tape[id].operands) live[static_cast<size_t>(operand)] = 1;
  probe.outputs.clear();
  const Program labels = probe;  // without the counts
  for (NodeId id = 0; id < count; ++id) {
    const Node& node = tape[id];
    if (!live[static_cast<size_t>(id)] || !is_float(node.dtype) || node.op == Op::constant || element_count(node.shape) == 0) continue;
    const Tensor x(tape, id);
    const auto counted = [&](Tensor flags) { return sum(convert(flags, DType::i32)); };
    probe.outputs.push_back({concat("bad", id), counted(logical_not(is_finite(x))).id()});
    probe.outputs.push_back({concat("nan", id), counted(compare(x, x, Direction::ne)).id()});
    watched.push_back(id);
  }
  for (Program::State& s : probe.states) s.write.reset();
  StateStore copy = state;  // nothing is written: the buffers may be shared
  const std::vector<Array> counts = device.compile(probe, options)->run(inputs, copy);

  std::vector<char> infinite(static_cast<size_t>(count), 0), nan(static_cast<size_t>(count), 0);
  for (NodeId id = 0; id < count; ++id)
    if (const Array* value = std::get_if<Array>(&tape[id].attributes)) infinite[static_cast<size_t>(id)] = !all_finite(*value);
  for (size_t i = 0; i < watched.size(); ++i) {
    const NodeId id = watched[i];
    const int64_t not_finite = static_cast<int64_t>(counts[2 * i].item());
    if (not_finite == 0) continue;
    infinite[static_cast<size_t>(id)] = 1, nan[static_cast<size_t>(id)] = counts[2 * i + 1].item() > 0;
    bool from_finite = true, from_numbers = true;
    for (NodeId operand : tape[id].operands) {
      from_finite = from_finite && !infinite[static_cast<size_t>(operand)];
      from_numbers = from_numbers && !nan[static_cast<size_t>(operand)];
    }
    const bool makes_nan = nan[static_cast<size_t>(id)] && from_numbers;
    if (!from_finite && !makes_nan) continue;
    NonFinite first{id, not_finite, element_count(tape[id].shape), nan[static_cast<size_t>(id)] != 0, {}};
    first.text = described(labels, first, from_finite ? "finite" : "infinite");
    return first;
  }
  return {};
}

}  // namespace backbeat
