// The two walks. A call is differentiated by its own derivative, or by appending its body and walking that.
#include "autodiff/grad.hpp"

#include <algorithm>

#include "autodiff/rules.hpp"

namespace backbeat {

namespace {

// Values by node of a stretch of the tape, and of a few nodes before it.
template <class T>
class ByNode {
 public:
  ByNode(NodeId first, NodeId end, std::span<const Tensor> before) : first_(first), stretch_(static_cast<size_t>(end - first)) {
    for (Tensor x : before)
      if (x.id() < first) before_.push_back({x.id(), T{}});
  }
  // Null for a node before the stretch that was not named.
  T* find(NodeId id) {
    if (id >= first_) return &stretch_[static_cast<size_t>(id - first_)];
    for (auto& [known, value] : before_)
      if (known == id) return &value;
    return nullptr;
  }

 private:
  NodeId first_;
  std::vector<T> stretch_;
  std::vector<std::pair<NodeId, T>> before_;
};

// Which nodes of [first, end) are differentiable functions of one of xs.
class Dependence {
 public:
  Dependence(const Tape& tape, NodeId first, NodeId end, std::span<const Tensor> xs) : depends_(first, end, xs) {
    for (Tensor x : xs)
      if (x.id() < end) *depends_.find(x.id()) = 1;
    for (NodeId id = first; id < end; ++id) {
      const Node& node = tape[id];
      if (!is_float(node.dtype)) continue;
      for (size_t i = 0; i < node.operands.size(); ++i)
        if (of(tape, node, i)) *depends_.find(id) = 1;
    }
  }
  bool of(NodeId id) {
    const char* found = depends_.find(id);
    return found && *found;
  }
  bool of(const Tape& tape, const Node& node, size_t i) {
    return is_differentiable(node.op) && of(node.operands[i]) && is_float(tape[node.operands[i]].dtype) && carries_derivative(node, i);
  }

 private:
  ByNode<char> depends_;
};

// All results of a call: their nodes follow one another.
struct CallGroup {
  NodeId first;
  size_t count;
  const Composite& composite;

