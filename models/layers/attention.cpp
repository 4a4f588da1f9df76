#include "models/layers/attention.hpp"

#include <cmath>

#include "models/layers/activation.hpp"
#include "models/layers/dense.hpp"

namespace backbeat {

std::vector<ParameterSpec> attention_parameters(const std::string& layer, int64_t width, Initial weight) {
  std::vector<ParameterSpec> specs;
  for (const char* name : {"/query", "/key", "/value", "/out"})
    append(specs, dense_parameters(layer + name, width, width, weight));
  return specs;
}

Tensor multi_head_attention(const Parameters& p, const std::string& layer, Tensor query, Tensor key, Tensor value,
                            const Attention& options, Tensor mask) {
  const auto refuse = [&] {
    fail("attention", "expected query [n, q, width], key and value [n, k, width] with a width of whole heads, got ", query,
         ", ", key, " and ", value, " for ", options.heads, " heads");
  };
  if (query.rank() != 3 || key.rank() != 3 || value.shape() != key.shape() || options.heads < 1) refuse();
  const int64_t n = query.dim(0), q = query.dim(1), width = query.dim(2), heads = options.heads;
  if (key.dim(0) != n || key.dim(2) != width || width % heads != 0) refuse();

  const auto projected = [&](const char* name, Tensor x) {  // [n, length, heads, width / heads]
    return reshape(dense(p, layer + name, x, options.precision), {n, x.dim(1), heads, width / heads});
  };
  const Tensor queries = projected("/query", query), keys = projected("/key", key), values = projected("/value", value);
  Tensor mixed;
  {
    Scope network(p.network()), scope(layer);
    const Tensor scores = dot_general(queries, keys, {{0, 2}, {0, 2}, {3}, {3}, options.precision}) *
                          (1 / std::sqrt(static_cast<double>(width / heads)));  // [n, heads, q, k]
    const Tensor weights = mask.defined() ? masked_softmax(scores, mask, 3) : softmax(scores, 3);
    mixed = dot_general(weights, values, {{0, 1}, {0, 2}, {3}, {1}, options.precision});  // [n, heads, q, width / heads]
    mixed = reshape(transpose(mixed, {0, 2, 1, 3}), {n, q, width});
  }
  return dense(p, layer + "/out", mixed, options.precision);
}

Tensor causal_mask(Tape& tape, int64_t length) {
  const Shape shape{length, length};
  return compare(iota(tape, DType::i32, shape, 1), iota(tape, DType::i32, shape, 0), Direction::le);
}

}  // namespace backbeat
