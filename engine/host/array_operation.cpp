#include "engine/host/array_operation.hpp"

#include "engine/host/array_kernels.hpp"

namespace backbeat::host {

bool is_array_operation(Op op) {
  switch (op) {
    case Op::dynamic_slice:
    case Op::dynamic_update_slice:
    case Op::gather:
    case Op::scatter:
    case Op::sort:
    case Op::argmax:
    case Op::cumsum:
    case Op::reduce_window:
    case Op::select_and_scatter:
    case Op::select_and_gather: return true;
    default: return false;
  }
}

ArrayOperation::ArrayOperation(const Tape& tape, NodeId node)
    : op_(tape[node].op), attributes_(tape[node].attributes), result_{tape[node].shape, tape[node].dtype} {
  if (!is_array_operation(op_)) fail(name_of(op_).data(), "is no operation on whole arrays");
  for (NodeId operand : tape[node].operands) operands_.push_back({tape[operand].shape, tape[operand].dtype});
  // A window remembers where its extreme lies in 32 bits.
  if ((op_ == Op::select_and_scatter || op_ == Op::select_and_gather) && element_count(operands_[0].shape) > INT32_MAX)
    fail(name_of(op_).data(), "more than 2^31 elements in ", operands_[0].dtype, operands_[0].shape);
}

int64_t ArrayOperation::scratch_bytes() const {
  switch (op_) {
    case Op::scatter: return scatter_scratch(result_.shape, result_.dtype, shared<ScatterDims>(attributes_).add);
    case Op::sort: return sort_scratch(operands_[0].shape, operands_[0].dtype, std::get<Axis>(attributes_).index);
    case Op::reduce_window:
    case Op::select_and_scatter:
    case Op::select_and_gather:
      return window_scratch(op_, operands_[0].shape, result_.dtype, shared<WindowDims>(attributes_));
    default: return 0;
  }
}

void ArrayOperation::run(std::span<const void* const> operands, void* out, void* scratch) const {
  const auto at = [&](size_t i) { return DenseArray{operands_[i].shape, operands_[i].dtype, operands[i]}; };
  switch (op_) {
    case Op::dynamic_slice: return dynamic_slice(at(0), at(1), result_.shape, out);
    case Op::dynamic_update_slice: return dynamic_update_slice(at(0), at(1), at(2), out);
    case Op::gather: return gather(at(0), at(1), shared<GatherDims>(attributes_), result_.shape, out);
    case Op::scatter: return scatter(at(0), at(1), at(2), shared<ScatterDims>(attributes_), out, scratch);
    case Op::sort: return sort(at(0), at(1), std::get<Axis>(attributes_).index, out, scratch);
    case Op::argmax: {
      const ReduceDims& dims = std::get<ReduceDims>(attributes_);
      return argmax(at(0), dims.kind, dims.axes[0], out);
    }
    case Op::cumsum: return cumsum(at(0), std::get<CumulativeDims>(attributes_), out);
    case Op::reduce_window: return reduce_window(at(0), shared<WindowDims>(attributes_), result_.shape, out, scratch);
    case Op::select_and_scatter: return select_and_scatter(at(0), at(1), shared<WindowDims>(attributes_), out, scratch);
    default: return select_and_gather(at(0), at(1), shared<WindowDims>(attributes_), result_.shape, out, scratch);
  }
}

}  // namespace backbeat::host
