#include "engine/passes.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <sstream>
#include <unordered_map>

#include "engine/composite.hpp"
#include "engine/host/vector_program.hpp"

namespace backbeat {

namespace {

constexpr int64_t largest_folded = 4096;  // elements; beyond, a constant costs more to keep than to compute

// Rebuilds a program node by node. `at(old)` is where a node of the old tape lies in the new one.
class Rewriter {
 public:
  Rewriter(const Program& program, const PassOptions& options) : from_(program), options_(options) {
    to_.name = program.name;
    to_.tape = Tape::with_scopes_of(program.tape);
  }

  Program run(const std::vector<char>& live) {
    at_.assign(static_cast<size_t>(from_.tape.size()), -1);
    for (NodeId id = 0; id < from_.tape.size(); ++id) {
      if (!live[static_cast<size_t>(id)]) continue;
      Node node = from_.tape[id];
      for (NodeId& operand : node.operands) operand = at_[static_cast<size_t>(operand)];
      at_[static_cast<size_t>(id)] = place(std::move(node));
    }
    const auto at = [&](NodeId id) { return at_[static_cast<size_t>(id)]; };
    for (const auto& port : from_.inputs) to_.inputs.push_back({port.name, at(port.node)});
    for (const auto& port : from_.outputs) to_.outputs.push_back({port.name, at(port.node)});
    for (const auto& s : from_.states)
      to_.states.push_back({s.name, at(s.read), s.write ? std::optional(at(*s.write)) : std::nullopt});
    return std::move(to_);
  }

 private:
  const Node& node(NodeId id) const { return to_.tape[id]; }

  NodeId place(Node n) {
    if (n.op == Op::input || n.op == Op::optimization_barrier) return to_.tape.push(std::move(n));  // like no other node
    if (options_.simplify)
      if (NodeId same = simplified(n); same >= 0) return same;
    if (options_.constant_folding) fold(n);
    return options_.common_subexpressions ? shared(std::move(n)) : to_.tape.push(std::move(n));
  }

  // --- common subexpressions

  static size_t hash(const Node& n) {
    size_t h = static_cast<size_t>(n.op);
    const auto mix = [&h](int64_t v) { h = h * 1099511628211u + static_cast<size_t>(v) + 0x9e3779b9u; };
    mix(static_cast<int64_t>(n.dtype));
    for (NodeId operand : n.operands) mix(operand);
    for (int64_t d : n.shape) mix(d);
    mix(static_cast<int64_t>(n.attributes.index()));
    // What tells nodes apart that read the same operands and have the same shape.
    const auto mix_all = [&mix](const Dims& dims) {
      for (int64_t d : dims) mix(d);
    };
    std::visit(
        [&]<class T>(const T& a) {
          if constexpr (std::is_same_v<T, Array>) mix(a.size() > 0 ? std::bit_cast<int64_t>(a.at(0)) : 0);
          else if constexpr (std::is_same_v<T, Dims>) mix_all(a);
          else if constexpr (std::is_same_v<T, Direction>) mix(static_cast<int64_t>(a));
          else if constexpr (std::is_same_v<T, ReduceDims>) mix(static_cast<int64_t>(a.kind)), mix_all(a.axes);
          else if constexpr (std::is_same_v<T, SliceDims>) mix_all(a.start), mix_all(a.stride);
          else if constexpr (std::is_same_v<T, PadDims>) mix_all(a.low), mix_all(a.interior);
          else if constexpr (std::is_same_v<T, Axis>) mix(a.index);
          else if constexpr (std::is_same_v<T, CumulativeDims>) mix(a.axis), mix(a.reverse);
          else if constexpr (std::is_same_v<T, FloatFormat>) mix(a.exponent_bits), mix(a.mantissa_bits);
          else if constexpr (std::is_same_v<T, std::shared_ptr<const WindowDims>>)
            mix(static_cast<int64_t>(a->kind)), mix_all(a->window), mix_all(a->pad_low), mix_all(a->window_dilation);
          else if constexpr (std::is_same_v<T, std::shared_ptr<const GatherDims>>) mix_all(a->index_map), mix_all(a->offset);
          else if constexpr (std::is_same_v<T, std::shared_ptr<const ScatterDims>>) mix(a->add), mix_all(a->where.index_map);
          else if constexpr (std::is_same_v<T, std::shared_ptr<const CollectiveDims>>) {
            mix(static_cast<int64_t>(a->kind)), mix(a->axis);
            for (const auto& [from, to] : a->pairs) mix(from), mix(to);
          }
        },
        n.attributes);
    return h;
  }

