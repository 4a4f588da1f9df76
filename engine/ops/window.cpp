// Reductions: over whole axes (reduce, argmax, cumsum) and over windows. Shape rules after StableHLO.
#include "engine/ops/record.hpp"

namespace backbeat {

Tensor reduce(Operand x, Reduction kind, const Dims& axes) {
  const RecordedAt at(x.where);
  check_defined(Op::reduce, x);
  check_axes(Op::reduce, x, axes);
  check_numbers(Op::reduce, x);
  if (axes.empty()) return x;
  Shape shape;
  for (int64_t i = 0; i < x.rank(); ++i)
    if (!axes.contains(i)) shape.push_back(x.dim(i));
  for (int64_t axis : axes)
    if ((kind == Reduction::max || kind == Reduction::min) && x.dim(axis) == 0)
      fail("reduce", name_of(kind), " of no elements in ", x, " over ", axes);
  return append(Op::reduce, x, {x.id()}, ReduceDims{kind, axes}, shape, x.dtype());
}

namespace {
Tensor arg_extreme(const Operand& x, int64_t axis, Reduction kind) {
  const RecordedAt at(x.where);
  check_defined(Op::argmax, x);
  check_numbers(Op::argmax, x);
  check_axis(Op::argmax, x, axis);
  if (x.dim(axis) == 0) fail("argmax", "no elements along axis ", axis, " of ", x);
  Shape shape;
  for (int64_t i = 0; i < x.rank(); ++i)
    if (i != axis) shape.push_back(x.dim(i));
  return append(Op::argmax, x, {x.id()}, ReduceDims{kind, {axis}}, shape, DType::i32);
}
}  // namespace

Tensor argmax(Operand x, int64_t axis) { return arg_extreme(x, axis, Reduction::max); }
Tensor argmin(Operand x, int64_t axis) { return arg_extreme(x, axis, Reduction::min); }

Tensor cumsum(Operand x, int64_t axis, bool reverse) {
  const RecordedAt at(x.where);
  check_defined(Op::cumsum, x);
  check_numbers(Op::cumsum, x);
  check_axis(Op::cumsum, x, axis);
  return append(Op::cumsum, x, {x.id()}, CumulativeDims{axis, reverse}, x.shape(), x.dtype());
}

// --- windows

namespace {

Shape shape_of_windows(Op op, const Shape& x, const WindowDims& d) {
  for (const Dims* dims : {&d.window, &d.strides, &d.pad_low, &d.pad_high, &d.base_dilation, &d.window_dilation})
    if (dims->size() != x.size()) fail(tag(op), "expected ", x.size(), " values an attribute for ", x, ", got ", *dims);
  Shape out;
  for (int64_t i = 0; i < x.size(); ++i) {
    if (d.window[i] < 1 || d.strides[i] < 1 || d.base_dilation[i] < 1 || d.window_dilation[i] < 1)
      fail(tag(op), "window ", d.window, ", strides ", d.strides, " and dilations ", d.base_dilation, d.window_dilation,
           " must be at least 1");
    const int64_t padded = dilated_size(x[i], d.base_dilation[i]) + d.pad_low[i] + d.pad_high[i];
    const int64_t window = dilated_size(d.window[i], d.window_dilation[i]);
    out.push_back(padded < window ? 0 : (padded - window) / d.strides[i] + 1);
  }
  return out;
}

void check_selects(Op op, const Tensor& x, const WindowDims& dims) {
  check_numbers(op, x);
  if (dims.kind != Reduction::max && dims.kind != Reduction::min) fail(tag(op), "selects by max or min, not by ", name_of(dims.kind));
}

}  // namespace

Shape window_shape(const Shape& x, const WindowDims& dims) { return shape_of_windows(Op::reduce_window, x, dims); }

Tensor reduce_window(Operand x, const WindowDims& dims) {
  const RecordedAt at(x.where);
  check_defined(Op::reduce_window, x);
  check_numbers(Op::reduce_window, x);
  if (dims.kind == Reduction::product) fail("reduce_window", "expected sum, max or min, got product");
  const Shape shape = shape_of_windows(Op::reduce_window, x.shape(), dims);
  return append(Op::reduce_window, x, {x.id()}, std::make_shared<const WindowDims>(dims), shape, x.dtype());
}

Tensor select_and_scatter(Operand x, Operand source, const WindowDims& dims) {
  const RecordedAt at(x.where);
  check_same_tape(Op::select_and_scatter, x, source);
  check_selects(Op::select_and_scatter, x, dims);
  check_numbers(Op::select_and_scatter, source);
  const Shape windows = shape_of_windows(Op::select_and_scatter, x.shape(), dims);
  if (source.shape() != windows) fail("select_and_scatter", x, " has windows ", windows, ", the source is ", source);
  return append(Op::select_and_scatter, x, {x.id(), source.id()}, std::make_shared<const WindowDims>(dims), x.shape(), source.dtype());
}

Tensor select_and_gather(Operand x, Operand source, const WindowDims& dims) {
  const RecordedAt at(x.where);
  check_same_tape(Op::select_and_gather, x, source);
  check_selects(Op::select_and_gather, x, dims);
  check_numbers(Op::select_and_gather, source);
  if (source.shape() != x.shape()) fail("select_and_gather", "expected a source of the shape of ", x, ", got ", source);
  const Shape windows = shape_of_windows(Op::select_and_gather, x.shape(), dims);
  return append(Op::select_and_gather, x, {x.id(), source.id()}, std::make_shared<const WindowDims>(dims), windows, source.dtype());
}

}  // namespace backbeat
