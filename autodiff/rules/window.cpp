// Reductions over axes and windows.
#include "autodiff/rules.hpp"
#include "autodiff/grad.hpp"

namespace backbeat::rules {

namespace {

using Window = std::shared_ptr<const WindowDims>;

Dims kept_axes(Tensor x, const Dims& reduced) {
  Dims kept;
  for (int64_t d = 0; d < x.rank(); ++d)
    if (!reduced.contains(d)) kept.push_back(d);
  return kept;
}

// max, min: 1 where x reaches the extreme, divided by how many do.
Tensor shares(const Applied& a) {
  const Dims& axes = a.attributes<ReduceDims>().axes;
  const Tensor x = a.x(0);
  const Dims kept = kept_axes(x, axes);
  const Tensor extreme = compare(x, broadcast_in_dim(a.y, x.shape(), kept), Direction::eq);
  const Tensor mask = select(extreme, ones_like(x), zeros_like(x));
  return mask / broadcast_in_dim(reduce_sum(mask, axes), x.shape(), kept);
}

// A product as multiplications, halves by halves: right with any number of zeros, to every order.
Tensor tree_product(Tensor x, const Dims& axes) {
  for (int64_t axis : axes) {
    while (x.dim(axis) > 1) {
      const int64_t n = x.dim(axis), half = n / 2;
      const Tensor paired = slice_in_dim(x, 0, half, axis) * slice_in_dim(x, half, 2 * half, axis);
      x = n % 2 == 0 ? paired : concatenate({paired, slice_in_dim(x, n - 1, n, axis)}, axis);
    }
  }
  Shape shape;
  for (int64_t d : kept_axes(x, axes)) shape.push_back(x.dim(d));
  return reshape(x, shape);
}

bool no_elements(const Applied& a) { return a.x(0).size() == 0; }

Tensor reduce_rule(const Applied& a, size_t, Tensor g) {
  const auto& [kind, axes] = a.attributes<ReduceDims>();
  const Tensor x = a.x(0);
  if (kind == Reduction::product)
    return no_elements(a) ? zeros_like(x) : grad(tree_product(x, axes), x, {.cotangent = g, .unused = Unused::none});
  const Tensor wide = broadcast_in_dim(g, x.shape(), kept_axes(x, axes));
  return kind == Reduction::sum ? wide : wide * shares(a);
}

Tensor reduce_tangent(const Applied& a, std::span<const Tensor> t) {
  const auto& [kind, axes] = a.attributes<ReduceDims>();
  if (kind == Reduction::sum) return linear(a, t);
  if (kind == Reduction::product) return no_elements(a) ? zeros_like(a.y) : jvp(tree_product(a.x(0), axes), a.x(0), t[0], Unused::none);
  return reduce_sum(t[0] * shares(a), axes);
}

// Output o takes element i by tap w where o * stride + w * window_dilation - low = i * base_dilation. Seen from the element
// that is a window over the outputs: strides and base dilation change places, and the taps run backwards.
Tensor window_sum_rule(const Applied& a, Tensor g) {
  const WindowDims& d = *a.attributes<Window>();
  const Shape& x = a.x(0).shape();
  WindowDims t{Reduction::sum, d.window, d.base_dilation, {}, {}, d.strides, d.window_dilation};
  for (int64_t i = 0; i < x.size(); ++i) {
    const int64_t window = dilated_size(d.window[i], d.window_dilation[i]);
    const int64_t low = window - 1 - d.pad_low[i];
    t.pad_low.push_back(low);
    t.pad_high.push_back(dilated_size(x[i], d.base_dilation[i]) + window - 1 - low - dilated_size(g.dim(i), d.strides[i]));
  }
  return reduce_window(g, t);
}

Tensor window_rule(const Applied& a, size_t, Tensor g) {
  const WindowDims& d = *a.attributes<Window>();
  return d.kind == Reduction::sum ? window_sum_rule(a, g) : select_and_scatter(a.x(0), g, d);
}

Tensor window_tangent(const Applied& a, std::span<const Tensor> t) {
  const WindowDims& d = *a.attributes<Window>();
  return d.kind == Reduction::sum ? linear(a, t) : select_and_gather(a.x(0), t[0], d);
}

constexpr Row rows[] = {
    {Op::reduce, reduce_rule, reduce_tangent},
    {Op::cumsum,
     [](const Applied& a, size_t, Tensor g) {
       const auto [axis, reverse] = a.attributes<CumulativeDims>();
       return cumsum(g, axis, !reverse);
     },
     linear},
    {Op::reduce_window, window_rule, window_tangent},
    {Op::select_and_scatter,
     [](const Applied& a, size_t, Tensor g) { return select_and_gather(a.x(0), g, *a.attributes<Window>()); }, linear},
    {Op::select_and_gather,
     [](const Applied& a, size_t, Tensor g) { return select_and_scatter(a.x(0), g, *a.attributes<Window>()); }, linear},
};

}  // namespace

std::span<const Row> window() { return rows; }

}  // namespace backbeat::rules
