#include "autodiff/grad.hpp"

#include <algorithm>
#include <array>

#include "autodiff/rules.hpp"

namespace backbeat {

namespace {

// For each node up to y: is it a differentiable function of one of xs?
std::vector<char> differentiable_in(Tensor y, std::span<const Tensor> xs) {
  const Tape& tape = y.tape();
  std::vector<char> depends(static_cast<size_t>(tape.size()), 0);
  for (Tensor x : xs) depends[static_cast<size_t>(x.id())] = 1;
  for (NodeId id = 0; id <= y.id(); ++id) {
    const Node& node = tape[id];
    if (!is_differentiable(node.op) || !is_float(node.dtype)) continue;
    for (NodeId operand : node.operands)
      if (depends[static_cast<size_t>(operand)] && is_float(tape[operand].dtype)) depends[static_cast<size_t>(id)] = 1;
  }
  return depends;
}

Tensor seed(Tensor y, const GradOptions& options) {
  if (!is_float(y.dtype())) fail("grad", "y is ", y, ", only floating-point tensors have derivatives");
  if (!options.cotangent.defined()) {
    if (y.size() != 1) fail("grad", "y is ", y, ": expected a scalar, or a cotangent of y's shape");
    return ones_like(y);
  }
  if (&options.cotangent.tape() != &y.tape()) fail("grad", "the cotangent comes from another tape than y");
  if (options.cotangent.shape() != y.shape() || options.cotangent.dtype() != y.dtype())
    fail("grad", "the cotangent is ", options.cotangent, ", y is ", y);
  return options.cotangent;
}

}  // namespace

Vjp vjp_rule(Op op) {
  static const auto table = [] {
    std::array<Vjp, static_cast<size_t>(Op::count_)> t{};
    for (auto rows : {rules::elementwise(), rules::shape(), rules::contraction()})
      for (const rules::Row& row : rows) t[static_cast<size_t>(row.op)] = row.vjp;
    return t;
  }();
  return table[static_cast<size_t>(op)];
}

std::vector<Tensor> grad(Tensor y, std::span<const Tensor> xs, const GradOptions& options) {
  if (!y.defined()) fail("grad", "y is no tensor");
  Tape& tape = y.tape();
  for (Tensor x : xs) {
    if (!x.defined()) fail("grad", "an x is no tensor");
    if (&x.tape() != &tape) fail("grad", "x is ", x, " on another tape than y: what was recorded outside has no history here");
    if (!is_float(x.dtype())) fail("grad", "x is ", x, ", only floating-point tensors have derivatives");
  }
  const std::vector<char> depends = differentiable_in(y, xs);
  std::vector<Tensor> cotangents(static_cast<size_t>(y.id()) + 1);
  if (depends[static_cast<size_t>(y.id())]) {
    Tape::DerivativeOf label(tape, y.id());
    cotangents[static_cast<size_t>(y.id())] = seed(y, options);
  } else {
    seed(y, options);  // for its errors; what it recorded is dead code
  }

  for (NodeId id = y.id(); id >= 0; --id) {
    const Tensor g = cotangents[static_cast<size_t>(id)];
    if (!g.defined()) continue;
    const Node& node = tape[id];
    if (std::none_of(node.operands.begin(), node.operands.end(),
                     [&](NodeId operand) { return depends[static_cast<size_t>(operand)]; }))
      continue;  // one of xs that depends on no other
    const Vjp rule = vjp_rule(node.op);
    if (!rule) fail("grad", name_of(node.op), " has no derivative rule (node ", id, ", ", Tensor(tape, id), ")");
    Tape::DerivativeOf label(tape, id);
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const NodeId operand = node.operands[i];
      if (!depends[static_cast<size_t>(operand)]) continue;
      const Tensor part = rule({{tape, id}, node}, i, g);
      if (!part.defined()) continue;
      Tensor& total = cotangents[static_cast<size_t>(operand)];
      total = total.defined() ? total + part : part;
    }
  }

  std::vector<Tensor> result;
  for (size_t i = 0; i < xs.size(); ++i) {
    const Tensor x = xs[i];
    Tensor g = x.id() <= y.id() ? cotangents[static_cast<size_t>(x.id())] : Tensor();
    if (!g.defined() && options.unused == Unused::error)
      fail("grad", "y (node ", y.id(), ", ", y, ") does not depend on x number ", i, " (node ", x.id(), ", ", x,
           "): is it unused, detached or outside of the tape? Ask for zeros or none if that is meant");
    if (!g.defined() && options.unused == Unused::zeros) g = zeros_like(x);
    result.push_back(g);
  }
  return result;
}

Tensor grad(Tensor y, Tensor x, const GradOptions& options) { return grad(y, std::span<const Tensor>(&x, 1), options)[0]; }

bool depends_on(Tensor y, Tensor x) {
  if (&y.tape() != &x.tape() || x.id() > y.id()) return false;
  return differentiable_in(y, std::span<const Tensor>(&x, 1))[static_cast<size_t>(y.id())];
}

}  // namespace backbeat
