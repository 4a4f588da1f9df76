// Between replicas: each exchange is undone by another one. And the barrier, which lets derivatives pass.
#include "autodiff/rules.hpp"

namespace backbeat::rules {

namespace {

using Collective = std::shared_ptr<const CollectiveDims>;

const CollectiveDims& dims_of(const Applied& a) { return *a.attributes<Collective>(); }

void check_sums(const Applied& a) {
  if (dims_of(a).kind != Reduction::sum)
    fail("all_reduce", "only a sum over replicas has a derivative, not the ", name_of(dims_of(a).kind), " of ", a.x(0));
}

// What one replica adds to every other's sum comes back from all of them.
Tensor all_reduce_rule(const Applied& a, size_t, Tensor g) {
  check_sums(a);
  return all_reduce(g, Reduction::sum, dims_of(a).replicas);
}

Tensor all_reduce_tangent(const Applied& a, std::span<const Tensor> t) {
  check_sums(a);
  return linear(a, t);
}

Tensor permute_rule(const Applied& a, size_t, Tensor g) {
  auto pairs = dims_of(a).pairs;
  for (auto& [from, to] : pairs) std::swap(from, to);
  return collective_permute(g, pairs, dims_of(a).replicas);
}

constexpr Row rows[] = {
    {Op::all_reduce, all_reduce_rule, all_reduce_tangent},
    {Op::all_gather,
     [](const Applied& a, size_t, Tensor g) { return reduce_scatter(g, dims_of(a).axis, dims_of(a).replicas); }, linear},
    {Op::reduce_scatter,
     [](const Applied& a, size_t, Tensor g) { return all_gather(g, dims_of(a).axis, dims_of(a).replicas); }, linear},
    {Op::all_to_all,
     [](const Applied& a, size_t, Tensor g) {
       return all_to_all(g, dims_of(a).concat_axis, dims_of(a).axis, dims_of(a).replicas);
     },
     linear},
    {Op::collective_permute, permute_rule, linear},
    {Op::optimization_barrier, [](const Applied&, size_t, Tensor g) { return g; },
     [](const Applied&, std::span<const Tensor> t) { return t[0]; }},
};

}  // namespace

std::span<const Row> collective() { return rows; }

}  // namespace backbeat::rules
