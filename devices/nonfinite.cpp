#include "devices/nonfinite.hpp"

#include <algorithm>

#include "engine/composite.hpp"
#include "engine/ops.hpp"
#include "engine/passes.hpp"

namespace backbeat {

namespace {

// What a node's operands are, for the message: "f32[4,2] x f32[2,3]".
std::string operands_of(const Tape& tape, NodeId id) {
  std::string text;
  for (NodeId operand : tape[id].operands) text += concat(text.empty() ? "" : ", ", tape[operand].dtype, tape[operand].shape);
  return text.empty() ? "nothing" : text;
}

std::string line_of(const Node& node) { return node.line.line == 0 ? "" : concat(", ", node.line.file, ':', node.line.line); }

std::string described(const Program& program, const NonFinite& found) {
  const Tape& tape = program.tape;
  const Node& node = tape[found.node];
  const std::string what =
      concat(found.count, " of ", found.size, " elements ", found.nan ? "NaN" : "infinite");
  if (const auto* name = std::get_if<InputName>(&node.attributes)) return concat("'", name->name, "' comes with ", what);
  const std::string& scope = tape.scope_of(found.node);
  return concat(node.op, " ", node.dtype, node.shape, " of ", operands_of(tape, found.node), " makes ", what, " of ",
                found.of_constants ? "constants that are not finite" : "finite operands", " (node ", found.node, ", order ",
                node.order, ", ", name_of(tape.phase_of(found.node)), scope.empty() ? "" : ", scope " + scope, line_of(node), ")");
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
  const std::vector<char> live = live_nodes(probe);
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

  // Constants, and what is made of nothing else, may be what they are; what they make infinite is meant so (a mask), what
  // they make NaN is not.
  std::vector<char> fixed(static_cast<size_t>(count), 0), bad = fixed, nan = fixed;
  for (NodeId id = 0; id < count; ++id) {
    const Node& node = tape[id];
    const auto is_fixed = [&](NodeId operand) { return fixed[static_cast<size_t>(operand)] != 0; };
    fixed[static_cast<size_t>(id)] = node.op == Op::constant || node.op == Op::iota ||
                                     (!node.operands.empty() && std::all_of(node.operands.begin(), node.operands.end(), is_fixed));
    if (node.op == Op::constant) bad[static_cast<size_t>(id)] = !all_finite(std::get<Array>(node.attributes));
  }
  std::optional<NonFinite> first;
  for (size_t i = 0; i < watched.size() && !first; ++i) {
    const NodeId id = watched[i];
    const auto not_finite = static_cast<int64_t>(counts[2 * i].item()), not_numbers = static_cast<int64_t>(counts[2 * i + 1].item());
    if (not_finite == 0) continue;
    bad[static_cast<size_t>(id)] = 1;
    if (fixed[static_cast<size_t>(id)]) continue;
    nan[static_cast<size_t>(id)] = not_numbers > 0;
    bool from_finite = true, from_nan = false;
    for (NodeId operand : tape[id].operands) {
      from_finite = from_finite && !bad[static_cast<size_t>(operand)];
      from_nan = from_nan || nan[static_cast<size_t>(operand)];
    }
    if (from_finite || (not_numbers > 0 && !from_nan))
      first = NonFinite{id, not_finite, element_count(tape[id].shape), not_numbers > 0, !from_finite, {}};
  }
  if (first) first->text = described(labels, *first);
  return first;
}

}  // namespace backbeat
