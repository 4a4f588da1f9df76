#include "sim/evaluation.hpp"

#include <algorithm>

namespace backbeat::sim {

void Evaluation::run(const Kernel& kernel, std::span<void* const> arrays, const Chip& chip, void* scratch) {
  kernel_ = &kernel;
  arrays_ = arrays;
  array_rows_ = chip.mxu.rows;
  scratch_ = scratch;
  Step step;
  step.kernel_ = &kernel;
  step.evaluation_ = this;
  if (kernel.collapses()) {
    step.grid_ = Dims::filled(kernel.grid().size(), 1);
    step.index_ = Dims::filled(kernel.grid().size(), 0);
    kernel.run(step);
    return;
  }
  scratch_arrays_.assign(kernel.refs().size(), {});
  for (size_t r = 0; r < kernel.refs().size(); ++r)
    if (kernel.refs()[r].role == RefSpec::scratch)
      scratch_arrays_[r].resize(
          static_cast<size_t>(element_count(kernel.refs()[r].array.shape) * size_of(kernel.refs()[r].array.dtype)));
  step.grid_ = kernel.grid();
  for (int64_t n = 0; n < kernel.steps(); ++n) {
    int64_t rest = n;
    step.index_ = kernel.grid();
    for (int64_t axis = kernel.grid().size() - 1; axis >= 0; --axis) {
      step.index_[axis] = rest % kernel.grid()[axis];
      rest /= kernel.grid()[axis];
    }
    kernel.run(step);
  }
}

Evaluation::Block Evaluation::block(const Step& step, Ref ref) {
  const RefSpec& spec = kernel_->refs()[static_cast<size_t>(ref.index)];
  Block b{nullptr, Layout::row_major(spec.array.shape), spec.array.dtype};
  if (spec.role == RefSpec::scratch) {
    b.base = scratch_arrays_[static_cast<size_t>(ref.index)].data();
    return b;
  }
  b.base = static_cast<std::byte*>(whole(ref));
  const Dims index = spec.map(step.index_);
  b.layout.shape = block_extent(spec, index);
  for (int64_t d = 0; d < index.size(); ++d) b.layout.offset += index[d] * spec.block[d] * b.layout.strides[d];
  return b;
}

void Evaluation::fill(const Step& step, Ref out, double value) {
  host::VectorProgram program;
  const DType dtype = kernel_->refs()[static_cast<size_t>(out.index)].array.dtype;
  program.ops.push_back({.op = Op::constant, .dtype = dtype, .operand_dtype = dtype, .destination = 0, .value = value});
  program.outputs = {0};
  program.output_dtypes = {dtype};
  program.registers = 1;
  vector(step, program, {}, {out});
}

void Evaluation::matmul(const Step& step, Ref c, Ref a, Ref b, const Product& p) {
  if (p.plan) return compute(*p.plan, whole(p.swapped ? b : a), whole(p.swapped ? a : b), whole(c), scratch_);
  // Of blocks: the last two dimensions multiply, others are a batch. The result is added in f32 to what is there.
  const Block x = block(step, a), y = block(step, b), z = block(step, c);
  const int64_t rank = x.layout.shape.size();
  DotDims dims;
  for (int64_t d = 0; d + 2 < rank; ++d) {
    dims.lhs_batch.push_back(d);
    dims.rhs_batch.push_back(d);
  }
  dims.lhs_contracting = {rank - (p.a_transposed ? 2 : 1)};
  dims.rhs_contracting = {rank - (p.b_transposed ? 1 : 2)};
  dims.precision = p.precision;
  ProductPlan plan = plan_product(dims, x.layout, y.layout, z.layout.shape, x.dtype, array_rows_);
  plan.vector_unit = false;
  // The result's own strides and dtype; a block is made apart and then added, so that K tiles add as they would in one
  // sweep.
  const auto strided = [&](std::vector<int64_t>& table, int64_t d) {
    for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<int64_t>(i) * z.layout.strides[d];
  };
  strided(plan.c_row, rank - 2);
  strided(plan.c_column, rank - 1);
  for (ProductPlan::Batch& batch : plan.batches) {
    int64_t rest = batch.c / std::max<int64_t>(1, z.layout.shape[rank - 1] * z.layout.shape[rank - 2]);
    batch.c = z.layout.offset;
    for (int64_t d = rank - 3; d >= 0; --d) {
      batch.c += rest % z.layout.shape[d] * z.layout.strides[d];
      rest /= z.layout.shape[d];
    }
  }
  plan.c_dtype = z.dtype;
  plan.pass = p.pass;
  if (is_half(z.dtype))
    fail("matmul", "the result of a block product is f32 or wider, got ", z.dtype, ": convert it in the epilogue");
  plan.accumulate = p.accumulate;
  plan_scratch_.resize(static_cast<size_t>(scratch_bytes(plan)));
  compute(plan, x.base, y.base, z.base, plan_scratch_.data());
}

void Evaluation::convolve(const Step&, Ref c, Ref x, Ref w, const Convolution& v) {
  if (!v.plan) fail("convolve", "a convolution computes whole arrays only: collapse the kernel and give it a plan");
  compute(*v.plan, whole(x), whole(w), whole(c), scratch_);
}

void Evaluation::vector(const Step&, const VectorPlan& plan, const std::vector<Ref>& inputs,
                        const std::vector<Ref>& outputs) {
  in_.clear();
  out_.clear();
  for (Ref r : inputs) in_.push_back(whole(r));
  for (Ref r : outputs) out_.push_back(whole(r));
  compute(plan, in_, out_);
}

void Evaluation::vector(const Step& step, const host::VectorProgram& program, const std::vector<Ref>& inputs,
                        const std::vector<Ref>& outputs) {
  std::vector<Layout> in, out;
  in_.clear();
  out_.clear();
  const Shape shape = block(step, outputs.at(0)).layout.shape;
  for (Ref r : inputs) {
    Block b = block(step, r);
    // Dimensions of 1 stretch, as in numpy.
    Layout stretched{shape, Dims::filled(shape.size(), 0), b.layout.offset};
    const int64_t lead = shape.size() - b.layout.shape.size();
    for (int64_t d = std::max<int64_t>(0, -lead); d < b.layout.shape.size(); ++d) {
      if (b.layout.shape[d] != 1 && b.layout.shape[d] != shape[d + lead])
        fail("vector", "the block ", b.layout.shape, " does not stretch to ", shape);
      stretched.strides[d + lead] = b.layout.shape[d] == 1 ? 0 : b.layout.strides[d];
    }
    in.push_back(stretched);
    in_.push_back(b.base);
  }
  for (Ref r : outputs) {
    Block b = block(step, r);
    if (b.layout.shape != shape)
      fail("vector", "outputs of one program differ in shape: ", shape, " and ", b.layout.shape);
    out.push_back(b.layout);
    out_.push_back(b.base);
  }
  compute(plan_vector(program, shape, in, out), in_, out_);
}

void Evaluation::reduce(const Step&, Ref out, Ref in, const ReducePlan& plan) {
  compute(plan, whole(in), whole(out), scratch_);
}

void Evaluation::reduce(const Step& step, Ref out, Ref in, Reduction kind, int64_t axis) {
  const Block x = block(step, in), y = block(step, out);
  const ReducePlan plan = plan_reduce({kind, {axis}}, x.layout, x.dtype);
  plan_scratch_.resize(static_cast<size_t>(scratch_bytes(plan) + 128));
  std::vector<std::byte> result(static_cast<size_t>(element_count(y.layout.shape) * size_of(y.dtype)));
  compute(plan, x.base, result.data(), plan_scratch_.data());
  CopyPlan copy = plan_copy(y.dtype, Layout::row_major(y.layout.shape));
  copy.regions[0].copy =
      plan_vector(copy.regions[0].copy.program, y.layout.shape, {Layout::row_major(y.layout.shape)}, {y.layout});
  compute(copy, {result.data()}, y.base);
}

void Evaluation::transpose(const Step& step, Ref out, Ref in) {
  if (kernel_->collapses()) return;  // the plan reads the operand through its own strides
  Block x = block(step, in);
  const Block y = block(step, out);
  const int64_t rank = x.layout.shape.size();
  std::swap(x.layout.shape[rank - 1], x.layout.shape[rank - 2]);
  std::swap(x.layout.strides[rank - 1], x.layout.strides[rank - 2]);
  Layout to = y.layout;
  to.shape = x.layout.shape;
  CopyPlan copy = plan_copy(x.dtype, x.layout);
  copy.regions[0].copy = plan_vector(copy.regions[0].copy.program, to.shape, {x.layout}, {to});
  compute(copy, {x.base}, y.base);
}

void Evaluation::copy(const Step& step, Ref out, const std::vector<Ref>& parts, const CopyWork& work) {
  in_.clear();
  if (work.plan) {
    for (Ref r : parts) in_.push_back(whole(r));
    return compute(*work.plan, in_, whole(out));
  }
  const Block x = block(step, parts.at(0)), y = block(step, out);
  CopyPlan copy = plan_copy(x.dtype, x.layout);
  copy.regions[0].copy = plan_vector(copy.regions[0].copy.program, y.layout.shape, {x.layout}, {y.layout});
  compute(copy, {x.base}, y.base);
}

void Evaluation::array(Ref out, const std::vector<Ref>& operands, const host::ArrayOperation& operation) {
  in_.clear();
  for (Ref r : operands) in_.push_back(whole(r));
  operation.run(in_, whole(out), scratch_);
}

void Evaluation::random(const Step& step, Ref out, Ref key, const RandomPlan* plan) {
  const RefSpec& spec = kernel_->refs()[static_cast<size_t>(out.index)];
  RandomPlan all;
  if (!plan) {
    if (block_extent(spec, spec.map(step.index_)) != spec.array.shape)
      fail("random", "a kernel draws whole arrays only");
    all.samples = spec.array.shape.empty() ? 1 : spec.array.shape[0];
    all.words = all.samples == 0 ? 0 : element_count(spec.array.shape) / all.samples;
    plan = &all;
  }
  compute(*plan, static_cast<const uint32_t*>(whole(key)), static_cast<uint32_t*>(whole(out)));
}

}  // namespace backbeat::sim
