// Optimizers: they record the update of a network's parameters, under the scope "optimizer". Their own state is named
// after what it belongs to: "optimizer/critic/dense_1/weight/first_moment".
#pragma once
#include <variant>

#include "models/layers.hpp"

namespace backbeat {

// Kingma and Ba 2015: w -= rate * m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon)
struct Adam {
  double rate = 1e-4, beta1 = 0.5, beta2 = 0.9, epsilon = 1e-8;
};
// v = momentum * v + g; w -= rate * v
struct Sgd {
  double rate = 1e-3, momentum = 0;
};
// s = decay * s + (1 - decay) * g^2; w -= rate * g / (sqrt(s) + epsilon); then each weight is clipped to +-clip (0: never)
struct RmsProp {
  double rate = 5e-5, decay = 0.9, epsilon = 1e-8, clip = 0;
};
using Optimizer = std::variant<Adam, Sgd, RmsProp>;

// Records the update. The state it needs is created by initialize_optimizer.
void update(Recorder& recorder, const Parameters& p, const std::vector<Tensor>& gradients, const Optimizer& optimizer);
void initialize_optimizer(StateStore& store, const std::string& network, const std::vector<ParameterSpec>& specs,
                          const Optimizer& optimizer);

}  // namespace backbeat
