// Layers: functions of a tensor and of named parameters. Images are [batch, height, width, channels].
#pragma once
#include <string>
#include <vector>

#include "engine/program.hpp"

namespace backbeat {

// How a parameter starts: zeros, or uniform with this standard deviation (limits +-sqrt(3) deviations).
struct ParameterSpec {
  std::string name;
  Shape shape;
  double deviation = 0;
};

// A network's parameters in one Program: state named "critic/dense_1/weight" and so on.
class Parameters {
 public:
  Parameters(Recorder& recorder, std::string network, const std::vector<ParameterSpec>& specs);
  Tensor operator()(const std::string& name) const;  // Error for a name that the network does not have
  const std::string& network() const { return network_; }
  const std::vector<std::string>& names() const { return names_; }  // full state names, in the order of the specs
  const std::vector<Tensor>& tensors() const { return tensors_; }

 private:
  std::string network_;
  std::vector<std::string> names_;
  std::vector<Tensor> tensors_;
};

// Initial values, a pure function of the seed and the parameter's full name.
void initialize(StateStore& store, const std::string& network, const std::vector<ParameterSpec>& specs, uint64_t seed);

// Standard deviations of the original WGAN-GP code. fan_out of a convolution is divided by stride^2, fan_in of a
// transposed one likewise.
double he_deviation(int64_t fan_in);                        // sqrt(2 / fan_in)
double glorot_deviation(double fan_in, double fan_out);     // sqrt(2 / (fan_in + fan_out))
double he_glorot_deviation(double fan_in, double fan_out);  // sqrt(4 / (fan_in + fan_out))

// x [n, in] -> [n, out], with parameters LAYER/weight [in, out] and LAYER/bias [out]; labelled NETWORK/LAYER.
Tensor dense(const Parameters& p, const std::string& layer, Tensor x, Precision precision);
// x [n, h, w, in] -> [n, ceil(h / stride), ceil(w / stride), out], zero-padded as TensorFlow's SAME;
// LAYER/weight [k, k, in, out].
Tensor conv2d(const Parameters& p, const std::string& layer, Tensor x, int64_t stride, Precision precision);
// The transpose of conv2d: [n, h, w, in] -> [n, out_size, out_size, out], where out_size is at most h * stride; a smaller
// one crops at the bottom and right. LAYER/weight [k, k, in, out].
Tensor conv2d_transposed(const Parameters& p, const std::string& layer, Tensor x, int64_t stride, int64_t out_size,
                         Precision precision);

}  // namespace backbeat