  NodeId shared(Node n) {
    const size_t key = hash(n);
    const auto [first, last] = seen_.equal_range(key);
    for (auto it = first; it != last; ++it) {
      Node& other = to_.tape.node(it->second);
      if (other.op == n.op && other.dtype == n.dtype && other.shape == n.shape && other.operands == n.operands &&
          same_attributes(other.attributes, n.attributes)) {
        other.order = std::min(other.order, n.order);
        if (n.serves < 0) other.serves = -1;  // what is needed anyway is not computed again
        return it->second;
      }
    }
    const NodeId id = to_.tape.push(std::move(n));
    seen_.emplace(key, id);
    return id;
  }

  // --- algebra

  // The one value that all elements of a node have, if that is plain from a constant and broadcasts of it.
  const Array* splat(NodeId id) const {
    while (node(id).op == Op::broadcast_in_dim || node(id).op == Op::reshape) id = node(id).operands[0];
    const Array* value = node(id).op == Op::constant ? &std::get<Array>(node(id).attributes) : nullptr;
    return value && value->size() == 1 ? value : nullptr;
  }

  bool is_splat(NodeId id, double wanted) const {
    const Array* value = splat(id);
    return value && value->at(0) == wanted && !(wanted == 0 && std::signbit(value->at(0)));
  }

  // The new node that `n` equals, or -1. May change n into something simpler.
  NodeId simplified(Node& n) {
    const auto operand = [&](size_t i) -> const Node& { return node(n.operands[i]); };
    switch (n.op) {
      case Op::stop_gradient: return n.operands[0];
      case Op::convert:
        if (operand(0).dtype == n.dtype) return n.operands[0];
        break;
      case Op::negate:
        if (operand(0).op == Op::negate) return operand(0).operands[0];
        break;
      case Op::multiply:
        if (is_splat(n.operands[1], 1)) return n.operands[0];
        if (is_splat(n.operands[0], 1)) return n.operands[1];
        break;
      case Op::divide:
        if (is_splat(n.operands[1], 1)) return n.operands[0];
        break;
      case Op::add:
        if (operand(1).op == Op::negate) n.op = Op::subtract, n.operands[1] = operand(1).operands[0];
        break;
      case Op::subtract:
        if (is_splat(n.operands[1], 0)) return n.operands[0];
        if (operand(1).op == Op::negate) n.op = Op::add, n.operands[1] = operand(1).operands[0];
        break;
      case Op::select:
        if (n.operands[1] == n.operands[2]) return n.operands[1];
        break;
      case Op::reshape:
        while (operand(0).op == Op::reshape) n.operands[0] = operand(0).operands[0];
        if (operand(0).shape == n.shape) return n.operands[0];
        break;
      case Op::reverse:
        if (operand(0).op == Op::reverse && same_attributes(operand(0).attributes, n.attributes)) return operand(0).operands[0];
        break;
      case Op::transpose: return compose_transposes(n);
      case Op::broadcast_in_dim: compose_broadcasts(n); break;
      default: break;
    }
    return -1;
  }

  NodeId compose_transposes(Node& n) {
    const Node& inner = node(n.operands[0]);
    if (inner.op != Op::transpose) return -1;
    const Dims& first = std::get<Dims>(inner.attributes);
    Dims both;
    for (int64_t axis : std::get<Dims>(n.attributes)) both.push_back(first[axis]);
    const NodeId source = inner.operands[0];
    if (both == Dims::range(both.size())) return source;
    n.operands[0] = source, n.attributes = both;
    return -1;
  }

  void compose_broadcasts(Node& n) {
    const Node& inner = node(n.operands[0]);
    if (inner.op != Op::broadcast_in_dim) return;
    Dims both;
    for (int64_t dim : std::get<Dims>(inner.attributes)) both.push_back(std::get<Dims>(n.attributes)[dim]);
    n.operands[0] = inner.operands[0], n.attributes = both;
  }

  // --- folding

  // The value of an operand as a constant: its array, or one element that stands for all.
  const Array* known(NodeId id) const {
    if (node(id).op == Op::constant) return &std::get<Array>(node(id).attributes);
    return splat(id);
  }

