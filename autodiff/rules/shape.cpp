// Moving elements: each rule is the transposed move.
#include "autodiff/rules.hpp"

namespace backbeat::rules {

namespace {

Tensor transpose_rule(const Call& c, size_t, Tensor g) {
  const Dims& permutation = c.attributes<Dims>();
  Dims inverse = Dims::filled(permutation.size(), 0);
  for (int64_t i = 0; i < permutation.size(); ++i) inverse[permutation[i]] = i;
  return transpose(g, inverse);
}

Tensor broadcast_rule(const Call& c, size_t, Tensor g) {
  const Dims& dims = c.attributes<Dims>();
  const Shape& from = c.x(0).shape();
  Dims summed;
  for (int64_t d = 0, i = 0; d < g.rank(); ++d) {
    const bool from_operand = i < dims.size() && dims[i] == d;
    if (!from_operand || from[i] != g.dim(d)) summed.push_back(d);
    if (from_operand) ++i;
  }
  return reshape(reduce_sum(g, summed), from);
}

Tensor slice_rule(const Call& c, size_t, Tensor g) {
  const auto& [start, limit, stride] = c.attributes<SliceDims>();
  PadDims dims;
  for (int64_t i = 0; i < g.rank(); ++i) {
    const int64_t reached = g.dim(i) == 0 ? start[i] : start[i] + (g.dim(i) - 1) * stride[i] + 1;
    dims.low.push_back(start[i]);
    dims.high.push_back(c.x(0).dim(i) - reached);
    dims.interior.push_back(stride[i] - 1);
  }
  return pad(g, dims);
}

Tensor pad_rule(const Call& c, size_t, Tensor g) {
  const PadDims& dims = c.attributes<PadDims>();
  const Shape& from = c.x(0).shape();
  PadDims undo;
  Dims start, limit, stride;
  for (int64_t i = 0; i < from.size(); ++i) {
    undo.low.push_back(-dims.low[i]);
    undo.high.push_back(-dims.high[i]);
    undo.interior.push_back(0);
    start.push_back(0);
    limit.push_back(from[i] == 0 ? 0 : (from[i] - 1) * (dims.interior[i] + 1) + 1);
    stride.push_back(dims.interior[i] + 1);
  }
  return slice(pad(g, undo), start, limit, stride);
}

Tensor concatenate_rule(const Call& c, size_t part, Tensor g) {
  const int64_t axis = c.attributes<Axis>().index;
  int64_t offset = 0;
  for (size_t i = 0; i < part; ++i) offset += c.x(i).dim(axis);
  Dims start = Dims::filled(g.rank(), 0), limit = g.shape();
  start[axis] = offset;
  limit[axis] = offset + c.x(part).dim(axis);
  return slice(g, start, limit, Dims::filled(g.rank(), 1));
}

Tensor reduce_rule(const Call& c, size_t, Tensor g) {
  const auto& [kind, axes] = c.attributes<ReduceDims>();
  const Tensor x = c.x(0);
  Dims kept;
  for (int64_t d = 0; d < x.rank(); ++d)
    if (!axes.contains(d)) kept.push_back(d);
  if (kind == Reduction::sum) return broadcast_in_dim(g, x.shape(), kept);
  // max, min: all that reach the extreme share its cotangent equally.
  const Tensor extreme = compare(x, broadcast_in_dim(c.y, x.shape(), kept), Direction::eq);
  const Tensor mask = select(extreme, ones_like(x), zeros_like(x));
  return mask * broadcast_in_dim(g / reduce_sum(mask, axes), x.shape(), kept);
}

constexpr Row rows[] = {
    {Op::reshape, [](const Call& c, size_t, Tensor g) { return reshape(g, c.x(0).shape()); }},
    {Op::transpose, transpose_rule},
    {Op::broadcast_in_dim, broadcast_rule},
    {Op::slice, slice_rule},
    {Op::pad, pad_rule},
    {Op::concatenate, concatenate_rule},
    {Op::reverse, [](const Call& c, size_t, Tensor g) { return reverse(g, c.attributes<Dims>()); }},
    {Op::reduce, reduce_rule},
};

}  // namespace

std::span<const Row> shape() { return rows; }

}  // namespace backbeat::rules
