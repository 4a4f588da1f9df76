#include "models/layers/dense.hpp"

#include "engine/ops.hpp"

namespace backbeat {

std::vector<ParameterSpec> dense_parameters(const std::string& layer, int64_t in, int64_t out, Initial weight) {
  return {{layer + "/weight", {in, out}, weight}, {layer + "/bias", {out}}};
}

Tensor dense(const Parameters& p, const std::string& layer, Tensor x, Precision precision) {
  Scope network(p.network()), scope(layer);
  const Tensor weight = p(layer + "/weight");
  if (x.rank() < 1 || weight.rank() != 2 || x.dim(x.rank() - 1) != weight.dim(0))
    fail("dense", p.network(), '/', layer, ": ", x, " has no last dimension of the rows of ", weight);
  const Shape shape = x.shape();
  int64_t rows = 1;
  for (int64_t i = 0; i + 1 < shape.size(); ++i) rows *= shape[i];
  if (x.rank() != 2) x = reshape(x, {rows, weight.dim(0)});
  Tensor y = matmul(x, weight, precision);
  if (p.contains(layer + "/bias")) y = y + p(layer + "/bias");
  if (shape.size() == 2) return y;
  Shape out = shape;
  out[out.size() - 1] = weight.dim(1);
  return reshape(y, out);
}

std::vector<ParameterSpec> embedding_parameters(const std::string& layer, int64_t entries, int64_t width, Initial weight) {
  return {{layer + "/weight", {entries, width}, weight}};
}

Tensor embedding(const Parameters& p, const std::string& layer, Tensor indices) {
  Scope network(p.network()), scope(layer);
  return take(p(layer + "/weight"), indices, 0);
}

}  // namespace backbeat
