// Optimizers: they record the update of a network's parameters, under the scope "optimizer". Their own state is named
// after what it belongs to, "optimizer/critic/dense_1/weight/first_moment", and has its dtype, f32 beside halves; "optimizer/critic/updates"
// counts the updates.
#pragma once
#include <variant>

#include "models/parameters.hpp"
#include "models/schedules.hpp"

namespace backbeat {

// Kingma and Ba 2015, as PyTorch and Keras: m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2,
// w -= rate * m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon).
// TensorFlow 1 adds its epsilon to the uncorrected root instead: there it is this epsilon * sqrt(1 - beta2^t).
struct Adam {
  Schedule rate = 1e-4;
  double beta1 = 0.5, beta2 = 0.9, epsilon = 1e-8;
};
// Loshchilov and Hutter 2019, as PyTorch: first w -= rate * decay * w, then Adam. Decayed are parameters of two and more
// dimensions: kernels and matrices, not biases nor the scales and offsets of norms.
struct AdamW {
  Schedule rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, decay = 0.01;
};
// v = momentum * v + g; w -= rate * v: PyTorch and TensorFlow alike while the rate is constant, TensorFlow where it is not.
struct Sgd {
  Schedule rate = 1e-3;
  double momentum = 0;
};
// s = decay * s + (1 - decay) * g^2; then each weight is clipped to +-clip (0: never). The two forms differ in the root:
//   pytorch:     w -= rate * g / (sqrt(s) + epsilon), s from 0
//   tensorflow1: w -= rate * g / sqrt(s + epsilon),   s from 1 (tf.train.RMSPropOptimizer, whose epsilon is 1e-10)
enum class RmsForm : uint8_t { pytorch, tensorflow1 };
struct RmsProp {
  Schedule rate = 5e-5;
  double decay = 0.9, epsilon = 1e-8, clip = 0;
  RmsForm form = RmsForm::pytorch;
};
using Optimizer = std::variant<Adam, Sgd, RmsProp, AdamW>;

// Records the update; the new values in the order of p.tensors(). The state it needs is created by initialize_optimizer.
std::vector<Tensor> update(Recorder& recorder, const Parameters& p, const std::vector<Tensor>& gradients,
                           const Optimizer& optimizer);
void initialize_optimizer(StateStore& store, const std::string& network, const std::vector<ParameterSpec>& specs,
                          const Optimizer& optimizer, DType dtype = DType::f32);

// In words, for a checkpoint's recipe.
std::string describe(const Optimizer& optimizer);

// The norm of all gradients together.
Tensor global_norm(const std::vector<Tensor>& gradients);
// Each gradient times limit / max(norm, limit), with the norm of all together: TensorFlow's clip_by_global_norm.
std::vector<Tensor> clip_by_global_norm(const std::vector<Tensor>& gradients, double limit);

}  // namespace backbeat
