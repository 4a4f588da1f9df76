// Primitives that move elements without computing on them.
#include "engine/ops.hpp"

namespace backbeat {

namespace {
Tensor record_shape(Op op, Tensor x, Attributes attributes, const Shape& shape) {
  return {x.tape(), x.tape().append(op, {x.id()}, std::move(attributes), shape, x.dtype())};
}

void check_defined(Op op, Tensor x) {
  if (!x.defined()) fail(name_of(op).data(), "the operand is no tensor (an input without a cotangent?)");
}

void check_sizes(Op op, const Shape& shape) {
  for (int64_t d : shape)
    if (d < 0) fail(name_of(op).data(), "negative dimension in shape ", shape);
}

void check_axes(const char* where, Tensor x, const Dims& axes) {
  for (int64_t i = 0; i < axes.size(); ++i) {
    if (axes[i] < 0 || axes[i] >= x.rank()) fail(where, "axis ", axes[i], " is outside of ", x);
    for (int64_t j = 0; j < i; ++j)
      if (axes[i] == axes[j]) fail(where, "axis ", axes[i], " is named twice in ", axes, " for ", x);
  }
}
}  // namespace

Tensor reshape(Tensor x, const Shape& shape) {
  check_defined(Op::reshape, x);
  check_sizes(Op::reshape, shape);
  if (element_count(shape) != x.size())
    fail("reshape", "cannot turn ", x, " (", x.size(), " elements) into ", shape, " (", element_count(shape), ")");
  if (shape == x.shape()) return x;
  return record_shape(Op::reshape, x, {}, shape);
}

Tensor transpose(Tensor x, const Dims& permutation) {
  check_defined(Op::transpose, x);
  if (permutation.size() != x.rank()) fail("transpose", "permutation ", permutation, " does not fit ", x);
  check_axes("transpose", x, permutation);
  if (permutation == Dims::range(x.rank())) return x;
  Shape shape;
  for (int64_t axis : permutation) shape.push_back(x.dim(axis));
  return record_shape(Op::transpose, x, permutation, shape);
}

Tensor broadcast_in_dim(Tensor x, const Shape& shape, const Dims& dims) {
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
  return record_shape(Op::broadcast_in_dim, x, dims, shape);
}

Tensor broadcast_to(Tensor x, const Shape& shape) {
  check_defined(Op::broadcast_in_dim, x);
  if (x.shape() == shape) return x;
  if (x.rank() > shape.size()) fail("broadcast_in_dim", x, " does not broadcast to ", shape);
  Dims dims;
  for (int64_t i = 0; i < x.rank(); ++i) dims.push_back(shape.size() - x.rank() + i);
  return broadcast_in_dim(x, shape, dims);
}

Tensor slice(Tensor x, const Dims& start, const Dims& limit, const Dims& stride) {
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
  return record_shape(Op::slice, x, SliceDims{start, limit, stride}, shape);
}

Tensor pad(Tensor x, const PadDims& dims) {
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
  return record_shape(Op::pad, x, dims, shape);
}

Tensor concatenate(const std::vector<Tensor>& parts, int64_t axis) {
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
    if (!fits) fail("concatenate", part, " does not fit to ", first, " along axis ", axis);
    shape[axis] += part.dim(axis);
    operands.push_back(part.id());
  }
  if (parts.size() == 1) return first;
  return {first.tape(), first.tape().append(Op::concatenate, operands, Axis{axis}, shape, first.dtype())};
}

Tensor reverse(Tensor x, const Dims& axes) {
  check_defined(Op::reverse, x);
  check_axes("reverse", x, axes);
  if (axes.empty()) return x;
  return record_shape(Op::reverse, x, axes, x.shape());
}

Tensor flatten(Tensor x) {
  check_defined(Op::reshape, x);
  if (x.rank() == 0) fail("flatten", "expected a batch dimension, got ", x);
  return reshape(x, {x.dim(0), x.dim(0) == 0 ? 0 : x.size() / x.dim(0)});
}

Tensor reduce(Tensor x, Reduction kind, const Dims& axes) {
  check_defined(Op::reduce, x);
  check_axes("reduce", x, axes);
  if (x.dtype() == DType::boolean) fail("reduce", "expected numbers, got ", x);
  if (axes.empty()) return x;
  Shape shape;
  for (int64_t i = 0; i < x.rank(); ++i)
    if (!axes.contains(i)) shape.push_back(x.dim(i));
  for (int64_t axis : axes)
    if (kind != Reduction::sum && x.dim(axis) == 0) fail("reduce", name_of(kind), " of no elements in ", x, " over ", axes);
  return record_shape(Op::reduce, x, ReduceDims{kind, axes}, shape);
}

}  // namespace backbeat
