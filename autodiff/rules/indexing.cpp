// Places that are computed: what a gather reads a scatter adds, and the other way round. Indices carry no derivative.
#include "autodiff/rules.hpp"

namespace backbeat::rules {

namespace {

using Gather = std::shared_ptr<const GatherDims>;
using Scatter = std::shared_ptr<const ScatterDims>;

Tensor update_slice_rule(const Applied& a, size_t i, Tensor g) {
  const Tensor update = a.x(1), start = a.x(2);
  return i == 0 ? dynamic_update_slice(g, zeros_like(update), start) : dynamic_slice(g, start, update.shape());
}

// Setting hides what was there before.
Tensor scatter_rule(const Applied& a, size_t i, Tensor g) {
  const ScatterDims& dims = *a.attributes<Scatter>();
  const Tensor indices = a.x(1), updates = a.x(2);
  if (i == 2) return gather(g, indices, dims.where);
  return dims.add ? g : scatter(g, indices, zeros_like(updates), dims);
}

constexpr Row rows[] = {
    {Op::dynamic_slice,
     [](const Applied& a, size_t, Tensor g) { return dynamic_update_slice(zeros_like(a.x(0)), g, a.x(1)); }, linear},
    {Op::dynamic_update_slice, update_slice_rule, linear},
    {Op::gather,
     [](const Applied& a, size_t, Tensor g) {
       return scatter(zeros_like(a.x(0)), a.x(1), g, {*a.attributes<Gather>(), true});
     },
     linear},
    {Op::scatter, scatter_rule, linear},
    // Sorting g by where each element came from puts it back there.
    {Op::sort,
     [](const Applied& a, size_t, Tensor g) {
       const int64_t axis = a.attributes<Axis>().index;
       return sort_by(argsort(a.x(0), axis), g, axis);
     },
     linear},
};

}  // namespace

std::span<const Row> indexing() { return rows; }

}  // namespace backbeat::rules
