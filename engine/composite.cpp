#include "engine/composite.hpp"

#include <algorithm>
#include <map>

#include "engine/ops.hpp"

namespace backbeat {

namespace {

constexpr NodeId none = -1;

std::string joined(const std::string& outer, const std::string& inner) {
  return outer.empty() ? inner : inner.empty() ? outer : outer + '/' + inner;
}

// The nodes since `start` that the results need, on a tape of their own. `captured` receives what they read from outside.
std::shared_ptr<Composite> extract(const std::string& name, Tape& tape, NodeId start, const std::vector<Tensor>& operands,
                                   const std::vector<Tensor>& results, std::vector<Tensor>& captured) {
  std::vector<char> needed(static_cast<size_t>(tape.size()), 0);
  for (Tensor result : results) needed[static_cast<size_t>(result.id())] = 1;
  const auto inside = [&](NodeId id) { return id >= start && tape[id].op != Op::input; };
  for (NodeId id = tape.size() - 1; id >= start; --id) {
    if (!needed[static_cast<size_t>(id)] || !inside(id)) continue;
    for (NodeId operand : tape[id].operands) needed[static_cast<size_t>(operand)] = 1;
    if (const CallDims* inner = std::get_if<CallDims>(&tape[id].attributes)) {  // all of its results, which stay side by side
      const NodeId first = id - static_cast<NodeId>(inner->result);
      for (size_t r = 0; r < inner->composite->results.size(); ++r) needed[static_cast<size_t>(first) + r] = 1;
    }
  }

  auto composite = std::make_shared<Composite>();
  composite->name = name;
  std::vector<NodeId> at(static_cast<size_t>(tape.size()), none);
  const auto add_input = [&](NodeId id) {
    const Node& from = tape[id];
    const NodeId input =
        composite->tape.append(Op::input, {}, InputName{concat("x", composite->inputs.size())}, from.shape, from.dtype);
    composite->tape.node(input).order = from.order;
    composite->inputs.push_back(input);
    at[static_cast<size_t>(id)] = input;
  };
  for (Tensor operand : operands) add_input(operand.id());
  for (NodeId id = 0; id < tape.size(); ++id)
    if (needed[static_cast<size_t>(id)] && !inside(id) && at[static_cast<size_t>(id)] == none) {
      add_input(id);
      captured.push_back({tape, id});
    }

  for (NodeId id = start; id < tape.size(); ++id) {
    if (!needed[static_cast<size_t>(id)] || !inside(id)) continue;
    Node node = tape[id];
    for (NodeId& operand : node.operands) operand = at[static_cast<size_t>(operand)];
    node.scope = composite->tape.intern_scope(tape.scope_of(id));
    at[static_cast<size_t>(id)] = composite->tape.push(std::move(node));
  }
  for (Tensor result : results) composite->results.push_back(at[static_cast<size_t>(result.id())]);
  return composite;
}

void check_operands(const std::string& name, const std::vector<Tensor>& operands) {
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i].defined()) fail("call", name, ": operand ", i, " is no tensor");
    if (&operands[i].tape() != &operands[0].tape()) fail("call", name, ": operand ", i, ", ", operands[i], ", is on another tape");
  }
}

// What a call of these operands has for an order before its body is looked at.
int order_of(const std::vector<Tensor>& operands) {
  int order = operands[0].tape().least_order();
  for (Tensor operand : operands) order = std::max(order, operand.node().order);
  return order;
}

// A result has the order of the node that makes it, which in a body that holds derivatives may be more than that of the
// operands.
std::vector<Tensor> append_call(const std::shared_ptr<const Composite>& composite, const std::vector<Tensor>& operands) {
  Tape& tape = operands[0].tape();
  const int shift = order_of(operands) - composite->order;
  std::vector<NodeId> ids;
  for (Tensor operand : operands) ids.push_back(operand.id());
  std::vector<Tensor> results;
  for (size_t r = 0; r < composite->results.size(); ++r) {
    const Node& result = composite->tape[composite->results[r]];
    const NodeId id = tape.append(Op::call, ids, CallDims{composite, static_cast<int64_t>(r)}, result.shape, result.dtype);
    tape.node(id).order = std::max(0, result.order + shift);
    results.push_back({tape, id});
  }
  return results;
}

// `seen` are the operands as the body saw them.
std::vector<Tensor> record_call(const std::string& name, NodeId start, const std::vector<Tensor>& operands,
                                const std::vector<Tensor>& seen, const std::vector<Tensor>& results, const CallOptions& options) {
  std::vector<Tensor> all = operands, captured;
  const auto composite = extract(name, operands[0].tape(), start, seen, results, captured);
  if ((options.vjp || options.jvp) && !captured.empty())
    fail("call", name, ": has a derivative of its own, so all that the body uses must be an operand; ", captured[0], " (node ",
         captured[0].id(), ") is not");
  composite->recompute = options.recompute, composite->vjp = options.vjp, composite->jvp = options.jvp;
  all.insert(all.end(), captured.begin(), captured.end());
  composite->order = order_of(all), composite->scope = operands[0].tape().current_scope();
  return append_call(composite, all);
}

}  // namespace

std::vector<Tensor> call(const std::string& name, const CompositeBody& body, const std::vector<Tensor>& operands,
                         const CallOptions& options, SourceLine where) {
  if (operands.empty()) fail("call", name, ": expected at least one operand");
  check_operands(name, operands);
  Tape& tape = operands[0].tape();
  // The same tensor twice is two inputs, and each of its uses must tell which: a second one is given another node.
  std::vector<Tensor> seen;
  for (Tensor operand : operands)
    seen.push_back(std::find(seen.begin(), seen.end(), operand) == seen.end() ? operand : optimization_barrier({operand, where}));
  const NodeId start = tape.size();
  const std::vector<Tensor> results = body(seen);
  if (results.empty()) fail("call", name, ": the body has no result");
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].defined()) fail("call", name, ": result ", i, " is no tensor");
    if (&results[i].tape() != &tape) fail("call", name, ": result ", i, ", ", results[i], ", is on another tape than the operands");
  }
  const RecordedAt at(where);
  return record_call(name, start, operands, seen, results, options);
}

