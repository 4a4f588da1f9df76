// Operations whose places are computed: slices at a start that is a tensor, gather, scatter, sort. Shape rules after jax.lax.
#include "engine/ops/record.hpp"

namespace backbeat {

namespace {

// A start index tensor: one integer a dimension of x.
void check_start(Op op, const Tensor& x, const Tensor& start) {
  check_same_tape(op, x, start);
  check_integers(op, "the start", start);
  if (start.shape() != Shape{x.rank()}) fail(tag(op), "expected a start of shape ", Shape{x.rank()}, " for ", x, ", got ", start);
}

void check_rising(Op op, const char* what, const Dims& dims, int64_t rank) {
  for (int64_t i = 0; i < dims.size(); ++i)
    if (dims[i] < 0 || dims[i] >= rank || (i > 0 && dims[i] <= dims[i - 1]))
      fail(tag(op), what, ' ', dims, " must rise and lie below ", rank);
}

// Shape of a gather's result, which is that of a scatter's updates.
Shape slices_shape(Op op, const Tensor& x, const Tensor& indices, const GatherDims& d) {
  check_same_tape(op, x, indices);
  check_integers(op, "the indices", indices);
  if (indices.rank() < 1) fail(tag(op), "the last dimension of the indices holds a start: got ", indices);
  const int64_t length = indices.dim(indices.rank() - 1);
  if (d.index_map.size() != length)
    fail(tag(op), "the indices ", indices, " hold ", length, " numbers a start, index_map ", d.index_map, " names ", d.index_map.size());
  for (int64_t i = 0; i < length; ++i) {
    check_axis(op, x, d.index_map[i]);
    for (int64_t j = 0; j < i; ++j)
      if (d.index_map[i] == d.index_map[j]) fail(tag(op), "index_map ", d.index_map, " names dimension ", d.index_map[i], " twice");
  }
  check_rising(op, "collapsed dimensions", d.collapsed, x.rank());
  if (d.slice_sizes.size() != x.rank()) fail(tag(op), "expected ", x.rank(), " slice sizes for ", x, ", got ", d.slice_sizes);
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (d.slice_sizes[i] < 0 || d.slice_sizes[i] > x.dim(i))
      fail(tag(op), "slice size ", d.slice_sizes[i], " does not fit ", x, " dim ", i);
    if (d.collapsed.contains(i) && d.slice_sizes[i] != 1)
      fail(tag(op), "collapsed dimension ", i, " has slice size ", d.slice_sizes[i], ", expected 1");
  }
  const int64_t kept = x.rank() - d.collapsed.size(), rank = indices.rank() - 1 + kept;
  if (d.offset.size() != kept) fail(tag(op), "slices of ", x, " keep ", kept, " dimensions, offset ", d.offset, " names ", d.offset.size());
  check_rising(op, "offset dimensions", d.offset, rank);
  Shape shape;
  int64_t from_indices = 0, from_slice = 0;
  for (int64_t i = 0; i < rank; ++i) {
    if (!d.offset.contains(i)) {
      shape.push_back(indices.dim(from_indices++));
      continue;
    }
    while (d.collapsed.contains(from_slice)) ++from_slice;
    shape.push_back(d.slice_sizes[from_slice++]);
  }
  return shape;
}

}  // namespace

Tensor dynamic_slice(Operand x, Operand start, const Dims& sizes) {
  const RecordedAt at(x.where);
  check_start(Op::dynamic_slice, x, start);
  if (sizes.size() != x.rank()) fail("dynamic_slice", "expected ", x.rank(), " sizes for ", x, ", got ", sizes);
  for (int64_t i = 0; i < x.rank(); ++i)
    if (sizes[i] < 0 || sizes[i] > x.dim(i)) fail("dynamic_slice", "size ", sizes[i], " does not fit ", x, " dim ", i);
  return append(Op::dynamic_slice, x, {x.id(), start.id()}, sizes, sizes, x.dtype());
}

Tensor dynamic_update_slice(Operand x, Operand update, Operand start) {
  const RecordedAt at(x.where);
  check_same_tape(Op::dynamic_update_slice, x, update);
  check_start(Op::dynamic_update_slice, x, start);
  if (update.dtype() != x.dtype() || update.rank() != x.rank())
    fail("dynamic_update_slice", "the update ", update, " does not fit ", x);
  for (int64_t i = 0; i < x.rank(); ++i)
    if (update.dim(i) > x.dim(i)) fail("dynamic_update_slice", "the update ", update, " is larger than ", x, " in dim ", i);
  return append(Op::dynamic_update_slice, x, {x.id(), update.id(), start.id()}, {}, x.shape(), x.dtype());
}

Tensor gather(Operand x, Operand indices, const GatherDims& dims) {
  const RecordedAt at(x.where);
  const Shape shape = slices_shape(Op::gather, x, indices, dims);
  return append(Op::gather, x, {x.id(), indices.id()}, std::make_shared<const GatherDims>(dims), shape, x.dtype());
}

Tensor scatter(Operand x, Operand indices, Operand updates, const ScatterDims& dims) {
  const RecordedAt at(x.where);
  check_same_tape(Op::scatter, x, updates);
  const Shape shape = slices_shape(Op::scatter, x, indices, dims.where);
  if (updates.shape() != shape || updates.dtype() != x.dtype())
    fail("scatter", "expected updates ", x.dtype(), shape, " for ", x, " at ", indices, ", got ", updates);
  if (dims.add) check_numbers(Op::scatter, x);
  return append(Op::scatter, x, {x.id(), indices.id(), updates.id()}, std::make_shared<const ScatterDims>(dims), x.shape(), x.dtype());
}

Tensor take(Operand x, Operand indices, int64_t axis) {
  const RecordedAt at(x.where);
  check_same_tape(Op::gather, x, indices);
  check_axis(Op::gather, x, axis);
  GatherDims dims{{}, {axis}, {axis}, x.shape(), Bounds::fill_or_drop};
  dims.slice_sizes[axis] = 1;
  // The result has x's dimensions with those of the indices in place of `axis`.
  for (int64_t i = 0; i < x.rank(); ++i)
    if (i != axis) dims.offset.push_back(i < axis ? i : i - 1 + indices.rank());
  Shape starts = indices.shape();
  starts.push_back(1);
  return gather(x, reshape(indices, starts), dims);
}

Tensor sort(Operand x, int64_t axis) { return sort_by(x, x, axis); }

Tensor sort_by(Operand keys, Operand values, int64_t axis) {
  const RecordedAt at(keys.where);
  check_same_tape(Op::sort, keys, values);
  check_axis(Op::sort, keys, axis);
  check_numbers(Op::sort, keys);
  if (values.shape() != keys.shape()) fail("sort", "expected values of the shape of the keys ", keys, ", got ", values);
  return append(Op::sort, keys, {keys.id(), values.id()}, Axis{axis}, values.shape(), values.dtype());
}

Tensor argsort(Operand x, int64_t axis) {
  const RecordedAt at(x.where);
  check_defined(Op::sort, x);
  check_axis(Op::sort, x, axis);
  return sort_by(x, iota(x.tape(), DType::i32, x.shape(), axis), axis);
}

}  // namespace backbeat
