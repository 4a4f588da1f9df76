// Moving elements: each rule is the transposed move.
#include "autodiff/rules.hpp"

namespace backbeat::rules {

namespace {

Tensor transpose_rule(const Applied& a, size_t, Tensor g) {
  const Dims& permutation = a.attributes<Dims>();
  Dims inverse = Dims::filled(permutation.size(), 0);
  for (int64_t i = 0; i < permutation.size(); ++i) inverse[permutation[i]] = i;
  return transpose(g, inverse);
}

Tensor broadcast_rule(const Applied& a, size_t, Tensor g) {
  const Dims& dims = a.attributes<Dims>();
  const Shape& from = a.x(0).shape();
  Dims summed;
  for (int64_t d = 0, i = 0; d < g.rank(); ++d) {
    const bool from_operand = i < dims.size() && dims[i] == d;
    if (!from_operand || from[i] != g.dim(d)) summed.push_back(d);
    if (from_operand) ++i;
  }
  return reshape(reduce_sum(g, summed), from);
}

Tensor slice_rule(const Applied& a, size_t, Tensor g) {
  const auto& [start, limit, stride] = a.attributes<SliceDims>();
  PadDims dims;
  for (int64_t i = 0; i < g.rank(); ++i) {
    const int64_t reached = g.dim(i) == 0 ? start[i] : start[i] + (g.dim(i) - 1) * stride[i] + 1;
    dims.low.push_back(start[i]);
    dims.high.push_back(a.x(0).dim(i) - reached);
    dims.interior.push_back(stride[i] - 1);
  }
  return pad(g, dims);
}

Tensor pad_rule(const Applied& a, size_t, Tensor g) {
  const PadDims& dims = a.attributes<PadDims>();
  const Shape& from = a.x(0).shape();
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

Tensor concatenate_rule(const Applied& a, size_t part, Tensor g) {
  const int64_t axis = a.attributes<Axis>().index;
  int64_t offset = 0;
  for (size_t i = 0; i < part; ++i) offset += a.x(i).dim(axis);
  return slice_in_dim(g, offset, offset + a.x(part).dim(axis), axis);
}

constexpr Row rows[] = {
    {Op::reshape, [](const Applied& a, size_t, Tensor g) { return reshape(g, a.x(0).shape()); }, linear},
    {Op::transpose, transpose_rule, linear},
    {Op::broadcast_in_dim, broadcast_rule, linear},
    {Op::slice, slice_rule, linear},
    {Op::pad, pad_rule, linear},
    {Op::concatenate, concatenate_rule, linear},
    {Op::reverse, [](const Applied& a, size_t, Tensor g) { return reverse(g, a.attributes<Dims>()); }, linear},
};

}  // namespace

std::span<const Row> shape() { return rows; }

}  // namespace backbeat::rules
