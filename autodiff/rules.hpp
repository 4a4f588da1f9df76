// The table of derivative rules: one row a primitive, one family a file.
#pragma once
#include <span>

#include "engine/ops.hpp"

namespace backbeat {

// The node being differentiated, seen by its rule.
struct Applied {
  Tensor y;
  const Node& node;
  Tensor x(size_t i) const { return {y.tape(), node.operands[i]}; }
  template <class T>
  const T& attributes() const { return std::get<T>(node.attributes); }
  // The same operation on other operands of the same shapes: what a linear operation does to tangents.
  Tensor again(std::vector<Tensor> operands) const;
};

// The cotangent of operand i, recorded, so that it can be differentiated again. An undefined Tensor means: no cotangent.
using Vjp = Tensor (*)(const Applied& a, size_t i, Tensor g);
// The tangent of y from those of the operands, where an undefined Tensor is a zero.
using Jvp = Tensor (*)(const Applied& a, std::span<const Tensor> t);

struct Rules {
  Vjp vjp = nullptr;  // null: no rule
  Jvp jvp = nullptr;
};
const Rules& rules_of(Op op);

// Whether y is a differentiable function of operand i; the keys of a sort, for one, only say where things go.
bool carries_derivative(const Node& node, size_t i);

namespace rules {

struct Row {
  Op op;
  Vjp vjp;
  Jvp jvp;
};
std::span<const Row> elementwise();
std::span<const Row> shape();
std::span<const Row> indexing();
std::span<const Row> window();
std::span<const Row> contraction();
std::span<const Row> collective();

// Tangents of what is linear in all of its operands that carry derivatives: the operation again, zeros for those without.
Tensor linear(const Applied& a, std::span<const Tensor> t);
// Tangents of an elementwise operation: its Jacobian is diagonal, so the row's own vjp maps tangents as well as cotangents.
Tensor diagonal(const Applied& a, std::span<const Tensor> t);

}  // namespace rules

}  // namespace backbeat
