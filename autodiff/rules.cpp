#include "autodiff/rules.hpp"

#include <array>

namespace backbeat {

const Rules& rules_of(Op op) {
  static const auto table = [] {
    std::array<Rules, static_cast<size_t>(Op::count_)> t{};
    for (auto family : {rules::elementwise(), rules::shape(), rules::indexing(), rules::window(), rules::contraction(),
                        rules::collective()})
      for (const rules::Row& row : family) t[static_cast<size_t>(row.op)] = {row.vjp, row.jvp};
    return t;
  }();
  return table[static_cast<size_t>(op)];
}

bool carries_derivative(const Node& node, size_t i) {
  switch (node.op) {
    case Op::sort:
    case Op::select_and_scatter:
    case Op::select_and_gather: return i == 1;
    case Op::optimization_barrier: return i == 0;
    default: return true;
  }
}

Tensor Applied::again(std::vector<Tensor> operands) const {
  std::vector<NodeId> ids;
  for (Tensor operand : operands) ids.push_back(operand.id());
  return {y.tape(), y.tape().append(node.op, std::move(ids), node.attributes, node.shape, node.dtype)};
}

namespace rules {

Tensor linear(const Applied& a, std::span<const Tensor> t) {
  std::vector<Tensor> operands;
  for (size_t i = 0; i < t.size(); ++i) {
    const Tensor x = a.x(i);
    const bool moves = carries_derivative(a.node, i) && is_float(x.dtype());
    operands.push_back(!moves ? x : t[i].defined() ? t[i] : zeros_like(x));
  }
  return a.again(std::move(operands));
}

Tensor diagonal(const Applied& a, std::span<const Tensor> t) {
  Tensor total;
  for (size_t i = 0; i < t.size(); ++i) {
    if (!t[i].defined()) continue;
    const Tensor part = rules_of(a.node.op).vjp(a, i, t[i]);
    if (part.defined()) total = total.defined() ? total + part : part;
  }
  return total;
}

}  // namespace rules

}  // namespace backbeat