  static CallGroup of(const Tape& tape, NodeId id) {
    const auto& [composite, result] = std::get<CallDims>(tape[id].attributes);
    return {id - static_cast<NodeId>(result), composite->results.size(), *composite};
  }
};

std::vector<Tensor> tensors(Tape& tape, std::span<const NodeId> ids) {
  std::vector<Tensor> result;
  for (NodeId id : ids) result.push_back({tape, id});
  return result;
}

std::vector<Tensor> results_of(Tape& tape, const CallGroup& group) {
  std::vector<Tensor> result;
  for (size_t i = 0; i < group.count; ++i) result.push_back({tape, group.first + static_cast<NodeId>(i)});
  return result;
}

void check_answers(const Composite& composite, const char* what, const std::vector<Tensor>& answers, const std::vector<Tensor>& like) {
  if (answers.size() != like.size())
    fail("call", composite.name, ": its own ", what, " gives ", answers.size(), " tensors, expected ", like.size());
  for (size_t i = 0; i < like.size(); ++i)
    if (answers[i].defined()) {
      if (&answers[i].tape() != &like[i].tape())
        fail("call", composite.name, ": its own ", what, " number ", i, ", ", answers[i], ", is on another tape than the call");
      if (answers[i].shape() != like[i].shape() || answers[i].dtype() != like[i].dtype())
        fail("call", composite.name, ": its own ", what, " number ", i, " is ", answers[i], ", expected ", like[i]);
    }
}

void accumulate(Tensor& total, Tensor part) {
  if (part.defined()) total = total.defined() ? total + part : part;
}

// Whether an operand was there before: its derivative counts once.
bool repeats(const std::vector<NodeId>& operands, size_t i) {
  return std::find(operands.begin(), operands.begin() + static_cast<std::ptrdiff_t>(i), operands[i]) !=
         operands.begin() + static_cast<std::ptrdiff_t>(i);
}

using Seeds = std::vector<std::pair<Tensor, Tensor>>;  // y, cotangent

std::vector<Tensor> pull_back(Tape& tape, NodeId first, const Seeds& seeds, std::span<const Tensor> xs);

// The operands of a body that is computed again: the same values, but not before the cotangents are there, and not shared
// with those of the first time. Their labels are those of the operands.
std::vector<NodeId> behind_barrier(Tape& tape, const std::vector<NodeId>& operands, const std::vector<Tensor>& seeds, int serves) {
  std::vector<NodeId> ids;
  for (NodeId id : operands) {
    Node node = tape[id];
    node.op = Op::optimization_barrier, node.attributes = {}, node.operands = {id}, node.serves = static_cast<int8_t>(serves);
    for (Tensor seed : seeds)
      if (seed.defined()) node.operands.push_back(seed.id());
    ids.push_back(tape.push(std::move(node)));
  }
  return ids;
}

// Appends the body of a call on these operands, and the walk back through it.
std::vector<Tensor> pull_back_body(Tape& tape, const Node& call, const std::vector<NodeId>& operands, const std::vector<Tensor>& seeds,
                                   int serves) {
  const NodeId first = tape.size();
  const std::vector<NodeId> results = append_body(tape, call, operands, serves);
  Seeds body_seeds;
  for (size_t i = 0; i < seeds.size(); ++i)
    if (seeds[i].defined()) body_seeds.push_back({Tensor(tape, results[i]), seeds[i]});
  return pull_back(tape, first, body_seeds, tensors(tape, operands));
}

// The same of a body that is computed again. It and the walk back through it are a call of their own, which a further
// derivative computes again as a whole: so nothing is kept from one pass to the next at any order.
std::vector<Tensor> pull_back_again(Tape& tape, const CallGroup& group, const std::vector<Tensor>& seeds) {
  const Node& call = tape[group.first];
  int serves = 0;
  std::vector<Tensor> operands;
  const auto add = [&](Tensor t) {
    if (std::find(operands.begin(), operands.end(), t) == operands.end()) operands.push_back(t);
  };
  for (NodeId id : call.operands) add({tape, id});
  for (size_t i = 0; i < seeds.size(); ++i) {
    if (!seeds[i].defined()) continue;
    add(seeds[i]);
    serves = std::max({serves, tape[group.first + static_cast<NodeId>(i)].order + 1, seeds[i].node().order});
  }

  const NodeId start = tape.size();
  const std::vector<Tensor> parts = pull_back_body(tape, call, behind_barrier(tape, call.operands, seeds, serves), seeds, serves);
  std::vector<Tensor> results, answers(parts.size());
  for (Tensor part : parts)
    if (part.defined()) results.push_back(part);
  if (results.empty()) return answers;
  const Tape::DerivativeOf label(tape, group.first);
  const std::vector<Tensor> called = enclose(group.composite.name, start, operands, results, {.recompute = true, .vjp = {}, .jvp = {}});
  for (size_t i = 0, r = 0; i < parts.size(); ++i)
    if (parts[i].defined()) answers[i] = called[r++];
  return answers;
}

// The cotangents of a call's operands.
std::vector<Tensor> pull_back_call(Tape& tape, const CallGroup& group, const std::vector<Tensor>& seeds) {
  const Node& call = tape[group.first];
  const std::vector<Tensor> operands = tensors(tape, call.operands);
  if (group.composite.vjp) {
    const Tape::DerivativeOf label(tape, group.first);
    auto answers = group.composite.vjp({operands, results_of(tape, group), seeds});
    check_answers(group.composite, "vjp", answers, operands);
    return answers;
  }
  if (group.composite.recompute) return pull_back_again(tape, group, seeds);
  std::vector<Tensor> answers = pull_back_body(tape, call, call.operands, seeds, -1);
  for (size_t i = 0; i < answers.size(); ++i)
    if (repeats(call.operands, i)) answers[i] = {};
  return answers;
}

// Walks [first, last seed] backwards. xs may lie before `first`; nothing else there is differentiated.
std::vector<Tensor> pull_back(Tape& tape, NodeId first, const Seeds& seeds, std::span<const Tensor> xs) {
  NodeId end = first;
  for (const auto& [y, g] : seeds) end = std::max(end, y.id() + 1);
  Dependence depends(tape, first, end, xs);
  ByNode<Tensor> cotangents(first, end, xs);
  for (const auto& [y, g] : seeds)
    if (Tensor* total = depends.of(y.id()) ? cotangents.find(y.id()) : nullptr) {
      const Tape::DerivativeOf label(tape, y.id());
      accumulate(*total, g);
    }

  for (NodeId id = end - 1; id >= first; --id) {
    const Tensor g = *cotangents.find(id);
    if (!g.defined()) continue;
    const Node& node = tape[id];
    bool any = false;
    for (size_t i = 0; i < node.operands.size() && !any; ++i) any = depends.of(tape, node, i);
    if (!any) continue;  // one of xs that depends on no other

    if (node.op == Op::call) {
      const CallGroup group = CallGroup::of(tape, id);
      std::vector<Tensor> group_seeds;
      for (Tensor result : results_of(tape, group)) group_seeds.push_back(result.id() < end ? *cotangents.find(result.id()) : Tensor());
      const std::vector<Tensor> parts = pull_back_call(tape, group, group_seeds);
      const Tape::DerivativeOf label(tape, id);
      for (size_t i = 0; i < parts.size(); ++i)
        if (depends.of(tape, node, i)) accumulate(*cotangents.find(node.operands[i]), parts[i]);
      id = group.first;  // the others of the group are done with this one
      continue;
    }

    const Vjp rule = rules_of(node.op).vjp;
    if (!rule) fail("grad", name_of(node.op), " has no derivative rule (node ", id, ", ", Tensor(tape, id), ")");
    const Tape::DerivativeOf label(tape, id);
    for (size_t i = 0; i < node.operands.size(); ++i)
      if (depends.of(tape, node, i)) accumulate(*cotangents.find(node.operands[i]), rule({{tape, id}, node}, i, g));
  }

  std::vector<Tensor> result;
  for (Tensor x : xs) result.push_back(x.id() < end ? *cotangents.find(x.id()) : Tensor());
  return result;
}

// --- forward

std::vector<Tensor> push_forward(Tape& tape, NodeId first, std::span<const Tensor> ys, std::span<const Tensor> xs,
                                 std::span<const Tensor> tangents);

std::vector<Tensor> push_forward_call(Tape& tape, const CallGroup& group, std::vector<Tensor> tangents) {
  const Node& call = tape[group.first];
  const std::vector<Tensor> operands = tensors(tape, call.operands);
  if (group.composite.jvp) {
    const Tape::DerivativeOf label(tape, group.first);
    auto answers = group.composite.jvp({operands, results_of(tape, group), tangents});
    check_answers(group.composite, "jvp", answers, results_of(tape, group));
    return answers;
  }
  if (group.composite.vjp)
    fail("jvp", "call ", group.composite.name, " states its own vjp but no jvp (node ", group.first, ")");
  for (size_t i = 0; i < tangents.size(); ++i)
    if (repeats(call.operands, i)) tangents[i] = {};
  const NodeId first = tape.size();
  const std::vector<NodeId> results = append_body(tape, call, call.operands);
  return push_forward(tape, first, tensors(tape, results), operands, tangents);
}

std::vector<Tensor> push_forward(Tape& tape, NodeId first, std::span<const Tensor> ys, std::span<const Tensor> xs,
                                 std::span<const Tensor> tangents) {
  NodeId end = first;
  for (Tensor y : ys) end = std::max(end, y.id() + 1);
  Dependence depends(tape, first, end, xs);
  // Only what the ys are made of has a tangent.
  std::vector<char> needed(static_cast<size_t>(end - first), 0);
  for (Tensor y : ys)
    if (y.id() >= first) needed[static_cast<size_t>(y.id() - first)] = 1;
  for (NodeId id = end - 1; id >= first; --id)
    if (needed[static_cast<size_t>(id - first)])
      for (NodeId operand : tape[id].operands)
        if (operand >= first) needed[static_cast<size_t>(operand - first)] = 1;
  ByNode<Tensor> tangent(first, end, xs);
  for (size_t i = 0; i < xs.size(); ++i)
    if (xs[i].id() < end && tangents[i].defined()) accumulate(*tangent.find(xs[i].id()), tangents[i]);

  // One of xs that depends on others moves with them, beside its own tangent: the transpose of what grad gives.
  NodeId next = first;  // behind the last call
  for (NodeId id = first; id < end; ++id) {
    const Node& node = tape[id];
    if (id < next || !needed[static_cast<size_t>(id - first)] || !depends.of(id)) continue;
    std::vector<Tensor> t;
    bool any = false;
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const bool moves = depends.of(tape, node, i);
      t.push_back(moves ? *tangent.find(node.operands[i]) : Tensor());
      any = any || t.back().defined();
    }
    if (!any) continue;
    if (node.op == Op::call) {
      const CallGroup group = CallGroup::of(tape, id);
      const std::vector<Tensor> parts = push_forward_call(tape, group, t);
      next = group.first + static_cast<NodeId>(parts.size());  // the others of the group have theirs now
      const Tape::DerivativeOf label(tape, id);
      for (size_t i = 0; i < parts.size(); ++i)
        if (const NodeId result = group.first + static_cast<NodeId>(i); result < end) accumulate(*tangent.find(result), parts[i]);
      continue;
    }
    const Jvp rule = rules_of(node.op).jvp;
    if (!rule) fail("jvp", name_of(node.op), " has no derivative rule (node ", id, ", ", Tensor(tape, id), ")");
    const Tape::DerivativeOf label(tape, id);
    accumulate(*tangent.find(id), rule({{tape, id}, node}, t));
  }