  void fold(Node& n) {
    if (n.operands.empty() || n.dtype == DType::i64 || n.op == Op::reduce_precision) return;
    const auto constant = [&](NodeId id) { return known(id) != nullptr; };
    if (!std::all_of(n.operands.begin(), n.operands.end(), constant)) return;
    const bool all_splat = std::all_of(n.operands.begin(), n.operands.end(), [&](NodeId id) { return splat(id) != nullptr; });
    if (is_elementwise(n.op)) {
      if (!all_splat && element_count(n.shape) > largest_folded) return;
      become(n, evaluate(n, all_splat));
    } else if (all_splat && (n.op == Op::transpose || n.op == Op::slice || n.op == Op::reverse)) {
      become(n, splat(n.operands[0])->reshaped({}));
    } else if (n.op == Op::reshape && node(n.operands[0]).op == Op::constant) {
      become(n, known(n.operands[0])->reshaped(n.shape));
    }
  }

  // n takes the value, which has n's shape or is the one element of it.
  void become(Node& n, const Array& value) {
    n.operands.clear();
    if (value.shape() == n.shape) {
      n.op = Op::constant, n.attributes = value;
      return;
    }
    Node scalar = n;
    scalar.op = Op::constant, scalar.attributes = value, scalar.shape = {};
    n.operands = {options_.common_subexpressions ? shared(std::move(scalar)) : to_.tape.push(std::move(scalar))};
    n.op = Op::broadcast_in_dim, n.attributes = Dims{};
  }

  // By the same kernels that devices run, so that folding changes no bit.
  Array evaluate(const Node& n, bool one_element) const {
    const Shape shape = one_element ? Shape{} : n.shape;
    Array result(n.dtype, shape);
    host::VectorProgram program;
    std::vector<host::VectorInput> inputs;
    host::VectorOp op = host::vector_op(n, known(n.operands[0])->dtype());
    int* registers[] = {&op.a, &op.b, &op.c};
    for (size_t i = 0; i < n.operands.size(); ++i) {
      const Array* value = known(n.operands[i]);
      program.input_dtypes.push_back(value->dtype());
      inputs.push_back({value->raw(), 0, value->size() == 1 ? 0 : 1});
      *registers[i] = static_cast<int>(i);
    }
    program.inputs = static_cast<int>(inputs.size());
    op.destination = program.inputs;
    program.registers = program.inputs + 1;
    program.ops = {op};
    program.outputs = {op.destination};
    program.output_dtypes = {n.dtype};
    const host::VectorOutput output{result.raw(), 0, 1};
    host::run(program, 1, element_count(shape), inputs, std::span(&output, 1));
    return result;
  }

  const Program& from_;
  PassOptions options_;
  Program to_;
  std::vector<NodeId> at_;
  std::unordered_multimap<size_t, NodeId> seen_;
};

std::vector<char> everything(const Program& p) { return std::vector<char>(static_cast<size_t>(p.tape.size()), 1); }

// Inputs and states stay, used or not: they are the program's signature, and need nothing themselves.
std::vector<char> reachable(const Program& p) {
  std::vector<char> live = live_nodes(p);
  for (const auto& port : p.inputs) live[static_cast<size_t>(port.node)] = 1;
  for (const auto& state : p.states) live[static_cast<size_t>(state.read)] = 1;
  return live;
}

}  // namespace

PassOptions passes_from_text(const std::string& text) {
  if (text == "all") return {};
  PassOptions options{false, false, false, false};
  if (text == "none") return options;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    if (word == "dce") options.dead_code = true;
    else if (word == "cse") options.common_subexpressions = true;
    else if (word == "fold") options.constant_folding = true;
    else if (word == "simplify") options.simplify = true;
    else fail("passes", "unknown pass '", word, "', expected all, none or a choice of dce,cse,fold,simplify");
  }
  return options;
}

std::vector<char> live_nodes(const Program& program) {
  std::vector<char> live(static_cast<size_t>(program.tape.size()), 0);
  for (NodeId root : program.roots()) live[static_cast<size_t>(root)] = 1;
  for (NodeId id = program.tape.size() - 1; id >= 0; --id)
    if (live[static_cast<size_t>(id)])
      for (NodeId operand : program.tape[id].operands) live[static_cast<size_t>(operand)] = 1;
  return live;
}

Program optimize(const Program& program, const PassOptions& options) {
  const PassOptions only_dead_code{options.dead_code, false, false, false};
  const Program flat = inline_calls(program);
  const Program live = Rewriter(flat, only_dead_code).run(options.dead_code ? reachable(flat) : everything(flat));
  Program rewritten = Rewriter(live, options).run(everything(live));
  // What was folded or shared away leaves dead operands behind.
  if (!options.dead_code) return rewritten;
  return Rewriter(rewritten, only_dead_code).run(reachable(rewritten));
}

}  // namespace backbeat
