// Operations that move elements, and the leaves that need filling.
#include "devices/cpu/copy.hpp"
#include "devices/cpu/step.hpp"

namespace backbeat::cpu {

View view_of(const Tape& tape, const Fusion& fusion, NodeId operand) {
  const Node& node = tape[operand];
  if (!is_folded(fusion, operand)) return {operand, row_major_strides(node.shape)};
  const NodeId from = node.operands[0];
  const View inner = view_of(tape, fusion, from);
  const Dims& dims = std::get<Dims>(node.attributes);
  View view{inner.source, Dims::filled(node.shape.size(), 0)};
  for (int64_t i = 0; i < dims.size(); ++i)
    if (tape[from].shape[i] != 1 || node.shape[dims[i]] == 1) view.strides[dims[i]] = inner.strides[i];
  return view;
}

Step shape_step(const Tape& tape, NodeId id) {
  const Node& node = tape[id];
  const NodeId x = node.operands[0];
  const Shape out = node.shape, in = tape[x].shape;
  const DType dtype = node.dtype;
  const Dims dense = row_major_strides(out), strides = row_major_strides(in);
  Step step{{id}, node.operands, {id}, {}, 0, {}};

  // Most of them read their operand with other strides, from some first element.
  Dims read = Dims::filled(out.size(), 0);
  int64_t offset = 0;
  switch (node.op) {
    case Op::broadcast_in_dim: {
      const Dims& dims = std::get<Dims>(node.attributes);
      for (int64_t i = 0; i < dims.size(); ++i)
        if (in[i] != 1 || out[dims[i]] == 1) read[dims[i]] = strides[i];
      break;
    }
    case Op::transpose: {
      const Dims& permutation = std::get<Dims>(node.attributes);
      for (int64_t i = 0; i < out.size(); ++i) read[i] = strides[permutation[i]];
      break;
    }
    case Op::slice: {
      const SliceDims& dims = std::get<SliceDims>(node.attributes);
      for (int64_t i = 0; i < out.size(); ++i) {
        read[i] = strides[i] * dims.stride[i];
        offset += dims.start[i] * strides[i];
      }
      break;
    }
    case Op::reverse: {
      const Dims& axes = std::get<Dims>(node.attributes);
      for (int64_t i = 0; i < out.size(); ++i) {
        read[i] = axes.contains(i) ? -strides[i] : strides[i];
        if (axes.contains(i)) offset += (out[i] - 1) * strides[i];
      }
      break;
    }
    case Op::pad: {
      const PadDims dims = std::get<PadDims>(node.attributes);
      step.work = [=](const Memory& m) { padded_copy(dtype, in, m.at(x), strides, dims.low, dims.interior, out, m.at(id)); };
      return step;
    }
    case Op::concatenate: {
      const int64_t axis = std::get<Axis>(node.attributes).index;
      struct Part {
        NodeId id;
        Shape shape;
        int64_t offset;  // bytes
      };
      std::vector<Part> parts;
      int64_t start = 0;
      for (NodeId part : node.operands) {
        parts.push_back({part, tape[part].shape, start * dense[axis] * size_of(dtype)});
        start += tape[part].shape[axis];
      }
      step.work = [=](const Memory& m) {
        for (const Part& p : parts)
          strided_copy(dtype, p.shape, m.at(p.id), row_major_strides(p.shape), m.at(id) + p.offset, dense);
      };
      return step;
    }
    default: fail("cpu", "no kernel for ", node.op);
  }
  const int64_t bytes = offset * size_of(dtype);
  step.work = [=](const Memory& m) { strided_copy(dtype, out, m.at(x) + bytes, read, m.at(id), dense); };
  return step;
}

Array iota_array(const Tape& tape, NodeId id) {
  const Node& node = tape[id];
  const int64_t axis = std::get<Axis>(node.attributes).index, stride = row_major_strides(node.shape)[axis];
  Array counted(DType::i64, node.shape);
  for (int64_t i = 0; i < counted.size(); ++i) counted.data<int64_t>()[i] = i / stride % node.shape[axis];
  return counted.converted(node.dtype);
}

}  // namespace backbeat::cpu
