// Products with a weight matrix, and rows looked up in one.
#pragma once
#include "models/parameters.hpp"

namespace backbeat {

// LAYER/weight [in, out], LAYER/bias [out] from 0.
std::vector<ParameterSpec> dense_parameters(const std::string& layer, int64_t in, int64_t out, Initial weight);
// x [..., in] -> [..., out]: x weight + bias. The bias is optional.
Tensor dense(const Parameters& p, const std::string& layer, Tensor x, Precision precision = Precision::standard);

// LAYER/weight [entries, width].
std::vector<ParameterSpec> embedding_parameters(const std::string& layer, int64_t entries, int64_t width, Initial weight);
// indices [...] of an integer dtype -> [..., width]: rows of the weight; zeros for an index outside.
Tensor embedding(const Parameters& p, const std::string& layer, Tensor indices);

}  // namespace backbeat
