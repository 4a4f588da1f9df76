// Between replicas, and what orders a program. Names and semantics of StableHLO.
#include "engine/ops/record.hpp"

namespace backbeat {

namespace {
Tensor collective(Op op, const Tensor& x, CollectiveDims dims, const Shape& shape) {
  return append(op, x, {x.id()}, std::make_shared<const CollectiveDims>(std::move(dims)), shape, x.dtype());
}

void check_replicas(Op op, const Tensor& x, int64_t replicas) {
  check_defined(op, x);
  if (replicas < 1) fail(tag(op), "expected at least one replica, got ", replicas);
}

void check_divides(Op op, const Tensor& x, int64_t axis, int64_t replicas) {
  if (x.dim(axis) % replicas != 0) fail(tag(op), x, " dim ", axis, " cannot be split over ", replicas, " replicas");
}
}  // namespace

Tensor all_reduce(Operand x, Reduction kind, int64_t replicas) {
  const RecordedAt at(x.where);
  check_replicas(Op::all_reduce, x, replicas), check_numbers(Op::all_reduce, x);
  return collective(Op::all_reduce, x, {replicas, kind, 0, 0, {}}, x.shape());
}

Tensor all_gather(Operand x, int64_t axis, int64_t replicas) {
  const RecordedAt at(x.where);
  check_replicas(Op::all_gather, x, replicas), check_axis(Op::all_gather, x, axis);
  Shape shape = x.shape();
  shape[axis] *= replicas;
  return collective(Op::all_gather, x, {replicas, Reduction::sum, axis, 0, {}}, shape);
}

Tensor reduce_scatter(Operand x, int64_t axis, int64_t replicas) {
  const RecordedAt at(x.where);
  check_replicas(Op::reduce_scatter, x, replicas), check_axis(Op::reduce_scatter, x, axis), check_numbers(Op::reduce_scatter, x);
  check_divides(Op::reduce_scatter, x, axis, replicas);
  Shape shape = x.shape();
  shape[axis] /= replicas;
  return collective(Op::reduce_scatter, x, {replicas, Reduction::sum, axis, 0, {}}, shape);
}

Tensor all_to_all(Operand x, int64_t split_axis, int64_t concat_axis, int64_t replicas) {
  const RecordedAt at(x.where);
  check_replicas(Op::all_to_all, x, replicas), check_axis(Op::all_to_all, x, split_axis), check_axis(Op::all_to_all, x, concat_axis);
  check_divides(Op::all_to_all, x, split_axis, replicas);
  Shape shape = x.shape();
  shape[split_axis] /= replicas, shape[concat_axis] *= replicas;
  return collective(Op::all_to_all, x, {replicas, Reduction::sum, split_axis, concat_axis, {}}, shape);
}

Tensor collective_permute(Operand x, const std::vector<std::pair<int64_t, int64_t>>& pairs, int64_t replicas) {
  const RecordedAt at(x.where);
  check_replicas(Op::collective_permute, x, replicas);
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto [from, to] = pairs[i];
    if (from < 0 || to < 0 || from >= replicas || to >= replicas)
      fail("collective_permute", "pair ", from, "->", to, " lies outside of ", replicas, " replicas");
    for (size_t j = 0; j < i; ++j)
      if (pairs[j].first == from || pairs[j].second == to)
        fail("collective_permute", "replica ", pairs[j].first == from ? from : to, " is named twice as a ",
             pairs[j].first == from ? "source" : "target");
  }
  return collective(Op::collective_permute, x, {replicas, Reduction::sum, 0, 0, pairs}, x.shape());
}

Tensor replica_id(Tape& tape, SourceLine where) {
  const RecordedAt at(where);
  return {tape, tape.append(Op::replica_id, {}, {}, {}, DType::u32)};
}

Tensor optimization_barrier(Operand x, const std::vector<Tensor>& after) {
  const RecordedAt at(x.where);
  check_defined(Op::optimization_barrier, x);
  std::vector<NodeId> operands{x.id()};
  for (Tensor other : after) {
    check_same_tape(Op::optimization_barrier, x, other);
    operands.push_back(other.id());
  }
  return append(Op::optimization_barrier, x, operands, {}, x.shape(), x.dtype());
}

}  // namespace backbeat
