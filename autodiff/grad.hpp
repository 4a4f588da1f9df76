// Reverse-mode differentiation: grad walks the tape backwards and appends the derivative to the same tape, in the same
// primitives. A derivative of any order is a grad of a grad.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "engine/ops.hpp"

namespace backbeat {

// What to do about an x that y does not depend on: throw; answer with an undefined Tensor ("no cotangent"); or with zeros.
enum class Unused { error, none, zeros };

struct GradOptions {
  Tensor cotangent = {};  // of y; may be left out when y has one element
  Unused unused = Unused::error;
};

// dy/dx for each x, in the shape and dtype of x. Zero products are never recorded: where no cotangent arrives, none is made.
std::vector<Tensor> grad(Tensor y, std::span<const Tensor> xs, const GradOptions& options = {});
Tensor grad(Tensor y, Tensor x, const GradOptions& options = {});

// Whether y is a differentiable function of x as the tape records it.
bool depends_on(Tensor y, Tensor x);

}  // namespace backbeat
