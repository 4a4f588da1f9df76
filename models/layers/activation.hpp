// Activations beside relu, leaky_relu, tanh and logistic, which engine/ops.hpp has; and softmax.
#pragma once
#include "engine/ops.hpp"

namespace backbeat {

Tensor gelu(Operand x);  // x Phi(x), with erf: Hendrycks and Gimpel 2016
Tensor elu(Operand x);   // x above 0, exp(x) - 1 else: Clevert et al. 2016; derivative 1 at 0, second derivative that of exp
Tensor silu(Operand x);  // x logistic(x): Elfwing et al. 2018
// min(max(0.2 x + 0.5, 0), 1): the gates of PredNet (Keras' hard_sigmoid of the time); derivative 0.2 at the bounds.
Tensor hard_sigmoid(Operand x);

// Over one axis, from x minus its largest element, so that nothing overflows. That element counts as a constant: the
// result does not depend on it, so derivatives of every order are right.
Tensor log_sum_exp(Operand x, int64_t axis);  // the axis disappears
Tensor log_softmax(Operand x, int64_t axis);
Tensor softmax(Operand x, int64_t axis);
// The softmax over the elements where `mask` (bool, broadcast to x as in numpy) holds, 0 elsewhere; all 0 where it holds
// nowhere along the axis.
Tensor masked_softmax(Operand x, Operand mask, int64_t axis);

// What a reduction over `axes` left, along the axes of `shape` that remain: the reduction undone.
Tensor broadcast_back(Operand reduced, const Shape& shape, const Dims& axes);

}  // namespace backbeat
