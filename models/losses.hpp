// Losses, one number a sample or element, so that the caller chooses the mean; and that mean.
#pragma once
#include "engine/ops.hpp"

namespace backbeat {

// logits [n, classes], labels integers [n] -> [n]: -log softmax(logits)[label]. A label outside of the classes gives NaN.
Tensor softmax_cross_entropy(Operand logits, Operand labels);
// logits and targets [n, classes] of one dtype -> [n]: -sum of target * log softmax(logits).
Tensor soft_cross_entropy(Operand logits, Operand targets);
// Elementwise -(t log logistic(x) + (1 - t) log(1 - logistic(x))), from softplus of -x and x: exact where logistic(x) rounds
// to 0 or 1, and smooth at 0, where the form with |x| loses its second derivative.
Tensor binary_cross_entropy(Operand logits, Operand targets);
Tensor squared_error(Operand prediction, Operand target);  // elementwise

// The mean of values [n, ...] over the first `count` samples (an integer []): the last batch of a data set, padded. What is
// behind counts 0, even NaN. No sample at all: 0.
Tensor masked_mean(Operand values, Operand count);

// sum(w^2) / 2 of every weight, times `decay`: the TensorFlow CIFAR-10 tutorial adds 0.004 of it for its two local layers.
Tensor l2_loss(const std::vector<Tensor>& weights, double decay);

}  // namespace backbeat
