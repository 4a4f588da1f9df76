// The table of vector-Jacobian products: one row a primitive, one family a file.
#pragma once
#include "engine/ops.hpp"

namespace backbeat {

// The node being differentiated, seen by its rule.
struct Call {
  Tensor y;
  const Node& node;
  Tensor x(size_t i) const { return {y.tape(), node.operands[i]}; }
  template <class T>
  const T& attributes() const { return std::get<T>(node.attributes); }
};

// The cotangent of operand i, recorded, so that it can be differentiated again. An undefined Tensor means: no cotangent.
using Vjp = Tensor (*)(const Call& call, size_t i, Tensor g);

// Null for operations without a rule.
Vjp vjp_rule(Op op);

namespace rules {
struct Row {
  Op op;
  Vjp vjp;
};
std::span<const Row> elementwise();
std::span<const Row> shape();
std::span<const Row> contraction();
}  // namespace rules

}  // namespace backbeat