  std::vector<Tensor> result;
  for (Tensor y : ys) {
    const Tensor* found = tangent.find(y.id());
    result.push_back(found ? *found : Tensor());
  }
  return result;
}

// --- requests

void check_xs(const char* where, const Tape& tape, std::span<const Tensor> xs) {
  for (Tensor x : xs) {
    if (!x.defined()) fail(where, "an x is no tensor");
    if (&x.tape() != &tape) fail(where, "x is ", x, " on another tape than y: what was recorded outside has no history here");
    if (!is_float(x.dtype())) fail(where, "x is ", x, ", only floating-point tensors have derivatives");
  }
}

void check_y(const char* where, Tensor y, Tensor first) {
  if (!y.defined() || !first.defined()) fail(where, "y is no tensor");
  if (&y.tape() != &first.tape()) fail(where, "y is ", y, " on another tape than the first y");
  if (!is_float(y.dtype())) fail(where, "y is ", y, ", only floating-point tensors have derivatives");
}

void check_like(const char* where, const char* what, Tensor t, const char* of, Tensor x) {
  if (&t.tape() != &x.tape()) fail(where, "the ", what, " comes from another tape than ", of);
  if (t.shape() != x.shape() || t.dtype() != x.dtype()) fail(where, "the ", what, " is ", t, ", ", of, " is ", x);
}

std::vector<Tensor> answered(const char* where, const std::string& y, std::vector<Tensor> answers, std::span<const Tensor> xs,
                             Unused unused) {
  for (size_t i = 0; i < xs.size(); ++i) {
    if (answers[i].defined() || unused == Unused::none) continue;
    if (unused == Unused::error)
      fail(where, "y (", y, ") does not depend on x number ", i, " (node ", xs[i].id(), ", ", xs[i],
           "): is it unused, detached or outside of the tape? Ask for zeros or none if that is meant");
    answers[i] = zeros_like(xs[i]);
  }
  return answers;
}

std::string named(Tensor y) { return concat("node ", y.id(), ", ", y); }

}  // namespace

