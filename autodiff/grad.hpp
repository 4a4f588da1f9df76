// Differentiation: the derivative is appended to the same tape, in the same primitives, so a derivative of any order is a
// derivative of a derivative. grad, vjp walk the tape backwards, jvp walks it forwards.
#pragma once
#include <functional>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include "engine/composite.hpp"
#include "engine/ops.hpp"

namespace backbeat {

// What to do about an x that y does not depend on: throw; answer with an undefined Tensor ("no cotangent"); or with zeros.
enum class Unused { error, none, zeros };

struct GradOptions {
  Tensor cotangent = {};  // of y; may be left out when y has one element
  Unused unused = Unused::error;
};

// --- reverse mode
// dy/dx for each x, in the shape and dtype of x. Zero products are never recorded: where no cotangent arrives, none is made.
std::vector<Tensor> grad(Tensor y, std::span<const Tensor> xs, const GradOptions& options = {});
inline std::vector<Tensor> grad(Tensor y, std::initializer_list<Tensor> xs, const GradOptions& options = {}) {
  return grad(y, std::span(xs.begin(), xs.size()), options);
}
Tensor grad(Tensor y, Tensor x, const GradOptions& options = {});
// The same of several ys at once, one cotangent each; an undefined cotangent is none.
std::vector<Tensor> vjp(std::span<const Tensor> ys, std::span<const Tensor> cotangents, std::span<const Tensor> xs,
                        Unused unused = Unused::error);

using ScalarFunction = std::function<Tensor(const std::vector<Tensor>&)>;
std::pair<Tensor, std::vector<Tensor>> value_and_grad(const ScalarFunction& f, const std::vector<Tensor>& xs);

// --- forward mode
// The derivative of each y in the direction of the tangents, one an x of its shape and dtype; an undefined tangent is zero.
// An x that depends on another moves with it too, as grad counts the ways through it: <u, jvp(v)> = <v, vjp(u)>.
std::vector<Tensor> jvp(std::span<const Tensor> ys, std::span<const Tensor> xs, std::span<const Tensor> tangents,
                        Unused unused = Unused::zeros);
Tensor jvp(Tensor y, Tensor x, Tensor tangent, Unused unused = Unused::zeros);

// --- composed of the two
// The Hessian of the scalar y times v, forward over reverse: about twice the cost of a gradient.
std::vector<Tensor> hvp(Tensor y, std::span<const Tensor> xs, std::span<const Tensor> vs);
Tensor hvp(Tensor y, Tensor x, Tensor v);
// Of shape [y..., x...]: a vjp for each element of y, or a jvp for each of x, whichever are fewer, all of them recorded.
Tensor jacobian(Operand y, Tensor x);
Tensor hessian(Operand y, Tensor x);  // of a scalar: [x..., x...]

// f(xs), of which the backward pass keeps nothing: it computes f again once the cotangent is there. Recomputed nodes are
// labelled with the phase `recompute` and the order that they serve. Tensors that f uses beside xs are kept like these.
std::vector<Tensor> checkpoint(const CompositeBody& f, const std::vector<Tensor>& xs,
                               SourceLine where = SourceLine::here());

// Whether y is a differentiable function of x as the tape records it.
bool depends_on(Tensor y, Tensor x);

}  // namespace backbeat
