// A network's parameters: what they are called, how they start, and what layers are handed.
#pragma once
#include <string>
#include <vector>

#include "engine/program.hpp"

namespace backbeat {

// How a parameter starts.
struct Initial {
  enum class Law : uint8_t { constant, uniform, normal, truncated_normal };
  Law law = Law::constant;
  double value = 0;  // the constant; else a standard deviation
};

namespace initial {
inline Initial constant(double value) { return {Initial::Law::constant, value}; }
inline Initial uniform(double deviation) { return {Initial::Law::uniform, deviation}; }  // within +-sqrt(3) deviations
inline Initial normal(double deviation) { return {Initial::Law::normal, deviation}; }
// A normal with this deviation of which whatever lies beyond two deviations is drawn again (TensorFlow's truncated_normal);
// what remains has 0.87962566103423978 of it. Keras divides by that number, so that its he_normal has the deviation of He.
inline Initial truncated_normal(double deviation) { return {Initial::Law::truncated_normal, deviation}; }
}  // namespace initial

// Standard deviations. The fans of a dense layer are its sizes, of a convolution kernel height * width * channels.
double he_deviation(int64_t fan_in);                   // sqrt(2 / fan_in), He et al. 2015
double lecun_deviation(int64_t fan_in);                // sqrt(1 / fan_in), Chainer's default
double glorot_deviation(double fan_in, double fan_out);  // sqrt(2 / (fan_in + fan_out)), Glorot and Bengio 2010; Keras' default
// sqrt(4 / (fan_in + fan_out)), the WGAN-GP code's convolutions. There fan_out is divided by stride^2, and fan_in of a
// transposed one likewise.
double he_glorot_deviation(double fan_in, double fan_out);

struct ParameterSpec {
  std::string name;
  Shape shape;
  Initial initial = {};
  bool trained = true;  // false: state that a layer keeps, such as moving averages, which optimizers leave alone
};

// A network's parameters in one Program: state named "critic/dense_1/weight" and so on.
class Parameters {
 public:
  Parameters(Recorder& recorder, std::string network, const std::vector<ParameterSpec>& specs, DType dtype = DType::f32);
  // Any tensors in the place of state: averaged parameters, or those that a test differentiates. All count as trained.
  Parameters(std::string network, const std::vector<std::string>& names, std::vector<Tensor> tensors);

  Tensor operator()(const std::string& name) const;  // Error for a name that the network does not have
  bool contains(const std::string& name) const;
  const std::string& network() const { return network_; }
  // The trained ones, in the order of the specs. The names are those of the state: with the network in front.
  const std::vector<std::string>& names() const { return names_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }

 private:
  const Tensor* find(const std::string& name) const;

  std::string network_;
  std::vector<std::string> names_, kept_names_;
  std::vector<Tensor> tensors_, kept_;
};

// Initial values, a pure function of the seed and the parameter's full name.
void initialize(StateStore& store, const std::string& network, const std::vector<ParameterSpec>& specs, uint64_t seed,
                DType dtype = DType::f32);

// Adds the parameters of a layer to those of a network.
void append(std::vector<ParameterSpec>& network, std::vector<ParameterSpec> layer);

}  // namespace backbeat
