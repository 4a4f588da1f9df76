#include "devices/tpu/lower.hpp"

#include <algorithm>
#include <cmath>

#include "devices/tpu/lowerer.hpp"

namespace backbeat::tpu {

Lowering lower(const Program& program, const sim::Chip& chip, bool fuse, bool values) {
  return Lowerer(program, chip, fuse, values).run();
}

Lowerer::Lowerer(const Program& program, const sim::Chip& chip, bool fuse, bool values)
    : program_(program), tape_(program.tape), chip_(chip), values_(values) {
  out_.fusion = fusion_groups(program, fuse);
  const size_t count = at(tape_.size());
  out_.values.resize(count);
  out_.node_tensor.assign(count, -1);
  out_.flops_padded.assign(count, 0);
  tilings_.resize(count);
  kept_.assign(count, false);
  for (NodeId id : program.roots()) kept_[at(id)] = true;
}

Lowering Lowerer::run() {
  leaves();
  for (const FusionGroup& group : out_.fusion.groups) lower_group(group);
  for (NodeId id = 0; id < tape_.size(); ++id)
    if (kept_[at(id)] && tensor_of(id) >= 0) out_.tensors[at(tensor_of(id))].kept = true;
  for (size_t w = 0; w < out_.works.size(); ++w) {
    for (int32_t t : out_.works[w].reads) out_.tensors[at(t)].consumers.push_back(static_cast<int32_t>(w));
    for (int32_t t : out_.works[w].writes)  // what is overwritten later has its first producer
      if (Tensor& tensor = out_.tensors[at(t)]; !tensor.leaf && tensor.producer < 0) tensor.producer = static_cast<int32_t>(w);
  }
  return std::move(out_);
}

// --- tensors and buffers

int32_t Lowerer::new_tensor(NodeId id, const Shape& shape, DType dtype, Tiling tiling) {
  Tensor t;
  t.node = id;
  t.shape = shape;
  t.dtype = dtype;
  t.tiling = tiling;
  t.vregs = vregs(shape, tiling, chip_);
  t.bytes = bytes(shape, dtype, tiling, chip_);
  out_.tensors.push_back(t);
  return static_cast<int32_t>(out_.tensors.size()) - 1;
}

int32_t Lowerer::new_buffer(NodeId id, int64_t size) {
  HostBuffer buffer;
  buffer.node = id;
  buffer.bytes = size;
  out_.buffers.push_back(buffer);
  return static_cast<int32_t>(out_.buffers.size()) - 1;
}

void Lowerer::leaves() {
  std::vector<bool> state(at(tape_.size()), false);
  for (const Program::State& s : program_.states) state[at(s.read)] = true;
  for (NodeId id = 0; id < tape_.size(); ++id) {
    const Node& n = node(id);
    const bool leaf = n.op == Op::input || n.op == Op::constant || n.op == Op::iota;
    if (!leaf || !out_.fusion.live[at(id)]) continue;
    const int32_t t = new_tensor(id, n.shape, n.dtype, smallest(n.shape, chip_));
    out_.tensors[at(t)].leaf = true;
    out_.tensors[at(t)].laid_out = false;
    set_view(id, t, out_.tensors[at(t)].tiling);
    const int32_t b = new_buffer(id, element_count(n.shape) * size_of(n.dtype));
    HostBuffer& buffer = out_.buffers[at(b)];
    buffer.kind = n.op != Op::input ? HostBuffer::constant : state[at(id)] ? HostBuffer::state : HostBuffer::input;
    if (n.op == Op::constant) buffer.constant_value = std::get<Array>(n.attributes);
    if (n.op == Op::iota && values_) {
      buffer.constant_value = Array(n.dtype, n.shape);
      sim::fill_iota(n.dtype, n.shape, std::get<Axis>(n.attributes).index, buffer.constant_value.raw());
    }
    out_.values[at(id)] = {b, sim::Layout::row_major(n.shape)};
  }
}

Tiling Lowerer::tiling_of(NodeId id) const { return tilings_[at(same_value(id))]; }
void Lowerer::set_view(NodeId id, int32_t tensor, Tiling tiling) {
  out_.node_tensor[at(id)] = tensor;
  tilings_[at(id)] = tiling;
}

NodeId Lowerer::source(NodeId id) const {
  while (is_folded(out_.fusion, id)) id = node(id).operands[0];
  return id;
}

sim::Layout Lowerer::layout_of(NodeId id) const {
  if (!is_folded(out_.fusion, id)) return out_.values[at(id)].layout;
  const sim::Layout from = layout_of(node(id).operands[0]);
  sim::Layout to{node(id).shape, Dims::filled(node(id).shape.size(), 0), from.offset};
  const Dims& dims = std::get<Dims>(node(id).attributes);
  for (int64_t d = 0; d < dims.size(); ++d) to.strides[dims[d]] = from.shape[d] == 1 ? 0 : from.strides[d];
  return to;
}

void Lowerer::define(NodeId id, Tiling tiling) {
  const Node& n = node(id);
  set_view(id, new_tensor(id, n.shape, n.dtype, tiling), tiling);
  out_.values[at(id)] = {new_buffer(id, element_count(n.shape) * size_of(n.dtype)), sim::Layout::row_major(n.shape)};
}

Work& Lowerer::add_work(Work work) {
  out_.works.push_back(std::move(work));
  return out_.works.back();
}

int32_t Lowerer::tensor_as(NodeId id, Tiling wanted, NodeId payer) {
  const int32_t t = tensor_of(id);
  Tensor& tensor = out_.tensors[at(t)];
  const Shape& shape = node(id).shape;
  if (!tensor.laid_out && tensor.node == same_value(id)) {
    tensor.laid_out = true;
    if (wanted.lane >= 0 || is_line(shape)) {
      tensor.tiling = wanted;
      tensor.vregs = vregs(shape, wanted, chip_);
      tensor.bytes = bytes(shape, tensor.dtype, wanted, chip_);
      tilings_[at(tensor.node)] = wanted;
    }
    return t;
  }
  tensor.laid_out = true;
  if (same(shape, tiling_of(id), wanted)) return t;
  return turn(t, shape, tiling_of(id), wanted, payer);
}

// A kernel that rearranges registers. The host, whose arrays are row-major, has nothing to do.
int32_t Lowerer::turn(int32_t tensor, const Shape& shape, Tiling, Tiling to, NodeId payer) {
  if (out_.tensors[at(tensor)].vregs == 0) return tensor;
  const std::string key = concat(tensor, shape, to.sublane, ',', to.lane);
  if (auto found = turned_.find(key); found != turned_.end()) return found->second;
  const DType dtype = out_.tensors[at(tensor)].dtype;
  const int32_t result = new_tensor(payer, shape, dtype, to);
  const int64_t from_vregs = out_.tensors[at(tensor)].vregs, to_vregs = out_.tensors[at(result)].vregs;
  Work work;
  work.name = "relayout";
  work.nodes = {payer};
  work.weight = {1};
  work.reads = {tensor};
  work.writes = {result};
  work.has_values = false;
  const int64_t sublanes = chip_.vpu.sublanes, lanes = chip_.vpu.lanes;
  for (int64_t steps : {1, 2, 4, 8, 16, 32, 64, 256, 1024, 8192})
    if (steps <= std::max(from_vregs, to_vregs)) work.tiles.push_back({.m = steps});
  work.build = [=](const Tile& tile) {
    const int64_t in_block = ceil_div(from_vregs, tile.m), out_block = ceil_div(to_vregs, tile.m);
    const int64_t steps = std::max(ceil_div(from_vregs, in_block), ceil_div(to_vregs, out_block));
    const auto clipped = [](int64_t blocks) {
      return [blocks](const Dims& grid) { return Dims{std::min(grid[0], blocks - 1)}; };
    };
    sim::Kernel k("relayout", {steps});
    const sim::Ref in = k.in("in", {dtype, {from_vregs, sublanes, lanes}}, {in_block, sublanes, lanes},
                             clipped(ceil_div(from_vregs, in_block)));
    const sim::Ref out = k.out("out", {dtype, {to_vregs, sublanes, lanes}}, {out_block, sublanes, lanes},
                               clipped(ceil_div(to_vregs, out_block)));
    k.body(
        [=](sim::Step& s) { s.copy(out, in, {.turned_vregs = static_cast<double>(std::max(in_block, out_block))}); });
    return k;
  };
  work.signature = concat("relayout ", from_vregs, ' ', to_vregs, ' ', dtype);
  add_work(std::move(work));
  turned_[key] = result;
  return result;
}

// --- views: nothing moves

bool Lowerer::is_identity(NodeId id) const {
  return node(id).op == Op::optimization_barrier || is_collective(node(id).op);
}

NodeId Lowerer::same_value(NodeId id) const {
  while (is_identity(id)) id = node(id).operands[0];
  return id;
}

bool Lowerer::is_alias(const FusionGroup& group) const {
  if (group.head < 0) return false;
  const Op op = node(group.head).op;
  return op == Op::reshape || op == Op::transpose || is_identity(group.head);
}

void Lowerer::alias(NodeId id) {
  const Node& n = node(id);
  const NodeId from = n.operands[0];
  const sim::Layout& layout = out_.values[at(from)].layout;
  const int32_t t = tensor_of(from);
  if (is_identity(id)) {
    out_.node_tensor[at(id)] = t;
    out_.values[at(id)] = out_.values[at(from)];
    return;
  }
  if (n.op == Op::transpose) {
    const Dims& permutation = std::get<Dims>(n.attributes);
    sim::Layout view{n.shape, Dims::filled(n.shape.size(), 0), layout.offset};
    for (int64_t d = 0; d < permutation.size(); ++d) view.strides[d] = layout.strides[permutation[d]];
    out_.values[at(id)] = {buffer_of(from), view};
    // A leaf that nobody has read yet is laid out for the reader of the transpose.
    set_view(id, t, transposed(tiling_of(from), permutation));
    out_.tensors[at(t)].laid_out = true;
    return;
  }
  // reshape: on the chip a view where the lanes and sublanes survive, on the host where the array is row-major.
  const std::optional<Tiling> kept = reshaped(node(from).shape, tiling_of(from), n.shape);
  const bool fresh_leaf = !out_.tensors[at(t)].laid_out && out_.tensors[at(t)].node == same_value(from);
  if (kept) {
    set_view(id, t, *kept);
    out_.tensors[at(t)].laid_out = true;
  } else if (fresh_leaf) {  // laid out once and for all as the reshaped array is best read
    Tensor& tensor = out_.tensors[at(t)];
    tensor.laid_out = true;
    const Tiling best = smallest(n.shape, chip_);
    if (const auto back = reshaped(n.shape, best, node(from).shape)) {
      tensor.tiling = tilings_[at(tensor.node)] = *back;
      tensor.vregs = vregs(tensor.shape, *back, chip_);
      tensor.bytes = bytes(tensor.shape, tensor.dtype, *back, chip_);
      set_view(id, t, best);
    } else {
      set_view(id, turn(t, n.shape, tiling_of(from), best, id), best);
    }
  } else {
    const Tiling best = smallest(n.shape, chip_);
    set_view(id, turn(t, n.shape, tiling_of(from), best, id), best);
  }
  if (layout.is_row_major()) {
    sim::Layout view = sim::Layout::row_major(n.shape);
    view.offset = layout.offset;
    out_.values[at(id)] = {buffer_of(from), view};
    return;
  }
  // A host copy without a kernel: the chip has already paid for what it had to move.
  out_.values[at(id)] = {copy_on_host(id, out_.values[at(from)]), sim::Layout::row_major(n.shape)};
}

int32_t Lowerer::copy_on_host(NodeId id, const HostValue& value) {
  const DType dtype = node(id).dtype;
  const sim::Layout from = value.layout;
  const int32_t buffer = new_buffer(id, element_count(from.shape) * size_of(dtype));
  if (element_count(from.shape) == 0) return buffer;
  Work copy;
  copy.name = "host copy";
  copy.host_buffers = {value.buffer, buffer};
  const auto plan = std::make_shared<sim::CopyPlan>(sim::plan_copy(dtype, from));
  copy.build = [=, shape = from.shape](const Tile&) {
    sim::Kernel k("host copy", {1});
    const sim::Ref in = k.in("in", {dtype, shape}, shape, sim::whole()),
                   out = k.out("out", {dtype, shape}, shape, sim::whole());
    k.collapse();
    k.body([=](sim::Step& s) { s.copy(out, in, {.plan = plan}); });
    return k;
  };
  add_work(std::move(copy));
  return buffer;
}

int32_t Lowerer::row_major(NodeId id) {
  HostValue& value = out_.values[at(id)];
  if (!value.layout.is_row_major() || value.layout.offset != 0)
    value = {copy_on_host(id, value), sim::Layout::row_major(node(id).shape)};
  return value.buffer;
}

void Lowerer::lower_group(const FusionGroup& group) {
  if (is_alias(group)) return alias(group.head);
  if (group.head < 0) return lower_chain(group);
  switch (node(group.head).op) {
    case Op::dot_general:
      return lower_dot(group);
    case Op::convolution:
      return lower_convolution(group);
    case Op::rng_bit_generator:
      return lower_random(group.head);
    case Op::cumsum:
      return lower_cumsum(group.head);
    case Op::argmax:
      return lower_argmax(group.head);
    case Op::sort:
      return lower_sort(group.head);
    case Op::reduce_window:
    case Op::select_and_scatter:
    case Op::select_and_gather:
      return lower_window(group.head);
    case Op::gather:
    case Op::dynamic_slice:
      return lower_gather(group.head);
    case Op::scatter:
      return lower_scatter(group.head);
    case Op::dynamic_update_slice:
      return lower_update(group.head);
    default:
      return lower_move(group.head);
  }
}

// --- chains

Tiling Lowerer::tiling_for(const FusionGroup& group) {
  if (is_line(group.shape)) return {};
  // The first full operand that already lies somewhere decides; else the smallest layout.
  for (NodeId id : group.operands)
    if (node(id).shape == group.shape && out_.tensors[at(tensor_of(id))].laid_out) return tiling_of(id);
  return smallest(group.shape, chip_);
}

Lowerer::Chain Lowerer::chain_of(const FusionGroup& group, const std::vector<NodeId>& outputs) {
  Chain chain;
  chain.outputs = outputs;
  std::vector<int> reg(at(tape_.size()), -1);
  std::vector<NodeId> scalars;
  std::map<NodeId, NodeId> last_use;
  const auto member = [&](NodeId id) {
    return id == group.head || std::binary_search(group.chain.begin(), group.chain.end(), id);
  };
  for (NodeId id : group.chain)
    for (NodeId operand : node(id).operands) {
      last_use[operand] = id;
      if (member(operand) && operand != group.head) continue;
      if (reg[at(operand)] >= 0) continue;
      const NodeId from = operand == group.head ? operand : source(operand);
      if (host::is_immediate(node(from)) && operand != group.head) {
        reg[at(operand)] = static_cast<int>(-2);
        scalars.push_back(operand);
        continue;
      }
      // The same source read in the same way shares a register.
      const sim::Layout layout = operand == group.head ? sim::Layout::row_major(group.shape) : layout_of(operand);
      for (size_t i = 0; i < chain.inputs.size(); ++i)
        if (chain.inputs[i] == from && chain.layouts[i].strides == layout.strides &&
            chain.layouts[i].offset == layout.offset)
          reg[at(operand)] = static_cast<int>(i);
      if (reg[at(operand)] >= 0) continue;
      reg[at(operand)] = static_cast<int>(chain.inputs.size());
      chain.inputs.push_back(from);
      chain.layouts.push_back(layout);
      chain.program.input_dtypes.push_back(node(from).dtype);
    }
  host::VectorProgram& program = chain.program;
  program.inputs = static_cast<int>(chain.inputs.size());
  int next = program.inputs;
  for (NodeId id : scalars) {
    reg[at(id)] = next++;
    host::VectorOp op;
    op.op = Op::constant;
    op.dtype = op.operand_dtype = node(id).dtype;
    op.destination = reg[at(id)];
    op.value = std::get<Array>(node(source(id)).attributes).at(0);
    program.ops.push_back(op);
  }
  std::vector<int> free;             // registers whose value is dead
  std::map<int, NodeId> held_until;  // by register
  for (NodeId id : group.chain) {
    const Node& n = node(id);
    const auto release = [&] {
      for (auto it = held_until.begin(); it != held_until.end();) {
        if (it->second < id) {
          free.push_back(it->first);
          it = held_until.erase(it);
        } else
          ++it;
      }
    };
    release();
    const bool is_output = std::find(outputs.begin(), outputs.end(), id) != outputs.end();
    const NodeId until = is_output ? tape_.size() : last_use.count(id) ? last_use[id] : id;
    if (n.op == Op::stop_gradient) {
      reg[at(id)] = reg[at(n.operands[0])];
      if (auto held = held_until.find(reg[at(id)]); held != held_until.end())
        held->second = std::max(held->second, until);
      continue;
    }
    host::VectorOp op = host::vector_op(n, node(n.operands[0]).dtype);
    int* slots[] = {&op.a, &op.b, &op.c};
    for (size_t i = 0; i < n.operands.size(); ++i) *slots[i] = reg[at(n.operands[i])];
    if (free.empty()) {
      op.destination = next++;
    } else {
      op.destination = free.back();
      free.pop_back();
    }
    reg[at(id)] = op.destination;
    held_until[op.destination] = until;
    program.ops.push_back(op);
  }
  for (NodeId id : outputs) {
    program.outputs.push_back(reg[at(id)]);
    program.output_dtypes.push_back(node(id).dtype);
  }
  program.registers = std::max(next, 1);
  return chain;
}

// Registers that have to be spread over the lanes: operands that vary along sublanes but not along lanes.
double Lowerer::lane_broadcasts(const Chain& chain, const Shape& shape, Tiling tiling) const {
  if (tiling.lane < 0 || is_line(shape)) return 0;
  const double rows = static_cast<double>(vregs(shape, tiling, chip_)) /
                      static_cast<double>(ceil_div(shape[tiling.lane], chip_.vpu.lanes));
  double count = 0;
  for (const sim::Layout& layout : chain.layouts)
    if (shape[tiling.lane] > 1 && layout.strides[tiling.lane] == 0 && tiling.sublane >= 0 &&
        layout.strides[tiling.sublane] != 0)
      count += rows;
  return count;
}

void Lowerer::count_chain_flops(const FusionGroup& group, int64_t registers) {
  const int64_t padded = registers * chip_.vpu.sublanes * chip_.vpu.lanes;
  for (NodeId id : group.chain) {
    if (node(id).op == Op::stop_gradient) continue;
    out_.flops_padded[at(id)] = padded;
  }
  for (NodeId id : group.reductions) {
    out_.flops_padded[at(id)] = padded;
  }
}

}  // namespace backbeat::tpu
