// Critic and generator of the original WGAN-GP code: the toy and the MNIST model (Gulrajani et al. 2017).
#pragma once
#include <functional>

#include "models/layers.hpp"

namespace backbeat::wgan_gp {

enum class Activation { relu, leaky_relu, tanh };
Activation activation_from_name(const std::string& name);  // relu, leaky-relu, tanh
std::string_view name_of(Activation activation);

struct Network {
  std::vector<ParameterSpec> parameters;
  std::function<Tensor(const Parameters&, Tensor)> apply;
};

struct Networks {
  Network critic;     // [batch, sample...] -> [batch, 1]
  Network generator;  // [batch, noise] -> [batch, sample...]
  Shape sample_shape;
  int64_t noise = 0;
};

// Critic 2-512-512-512-1 and generator 2-512-512-512-2: 527,361 and 527,874 parameters.
Networks toy(Activation activation, Precision precision, int64_t width = 512);
// Critic: 5x5 stride 2 convolutions 1-64-128-256, linear 4096-1: 1,030,145 parameters. Generator: 128-4096, transposed
// convolutions 256-128-64-1: 1,554,177 parameters. Samples are [batch, 28, 28, 1] in 0 ... 1.
Networks image(Precision precision);

int64_t parameter_count(const Network& network);

}  // namespace backbeat::wgan_gp