std::vector<Tensor> grad(Tensor y, std::span<const Tensor> xs, const GradOptions& options) {
  check_y("grad", y, y);
  Tape& tape = y.tape();
  check_xs("grad", tape, xs);
  Tensor cotangent = options.cotangent;
  if (cotangent.defined()) {
    check_like("grad", "cotangent", cotangent, "y", y);
  } else {
    if (y.size() != 1) fail("grad", "y is ", y, ": expected a scalar, or a cotangent of y's shape");
    const Tape::DerivativeOf label(tape, y.id());
    cotangent = ones_like(y);
  }
  return answered("grad", named(y), pull_back(tape, 0, {{y, cotangent}}, xs), xs, options.unused);
}

Tensor grad(Tensor y, Tensor x, const GradOptions& options) { return grad(y, std::span<const Tensor>(&x, 1), options)[0]; }

std::vector<Tensor> vjp(std::span<const Tensor> ys, std::span<const Tensor> cotangents, std::span<const Tensor> xs, Unused unused) {
  if (ys.empty()) fail("vjp", "expected at least one y");
  if (ys.size() != cotangents.size()) fail("vjp", ys.size(), " ys have ", cotangents.size(), " cotangents, expected one each");
  Seeds seeds;
  for (size_t i = 0; i < ys.size(); ++i) {
    check_y("vjp", ys[i], ys[0]);
    if (!cotangents[i].defined()) continue;
    check_like("vjp", "cotangent", cotangents[i], "y", ys[i]);
    seeds.push_back({ys[i], cotangents[i]});
  }
  check_xs("vjp", ys[0].tape(), xs);
  return answered("vjp", concat(ys.size(), " tensors"), pull_back(ys[0].tape(), 0, seeds, xs), xs, unused);
}

