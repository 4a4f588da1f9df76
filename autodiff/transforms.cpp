// What is composed of grad and jvp.
#include "autodiff/grad.hpp"

namespace backbeat {

std::vector<Tensor> hvp(Tensor y, std::span<const Tensor> xs, std::span<const Tensor> vs) {
  const std::vector<Tensor> grads = grad(y, xs, {.cotangent = {}, .unused = Unused::zeros});
  return jvp(grads, xs, vs);
}

Tensor hvp(Tensor y, Tensor x, Tensor v) { return hvp(y, std::span<const Tensor>(&x, 1), std::span<const Tensor>(&v, 1))[0]; }

Tensor jacobian(Operand y, Tensor x) {
  const RecordedAt at(y.where);
  if (!y.defined() || !x.defined()) fail("jacobian", "y or x is no tensor");
  if (y.rank() + x.rank() > Dims::max_rank)
    fail("jacobian", "of ", y, " by ", x, " would have ", y.rank() + x.rank(), " dimensions, at most ", Dims::max_rank, " are supported");
  const bool by_rows = y.size() <= x.size();
  const Tensor sides[] = {y, x};
  const Tensor one = sides[by_rows ? 0 : 1], other = sides[by_rows ? 1 : 0];
  const int64_t count = one.size();
  Shape shape = y.shape();
  for (int64_t d : x.shape()) shape.push_back(d);
  if (count == 0 || other.size() == 0) return full(y.tape(), y.dtype(), shape, 0);

  std::vector<Tensor> lines;  // [1, elements of the other side]
  const Tensor place = iota(y.tape(), DType::i32, {count}, 0);
  for (int64_t i = 0; i < count; ++i) {
    const Tensor here = compare(place, full(y.tape(), DType::i32, {count}, static_cast<double>(i)), Direction::eq);
    const Tensor unit = reshape(convert(here, one.dtype()), one.shape());
    const Tensor line = by_rows ? grad(y, x, {.cotangent = unit, .unused = Unused::zeros}) : jvp(y, x, unit);
    lines.push_back(reshape(line, {1, other.size()}));
  }
  const Tensor matrix = concatenate(lines, 0);
  return reshape(by_rows ? matrix : transpose(matrix, {1, 0}), shape);
}

Tensor hessian(Operand y, Tensor x) {
  const RecordedAt at(y.where);
  if (!y.defined() || y.size() != 1) fail("hessian", "y is ", y, ", expected a scalar");
  return jacobian(grad(y, x, {.cotangent = {}, .unused = Unused::zeros}), x);
}

std::vector<Tensor> checkpoint(const CompositeBody& f, const std::vector<Tensor>& xs, SourceLine where) {
  return call("checkpoint", f, xs, {.recompute = true, .vjp = {}, .jvp = {}}, where);
}

}  // namespace backbeat