std::vector<Tensor> enclose(const std::string& name, NodeId start, const std::vector<Tensor>& operands,
                            const std::vector<Tensor>& results, const CallOptions& options) {
  return record_call(name, start, operands, operands, results, options);
}

std::vector<Tensor> call(std::shared_ptr<const Composite> composite, const std::vector<Tensor>& operands,
                         SourceLine where) {
  if (!composite) fail("call", "there is no composite");
  if (operands.size() != composite->inputs.size())
    fail("call", composite->name, " takes ", composite->inputs.size(), " operands, got ", operands.size());
  check_operands(composite->name, operands);
  for (size_t i = 0; i < operands.size(); ++i) {
    const Node& input = composite->tape[composite->inputs[i]];
    if (operands[i].shape() != input.shape || operands[i].dtype() != input.dtype)
      fail("call", composite->name, ": operand ", i, " is ", operands[i], ", expected ", input.dtype, input.shape);
  }
  const RecordedAt at(where);
  return append_call(composite, operands);
}

namespace {

// A scope inside of `from`, moved to `to`.
std::string moved(const std::string& scope, const std::string& from, const std::string& to) {
  if (from.empty()) return joined(to, scope);
  if (scope == from) return to;
  return scope.rfind(from + '/', 0) == 0 ? joined(to, scope.substr(from.size() + 1)) : scope;
}

}  // namespace

std::vector<NodeId> append_body(Tape& tape, const Node& call, std::span<const NodeId> operands, int serves) {
  const auto& [shared, which] = std::get<CallDims>(call.attributes);
  const Composite& composite = *shared;
  const Tape& body = composite.tape;
  const std::string outer = tape.scopes()[static_cast<size_t>(call.scope)];
  const int shift = call.order - body[composite.results[static_cast<size_t>(which)]].order;
  std::vector<NodeId> at(static_cast<size_t>(body.size()), none);
  for (size_t i = 0; i < composite.inputs.size(); ++i) at[static_cast<size_t>(composite.inputs[i])] = operands[i];
  std::vector<int32_t> scope(body.scopes().size(), -1);
  for (NodeId id = 0; id < body.size(); ++id) {
    if (at[static_cast<size_t>(id)] != none) continue;
    Node node = body[id];
    const bool again = node.serves >= 0;
    // User code has the largest order of its operands. What a derivative appended keeps its order, shifted; what it computes
    // again has that of its operands, and the barrier before it that of what it holds back.
    int order = 0;
    node.from_constants = true;
    for (size_t i = 0; i < node.operands.size(); ++i) {
      NodeId& operand = node.operands[i];
      operand = at[static_cast<size_t>(operand)];
      if (!(again && node.op == Op::optimization_barrier && i > 0)) order = std::max(order, tape[operand].order);
      node.from_constants = node.from_constants && tape[operand].from_constants;
    }
    if (!again && node.derivative) order = std::max(order, node.order + shift);
    else if (!again && call.derivative) order = std::max(order, call.order);
    if (node.from_constants && !call.derivative && !node.derivative) order = 0;
    node.order = order;
    node.derivative = node.derivative || call.derivative;
    if (serves >= 0) node.serves = static_cast<int8_t>(std::min(serves, 127));
    int32_t& path = scope[static_cast<size_t>(node.scope)];
    if (path < 0) path = tape.intern_scope(moved(body.scope_of(id), composite.scope, outer));
    node.scope = path;
    at[static_cast<size_t>(id)] = tape.push(std::move(node));
  }
  std::vector<NodeId> results;
  for (NodeId result : composite.results) results.push_back(at[static_cast<size_t>(result)]);
  return results;
}

Program inline_calls(const Program& program) {
  const auto is_call = [&](NodeId id) { return program.tape[id].op == Op::call; };
  bool any = false;
  for (NodeId id = 0; id < program.tape.size() && !any; ++id) any = is_call(id);
  if (!any) return program;

  Program flat;
  flat.name = program.name;
  flat.tape = Tape::with_scopes_of(program.tape);
  std::vector<NodeId> at(static_cast<size_t>(program.tape.size()), none);
  std::map<std::pair<const Composite*, std::vector<NodeId>>, std::vector<NodeId>> done;
  for (NodeId id = 0; id < program.tape.size(); ++id) {
    Node node = program.tape[id];
    for (NodeId& operand : node.operands) operand = at[static_cast<size_t>(operand)];
    if (!is_call(id)) {
      at[static_cast<size_t>(id)] = flat.tape.push(std::move(node));
      continue;
    }
    const auto [composite, result] = std::get<CallDims>(node.attributes);
    auto& results = done[{composite.get(), node.operands}];
    if (results.empty()) results = append_body(flat.tape, node, node.operands, node.serves);
    at[static_cast<size_t>(id)] = results[static_cast<size_t>(result)];
  }
  const auto there = [&](NodeId id) { return at[static_cast<size_t>(id)]; };
  for (const auto& port : program.inputs) flat.inputs.push_back({port.name, there(port.node)});
  for (const auto& port : program.outputs) flat.outputs.push_back({port.name, there(port.node)});
  for (const auto& s : program.states)
    flat.states.push_back({s.name, there(s.read), s.write ? std::optional(there(*s.write)) : std::nullopt});
  return inline_calls(flat);  // bodies may hold calls
}

}  // namespace backbeat