std::pair<Tensor, std::vector<Tensor>> value_and_grad(const ScalarFunction& f, const std::vector<Tensor>& xs) {
  const Tensor y = f(xs);
  return {y, grad(y, xs)};
}

std::vector<Tensor> jvp(std::span<const Tensor> ys, std::span<const Tensor> xs, std::span<const Tensor> tangents, Unused unused) {
  if (ys.empty()) fail("jvp", "expected at least one y");
  if (xs.size() != tangents.size()) fail("jvp", xs.size(), " xs have ", tangents.size(), " tangents, expected one each");
  for (Tensor y : ys) check_y("jvp", y, ys[0]);
  Tape& tape = ys[0].tape();
  check_xs("jvp", tape, xs);
  for (size_t i = 0; i < xs.size(); ++i)
    if (tangents[i].defined()) check_like("jvp", "tangent", tangents[i], "x", xs[i]);
  std::vector<Tensor> answers = push_forward(tape, 0, ys, xs, tangents);
  for (size_t i = 0; i < ys.size(); ++i) {
    if (answers[i].defined() || unused == Unused::none) continue;
    if (unused == Unused::error) fail("jvp", "y number ", i, " (", named(ys[i]), ") depends on none of the xs that have a tangent");
    answers[i] = zeros_like(ys[i]);
  }
  return answers;
}

Tensor jvp(Tensor y, Tensor x, Tensor tangent, Unused unused) {
  return jvp(std::span<const Tensor>(&y, 1), std::span<const Tensor>(&x, 1), std::span<const Tensor>(&tangent, 1), unused)[0];
}

bool depends_on(Tensor y, Tensor x) {
  if (&y.tape() != &x.tape() || x.id() > y.id()) return false;
  return Dependence(y.tape(), 0, y.id() + 1, std::span<const Tensor>(&x, 1)).of(y.id());
}

}  // namespace backbeat
