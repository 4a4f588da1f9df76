// Normalizations. All but local response norm compute (x - mean) / sqrt(variance + epsilon) over some axes, with the
// variance that divides by the count, and then, with optional parameters, * LAYER/scale + LAYER/offset. They are composed
// of sums and products, so derivatives go through mean and variance to every order. epsilon is 1e-5 in PyTorch and in the
// WGAN-GP code, 1e-3 in Keras.
#pragma once
#include "engine/ops.hpp"
#include "models/parameters.hpp"

namespace backbeat {

// LAYER/scale from 1 and LAYER/offset from 0, of this shape, which is broadcast to x as in numpy.
std::vector<ParameterSpec> norm_parameters(const std::string& layer, const Shape& shape);

// Over any axes: {1} for a dense layer, {1, 2, 3} for the critic of the WGAN-GP code on images. Ba et al. 2016.
Tensor layer_norm(const Parameters& p, const std::string& layer, Tensor x, const Dims& axes, double epsilon = 1e-5);
// x [n, ..., c]: for each sample over all positions and the c / groups channels of a group. Wu and He 2018.
Tensor group_norm(const Parameters& p, const std::string& layer, Tensor x, int64_t groups, double epsilon = 1e-5);
// x [n, ..., c]: for each sample and channel over all positions. Ulyanov et al. 2016.
Tensor instance_norm(const Parameters& p, const std::string& layer, Tensor x, double epsilon = 1e-5);

// --- batch norm, Ioffe and Szegedy 2015: x [n, ..., c], for each channel over everything else
struct BatchNorm {
  double epsilon = 1e-5;
  double decay = 0.9;  // of the moving averages; 1 - PyTorch's momentum. Keras: 0.99
};
// Those of norm_parameters {c}, and LAYER/moving_mean [c] from 0 and LAYER/moving_variance [c] from 1, not trained.
std::vector<ParameterSpec> batch_norm_parameters(const std::string& layer, int64_t channels);
// With the statistics of the batch. The averages are left alone: a critic sees several batches in one step.
Tensor batch_norm(const Parameters& p, const std::string& layer, Tensor x, double epsilon = 1e-5);
// The same, and average = decay * average + (1 - decay) * statistic, with the variance that divides by count - 1 (as
// PyTorch and TensorFlow's fused kernel); once a Program.
Tensor batch_norm_training(Recorder& r, const Parameters& p, const std::string& layer, Tensor x, const BatchNorm& options = {});
// With the averages.
Tensor batch_norm_inference(const Parameters& p, const std::string& layer, Tensor x, double epsilon = 1e-5);

// --- local response norm, Krizhevsky et al. 2012 as TensorFlow computes it: x [..., c] over
// (bias + alpha * sum of x^2 over the channels at most `radius` away)^beta. Defaults: TensorFlow's CIFAR-10 tutorial.
struct LocalResponseNorm {
  int64_t radius = 4;
  double bias = 1, alpha = 0.001 / 9, beta = 0.75;
};
Tensor local_response_norm(Operand x, const LocalResponseNorm& options = {});

}  // namespace backbeat
