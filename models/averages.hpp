// Exponential moving averages of parameters, to be evaluated in their place.
#pragma once
#include "models/parameters.hpp"

namespace backbeat {

// average -= (1 - d) * (average - parameter), under the scope "average". With warm-up d = min(decay, (1 + n) / (10 + n))
// after n updates, as TensorFlow's ExponentialMovingAverage with num_updates; without, d = decay. The state is named
// "average/critic/dense_1/weight" and so on; "average/critic/updates" is n.
struct MovingAverage {
  double decay = 0.9999;
  bool warmup = true;
};

// `updated`: what the optimizer's update returned.
void update_average(Recorder& r, const Parameters& p, const std::vector<Tensor>& updated, const MovingAverage& average);
// The averages start as what the store holds of the network.
void initialize_average(StateStore& store, const std::string& network, const std::vector<ParameterSpec>& specs);
// The network with its averages in the place of its trained parameters.
Parameters averaged(Recorder& r, const std::string& network, const std::vector<ParameterSpec>& specs, DType dtype = DType::f32);

}  // namespace backbeat
