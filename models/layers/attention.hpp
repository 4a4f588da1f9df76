// Attention, Vaswani et al. 2017.
#pragma once
#include "models/parameters.hpp"

namespace backbeat {

struct Attention {
  int64_t heads = 1;
  Precision precision = Precision::standard;
};

// Dense layers LAYER/query, LAYER/key, LAYER/value and LAYER/out of [width, width], each with a bias.
std::vector<ParameterSpec> attention_parameters(const std::string& layer, int64_t width, Initial weight);
// query [n, q, width], key and value [n, k, width] -> [n, q, width]. In each head, of width / heads columns, the mean of
// the values weighted by softmax(query key^T / sqrt(width / heads)). `mask`, if defined, is bool, broadcast to
// [n, heads, q, k], true where a query may look; one that may look nowhere gets zeros before LAYER/out.
Tensor multi_head_attention(const Parameters& p, const std::string& layer, Tensor query, Tensor key, Tensor value,
                            const Attention& options, Tensor mask = {});
// bool [q, k], true where key <= query: what a decoder may look at.
Tensor causal_mask(Tape& tape, int64_t length);

}  // namespace backbeat
