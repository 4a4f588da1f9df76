#include "sim/kernel.hpp"

#include <algorithm>

namespace backbeat::sim {

IndexMap at(const Dims& axes) {
  return [axes](const Dims& grid) {
    Dims index;
    for (int64_t a : axes) index.push_back(a < 0 ? 0 : grid[a]);
    return index;
  };
}
IndexMap whole() {
  return [](const Dims&) { return Dims{}; };
}

Kernel::Kernel(std::string name, const Dims& grid) : name_(std::move(name)), grid_(grid) {
  for (int64_t axis : grid)
    if (axis < 1) fail("kernel", name_, ": every axis of the grid must be at least 1, got ", grid);
}

Ref Kernel::add(RefSpec spec) {
  if (spec.block.size() != spec.array.shape.size())
    fail("kernel", name_, ": the block ", spec.block, " of ", spec.name, " must have as many dimensions as ",
         spec.array.dtype, spec.array.shape);
  for (int64_t d = 0; d < spec.block.size(); ++d)
    if (spec.block[d] < 1)
      fail("kernel", name_, ": the block of ", spec.name, " must be at least 1 everywhere, got ", spec.block);
  refs_.push_back(std::move(spec));
  return {static_cast<int32_t>(refs_.size()) - 1};
}
Ref Kernel::in(const std::string& name, const ArraySpec& array, const Dims& block, IndexMap map) {
  return add({name, RefSpec::input, array, block, std::move(map)});
}
Ref Kernel::out(const std::string& name, const ArraySpec& array, const Dims& block, IndexMap map) {
  return add({name, RefSpec::output, array, block, std::move(map)});
}
Ref Kernel::scratch(const std::string& name, const ArraySpec& array) {
  return add({name, RefSpec::scratch, array, array.shape, whole()});
}
Ref Kernel::staying(const std::string& name, RefSpec::Role role, const ArraySpec& array) {
  return add({name, role, array, array.shape, whole(), true});
}

int64_t padded_elements(const Dims& extent, int64_t sublanes, int64_t lanes) {
  const auto up = [](int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; };
  if (extent.empty()) return sublanes * lanes;
  if (extent.size() == 1) return up(extent[0], sublanes * lanes);
  int64_t elements = up(extent[extent.size() - 1], lanes) * up(extent[extent.size() - 2], sublanes);
  for (int64_t d = 0; d + 2 < extent.size(); ++d) elements *= extent[d];
  return elements;
}

Dims block_extent(const RefSpec& spec, const Dims& block_index) {
  Dims extent = spec.block;
  for (int64_t d = 0; d < extent.size(); ++d) {
    const int64_t begin = (d < block_index.size() ? block_index[d] : 0) * spec.block[d];
    if (begin >= spec.array.shape[d] && spec.array.shape[d] > 0)
      fail("kernel", "block ", block_index, " of ", spec.name, " lies outside ", spec.array.dtype, spec.array.shape,
           " in blocks of ", spec.block);
    extent[d] = std::min(spec.block[d], spec.array.shape[d] - begin);
  }
  return extent;
}

namespace {
struct OpWork {
  double slots, pushes;
};
// Classes of the Pallas documentation: cheap, medium (with the transcendental unit), dear.
OpWork op_work(Op op, const Chip& chip) {
  switch (op) {
    case Op::constant:
    case Op::stop_gradient:
      return {0, 0};
    case Op::exp:
    case Op::log:
    case Op::tanh:
    case Op::rsqrt:
      return {chip.vpu.medium_slots, 1};
    case Op::divide:
    case Op::sqrt:
      return {chip.vpu.medium_slots + 1, 1};
    case Op::remainder:
      return {chip.vpu.medium_slots + 4, 1};
    case Op::expm1:
    case Op::log1p:
    case Op::logistic:
    case Op::power:
      return {2 * chip.vpu.medium_slots, 2};
    case Op::erf:
    case Op::sine:
    case Op::cosine:
      return {chip.vpu.dear_slots, 0};
    case Op::reduce_precision:
      return {9, 0};
    case Op::sign:
      return {3, 0};
    case Op::is_finite:
    case Op::clamp:
      return {2, 0};
    default:
      return {1, 0};
  }
}
}  // namespace

double slots_of(Op op, DType dtype, const Chip& chip) {
  const OpWork work = op_work(op, chip);
  const double factor = dtype == DType::f64   ? chip.emulation.f64_slots
                        : dtype == DType::i64 ? chip.emulation.i64_slots
                                              : 1;
  return std::max(0.25, (work.slots + work.pushes) * factor);
}

VectorWork work_of(const host::VectorProgram& program, const Chip& chip) {
  VectorWork work;
  for (const host::VectorOp& op : program.ops) {
    const OpWork w = op_work(op.op, chip);
    // Whatever is wider than 32 bits is emulated, transcendentals too, on the vector unit.
    const DType wide = size_of(op.operand_dtype) > size_of(op.dtype) ? op.operand_dtype : op.dtype;
    if (wide == DType::f64)
      work.alu_slots += (w.slots + w.pushes) * chip.emulation.f64_slots;
    else if (wide == DType::i64)
      work.alu_slots += (w.slots + w.pushes) * chip.emulation.i64_slots;
    else
      work.alu_slots += w.slots, work.eup_pushes += w.pushes;
    // Without arithmetic of halves each result is rounded back: they run on this vector unit as f32.
    if (is_half(op.dtype) && op.op != Op::convert && w.slots > 0) work.alu_slots += 1;
  }
  return work;
}

}  // namespace backbeat::sim
