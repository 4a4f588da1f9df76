// Primitives that move elements without computing on them.
#include "engine/ops/record.hpp"

namespace backbeat {

Tensor reshape(Operand x, const Shape& shape) {
  const RecordedAt at(x.where);
  check_defined(Op::reshape, x);
  check_sizes(Op::reshape, shape);
  if (element_count(shape) != x.size())
    fail("reshape", "cannot turn ", x, " (", x.size(), " elements) into ", shape, " (", element_count(shape), ")");
  if (shape == x.shape()) return x;
  return append(Op::reshape, x, {x.id()}, {}, shape, x.dtype());
}

Tensor transpose(Operand x, const Dims& permutation) {
  const RecordedAt at(x.where);
  check_defined(Op::transpose, x);
  if (permutation.size() != x.rank()) fail("transpose", "permutation ", permutation, " does not fit ", x);
  check_axes(Op::transpose, x, permutation);
  if (permutation == Dims::range(x.rank())) return x;
  Shape shape;
  for (int64_t axis : permutation) shape.push_back(x.dim(axis));
  return append(Op::transpose, x, {x.id()}, permutation, shape, x.dtype());
}

Tensor broadcast_in_dim(Operand x, const Shape& shape, const Dims& dims) {
  const RecordedAt at(x.where);
  check_defined(Op::broadcast_in_dim, x);
  check_sizes(Op::broadcast_in_dim, shape);
  if (dims.size() != x.rank()) fail("broadcast_in_dim", "expected one dimension of ", shape, " for each of ", x, ", got ", dims);
  for (int64_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0 || dims[i] >= shape.size() || (i > 0 && dims[i] <= dims[i - 1]))
      fail("broadcast_in_dim", "dimensions ", dims, " must rise and lie in ", shape);
    if (x.dim(i) != 1 && x.dim(i) != shape[dims[i]])
      fail("broadcast_in_dim", x, " dim ", i, " is ", x.dim(i), ", cannot become ", shape[dims[i]], " in ", shape);
  }
  if (shape == x.shape()) return x;
  return append(Op::broadcast_in_dim, x, {x.id()}, dims, shape, x.dtype());
}

Tensor broadcast_to(Operand x, const Shape& shape) {
  const RecordedAt at(x.where);
  check_defined(Op::broadcast_in_dim, x);
  if (x.shape() == shape) return x;
  if (x.rank() > shape.size()) fail("broadcast_in_dim", x, " does not broadcast to ", shape);
  Dims dims;
  for (int64_t i = 0; i < x.rank(); ++i) dims.push_back(shape.size() - x.rank() + i);
  return broadcast_in_dim(x, shape, dims);
}

Tensor slice(Operand x, const Dims& start, const Dims& limit, const Dims& stride) {
  const RecordedAt at(x.where);
  check_defined(Op::slice, x);
  if (start.size() != x.rank() || limit.size() != x.rank() || stride.size() != x.rank())
    fail("slice", "expected ", x.rank(), " starts, limits and strides for ", x, ", got ", start, limit, stride);
  Shape shape;
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (start[i] < 0 || limit[i] < start[i] || limit[i] > x.dim(i) || stride[i] < 1)
      fail("slice", x, " dim ", i, ": cannot take ", start[i], ':', limit[i], ':', stride[i], " of ", x.dim(i));
    shape.push_back((limit[i] - start[i] + stride[i] - 1) / stride[i]);
  }
  if (shape == x.shape()) return x;
  return append(Op::slice, x, {x.id()}, SliceDims{start, limit, stride}, shape, x.dtype());
}

Tensor slice_in_dim(Operand x, int64_t start, int64_t limit, int64_t axis) {
  const RecordedAt at(x.where);
  check_defined(Op::slice, x);
  check_axis(Op::slice, x, axis);
  Dims starts = Dims::filled(x.rank(), 0), limits = x.shape();
  starts[axis] = start, limits[axis] = limit;
  return slice(x, starts, limits, Dims::filled(x.rank(), 1));
}

Tensor pad(Operand x, const PadDims& dims) {
  const RecordedAt at(x.where);
  check_defined(Op::pad, x);
  if (dims.low.size() != x.rank() || dims.high.size() != x.rank() || dims.interior.size() != x.rank())
    fail("pad", "expected ", x.rank(), " paddings for ", x, ", got ", dims.low, dims.high, dims.interior);
  Shape shape;
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (dims.interior[i] < 0) fail("pad", "interior padding of ", x, " dim ", i, " is negative: ", dims.interior[i]);
    const int64_t inner = x.dim(i) == 0 ? 0 : (x.dim(i) - 1) * dims.interior[i] + x.dim(i);
    const int64_t size = inner + dims.low[i] + dims.high[i];
    if (size < 0) fail("pad", x, " dim ", i, " would get ", size, " elements from low ", dims.low[i], ", high ", dims.high[i]);
    shape.push_back(size);
  }
  const Dims none = Dims::filled(x.rank(), 0);
  if (dims.low == none && dims.high == none && dims.interior == none) return x;
  return append(Op::pad, x, {x.id()}, dims, shape, x.dtype());
}

Tensor concatenate(const std::vector<Tensor>& parts, int64_t axis, SourceLine where) {
  const RecordedAt at(where);
  if (parts.empty()) fail("concatenate", "expected at least one tensor");
  for (Tensor part : parts) check_defined(Op::concatenate, part);
  const Tensor first = parts[0];
  if (axis < 0 || axis >= first.rank()) fail("concatenate", "axis ", axis, " is outside of ", first);
  Shape shape = first.shape();
  shape[axis] = 0;
  std::vector<NodeId> operands;
  for (Tensor part : parts) {
    bool fits = part.rank() == first.rank() && part.dtype() == first.dtype() && &part.tape() == &first.tape();
    for (int64_t i = 0; fits && i < first.rank(); ++i) fits = i == axis || part.dim(i) == first.dim(i);
    if (&part.tape() != &first.tape()) fail("concatenate", "operands come from two tapes (", first, " and ", part, ")");
    if (!fits) fail("concatenate", part, " does not fit to ", first, " along axis ", axis);
    shape[axis] += part.dim(axis);
    operands.push_back(part.id());
  }
  if (parts.size() == 1) return first;
  return append(Op::concatenate, first, operands, Axis{axis}, shape, first.dtype());
}

Tensor reverse(Operand x, const Dims& axes) {
  const RecordedAt at(x.where);
  check_defined(Op::reverse, x);
  check_axes(Op::reverse, x, axes);
  if (axes.empty()) return x;
  return append(Op::reverse, x, {x.id()}, axes, x.shape(), x.dtype());
}

Tensor flatten(Operand x) {
  const RecordedAt at(x.where);
  check_defined(Op::reshape, x);
  if (x.rank() == 0) fail("flatten", "expected a batch dimension, got ", x);
  return reshape(x, {x.dim(0), x.dim(0) == 0 ? 0 : x.size() / x.dim(0)});
}

}  // namespace backbeat
