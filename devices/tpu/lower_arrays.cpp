// What the operations of host::ArrayOperation share, and those along one axis: cumsum, argmax, sort. Slots, rotations
// and registers are counted for the whole array, from its layout; docs/model.md lists the formulas.
#include <algorithm>
#include <cmath>

#include "devices/tpu/lowerer.hpp"

namespace backbeat::tpu {

namespace {
int64_t log2_up(int64_t n) {
  int64_t bits = 0;
  while ((int64_t{1} << bits) < n) ++bits;
  return bits;
}
double words_of(DType dtype) { return std::max(1.0, static_cast<double>(size_of(dtype)) / 4); }
}  // namespace

Lowerer::Along Lowerer::along(const Shape& shape, Tiling tiling, int64_t axis) const {
  const int64_t n = std::max<int64_t>(1, shape[axis]), lanes = chip_.vpu.lanes, sublanes = chip_.vpu.sublanes;
  if (n == 1) return {};
  if (is_line(shape) || tiling.lane < 0)
    return {ceil_div(n, sublanes * lanes), true, n > lanes};  // fills whole registers
  if (axis == tiling.lane) return {ceil_div(n, lanes), true, false};
  if (axis == tiling.sublane) return {ceil_div(n, sublanes), false, true};
  return {n, false, false};
}

double Lowerer::cycles_of(const sim::ArrayWork& w) const {
  return std::max({w.slots / static_cast<double>(chip_.vpu.alus),
                   w.lane_turns * chip_.xlu.reduce_cycles_per_vreg + w.sublane_turns,
                   w.loads / chip_.vmem.loads_per_cycle, w.stores / chip_.vmem.stores_per_cycle, w.loop});
}

Tiling Lowerer::lay_out(NodeId x, NodeId payer, const std::function<double(Tiling)>& cycles) {
  const Shape& shape = node(x).shape;
  if (is_line(shape)) return tensor_as(x, {}, payer), Tiling{};
  const auto total = [&](Tiling t) {  // the array comes and goes, padding included
    return cycles(t) + static_cast<double>(bytes(shape, node(x).dtype, t, chip_)) / chip_.hbm_bytes_per_cycle();
  };
  Tiling best;
  double least = 0;
  for (int64_t lane = shape.size() - 1; lane >= 0; --lane)
    for (int64_t sublane = shape.size() - 1; sublane >= 0; --sublane) {
      if (lane == sublane) continue;
      const double here = total({sublane, lane});
      if (best.lane >= 0 && here >= least) continue;
      best = {sublane, lane};
      least = here;
    }
  const Tensor& tensor = out_.tensors[at(tensor_of(x))];
  const bool fresh = !tensor.laid_out && tensor.node == same_value(x);
  const Tiling now = tiling_of(x);
  const double turning =
      static_cast<double>(std::max(tensor.vregs, vregs(shape, best, chip_))) * chip_.xlu.transpose_cycles_per_vreg;
  if (!fresh && total(now) <= least + turning) best = now;
  return tensor_as(x, best, payer), best;
}

int Lowerer::read(Work& work, sim::ArraySpecs& spec, NodeId id, int32_t tensor, sim::ArraySpecs::Place place) {
  out_.tensors[at(tensor)].laid_out = true;
  const int32_t buffer = row_major(id);
  for (size_t i = 0; i < work.reads.size(); ++i)
    if (work.reads[i] == tensor && work.host_buffers[i] == buffer && spec.inputs[i].place == place)
      return static_cast<int>(i);
  work.reads.push_back(tensor);
  work.host_buffers.push_back(buffer);
  spec.inputs.push_back({node(id).dtype, std::max<int64_t>(1, out_.tensors[at(tensor)].vregs), place});
  return static_cast<int>(work.reads.size()) - 1;
}

Work Lowerer::start_array(NodeId id, sim::ArraySpecs& spec) const {
  Work work;
  work.name = spec.name = name_of(node(id).op);
  work.nodes = {id};
  work.weight = {1};
  return work;
}

// The node is defined: `work` and `spec` get its result, and the blocks that are worth a try if there are none yet.
void Lowerer::add_array(NodeId id, Work work, sim::ArraySpecs spec) {
  work.writes.insert(work.writes.begin(), tensor_of(id));
  work.host_buffers.push_back(out_.values[at(id)].buffer);
  if (spec.outputs.empty()) spec.outputs.push_back({});
  spec.outputs[0].dtype = node(id).dtype;
  spec.outputs[0].vregs = std::max<int64_t>(1, out_.tensors[at(tensor_of(id))].vregs);
  int64_t most = spec.outputs[0].vregs;
  for (const auto& input : spec.inputs)
    if (input.place == sim::ArraySpecs::along) most = std::max(most, input.vregs);
  if (work.tiles.empty())
    for (int64_t steps : {1, 2, 4, 8, 16, 32, 64, 256, 1024, 4096, 16384})
      if (steps <= most) work.tiles.push_back({.m = steps, .n = 1});
  if (values_) {
    const auto operation = std::make_shared<host::ArrayOperation>(tape_, id);
    work.scratch_bytes = operation->scratch_bytes();
    spec.work.operation = operation;
  }
  work.build = [spec, this_chip = chip_](const Tile& t) {
    return sim::array_kernel(spec, {.steps = t.m, .passes = std::max<int64_t>(1, t.n), .rows_stay = t.swap_order},
                             this_chip);
  };
  const sim::ArrayWork& w = spec.work;
  work.signature =
      concat(spec.name, ' ', w.slots, ' ', w.lane_turns, ' ', w.sublane_turns, ' ', w.loads, ' ', w.stores, ' ', w.loop,
             ' ', w.in_sequence, ' ', spec.rows.rows, ' ', spec.rows.addresses, ' ', spec.rows.vregs, ' ',
             spec.rows.pieces, ' ', spec.rows.piece_bytes, ' ', spec.rows_from, ' ', spec.adds, ' ',
             spec.step_addresses, ' ', cycles_of(spec.cut), ' ', spec.pieces, ' ', spec.carried_vregs);
  for (const auto* side : {&spec.inputs, &spec.outputs})
    for (const auto& o : *side) work.signature += concat(' ', o.dtype, o.vregs, ' ', o.place);
  for (const Tile& t : work.tiles) work.signature += concat(' ', t.m, 'x', t.n, t.swap_order);
  add_work(std::move(work));
}

// --- along one axis

// What begins a walk of one operand: its layout, itself as the input, its work, the pieces that need nothing of each other.
Tiling Lowerer::start_along(NodeId id, int64_t axis, const std::function<sim::ArrayWork(Tiling)>& count, Work& work,
                            sim::ArraySpecs& spec) {
  const NodeId x = node(id).operands[0];
  const Tiling tiling = lay_out(x, id, [&](Tiling t) { return cycles_of(count(t)); });
  work = start_array(id, spec);
  spec.operands = {read(work, spec, x, tensor_as(x, tiling, id), sim::ArraySpecs::along)};
  spec.work = count(tiling);
  spec.pieces = spec.inputs[0].vregs / along(node(x).shape, tiling, axis).registers;
  return tiling;
}

// Off the tile one addition a register. Inside of registers log2 steps of a rotation and a masked addition, then what
// came before is added.
void Lowerer::lower_cumsum(NodeId id) {
  const Node& n = node(id);
  const int64_t axis = std::get<CumulativeDims>(n.attributes).axis;
  const double words = words_of(n.dtype), add = sim::slots_of(Op::add, n.dtype, chip_);
  const auto count = [&](Tiling tiling) {
    const Along a = along(n.shape, tiling, axis);
    const auto registers = static_cast<double>(vregs(n.shape, tiling, chip_));
    const int64_t across = a.lanes ? log2_up(std::min(n.shape[axis], chip_.vpu.lanes)) : 0;
    const int64_t lanes = a.lanes ? chip_.vpu.lanes : 1;
    const int64_t down = a.sublanes ? log2_up(std::min(ceil_div(n.shape[axis], lanes), chip_.vpu.sublanes)) : 0;
    const bool follows = a.registers > 1;
    sim::ArrayWork w;
    w.slots = registers *
              (add * static_cast<double>(2 * (across + down) + (across + down == 0 || follows)) + is_half(n.dtype));
    w.lane_turns = registers * words * static_cast<double>(across + (follows && a.lanes));
    w.sublane_turns = registers * words * static_cast<double>(down + (follows && a.sublanes));
    w.loads = w.stores = registers * static_cast<double>(size_of(n.dtype)) / 4;
    w.in_sequence = static_cast<double>(a.registers * chip_.vpu.latency);
    return w;
  };
  sim::ArraySpecs spec;
  Work work;
  const Tiling tiling = start_along(id, axis, count, work, spec);
  spec.carried_vregs = 1;
  define(id, tiling);
  out_.flops_padded[at(id)] = out_.tensors[at(tensor_of(id))].vregs * chip_.vpu.sublanes * chip_.vpu.lanes;
  add_array(id, std::move(work), std::move(spec));
}

// Compare and two selects a register; then, across a register, first the extreme and then the least place that has it.
void Lowerer::lower_argmax(NodeId id) {
  const Node& n = node(id);
  const NodeId x = n.operands[0];
  const Shape& shape = node(x).shape;
  const int64_t axis = std::get<ReduceDims>(n.attributes).axes[0];
  const DType dtype = node(x).dtype;
  const double words = words_of(dtype);
  const auto count = [&](Tiling tiling) {
    const Along a = along(shape, tiling, axis);
    const auto registers = static_cast<double>(vregs(shape, tiling, chip_)),
               left = registers / static_cast<double>(a.registers);
    const auto rolls = static_cast<double>(log2_up(chip_.vpu.sublanes));
    sim::ArrayWork w;
    w.slots = 3 * sim::slots_of(Op::maximum, dtype, chip_) * (registers + (a.sublanes ? left * rolls : 0));
    w.lane_turns = a.lanes ? left * (words + 1) : 0;
    w.sublane_turns = a.sublanes ? left * rolls * (words + 1) : 0;
    w.loads = registers * static_cast<double>(size_of(dtype)) / 4;
    w.stores = left;
    return w;
  };
  sim::ArraySpecs spec;
  Work work;
  const Tiling tiling = start_along(id, axis, count, work, spec);
  spec.carried_vregs = 2;
  Tiling kept;  // of what is left
  for (int64_t d = 0, left = 0; d < shape.size(); ++d) {
    if (d == axis) continue;
    if (d == tiling.lane) kept.lane = left;
    if (d == tiling.sublane) kept.sublane = left;
    ++left;
  }
  if (kept.lane < 0 || kept.sublane < 0) kept = smallest(n.shape, chip_);
  define(id, kept);
  out_.flops_padded[at(id)] = vregs(shape, tiling, chip_) * chip_.vpu.sublanes * chip_.vpu.lanes;
  add_array(id, std::move(work), std::move(spec));
}

// A bitonic network over 2^bits elements along an axis. Between registers a pair is compared once; inside of one each
// register is compared with itself, rotated. `words`: of 32 bits, of all arrays that move together.
sim::ArrayWork Lowerer::sorting(Shape shape, Tiling tiling, int64_t axis, double arrays, double words,
                                double slot) const {
  const int64_t bits = log2_up(shape[axis]);
  if (shape[axis] > 0) shape[axis] = int64_t{1} << bits;
  const Along a = along(shape, tiling, axis);
  const auto registers = static_cast<double>(vregs(shape, tiling, chip_));
  const int64_t lane_bits = a.lanes ? std::min(bits, log2_up(chip_.vpu.lanes)) : 0;
  const int64_t sublane_bits = a.sublanes ? std::min(bits - lane_bits, log2_up(chip_.vpu.sublanes)) : 0;
  // A stride of 2^j is met by the merges of 2^(j+1) and more: bits - j times.
  double by_lane = 0, by_sublane = 0, between = 0;
  for (int64_t j = 0; j < bits; ++j)
    (j < lane_bits ? by_lane : j < lane_bits + sublane_bits ? by_sublane : between) += static_cast<double>(bits - j);
  sim::ArrayWork w;
  w.slots = registers * slot * (between * (4 + 2 * arrays) / 2 + (by_lane + by_sublane) * (4 + arrays));
  w.lane_turns = registers * words * by_lane;
  w.sublane_turns = registers * words * by_sublane;
  w.loads = w.stores = registers * words * std::max(1.0, by_lane + by_sublane + between);
  w.in_sequence = static_cast<double>(bits * (bits + 1) / 2 * 3 * chip_.vpu.latency);
  return w;
}

// The keys, their places (equal keys keep their order) and the values move together.
void Lowerer::lower_sort(NodeId id) {
  const Node& n = node(id);
  const NodeId keys = n.operands[0], values = n.operands[1];
  const int64_t axis = std::get<Axis>(n.attributes).index;
  const DType key_type = node(keys).dtype;
  const bool apart = same_value(keys) != same_value(values);
  const double arrays = apart ? 3 : 2;
  const double words = words_of(key_type) + 1 + (apart ? words_of(n.dtype) : 0);
  const int64_t bits = log2_up(n.shape[axis]);
  const double slot = std::max(sim::slots_of(Op::select, key_type, chip_), sim::slots_of(Op::select, n.dtype, chip_));
  const auto count = [&](Tiling tiling) { return sorting(n.shape, tiling, axis, arrays, words, slot); };
  const Tiling tiling = lay_out(keys, id, [&](Tiling t) { return cycles_of(count(t)); });
  sim::ArraySpecs spec;
  Work work = start_array(id, spec);
  spec.operands.push_back(read(work, spec, keys, tensor_as(keys, tiling, id), sim::ArraySpecs::along));
  spec.operands.push_back(apart ? read(work, spec, values, tensor_as(values, tiling, id), sim::ArraySpecs::along) : 0);
  spec.work = count(tiling);
  define(id, tiling);

  // Arrays along the axis that do not fit into VMEM go through it in parts: sorted one by one, then merged, each stage
  // whose stride is longer than a part in a pass of its own.
  const int64_t registers = std::max<int64_t>(1, vregs(n.shape, tiling, chip_));
  const int64_t pieces = std::max<int64_t>(1, registers / along(n.shape, tiling, axis).registers);
  const double register_bytes =
      static_cast<double>(chip_.vpu.sublanes * chip_.vpu.lanes * 4) * (words + words_of(n.dtype));
  const double piece_bytes = static_cast<double>(ceil_div(registers, pieces)) * register_bytes;
  spec.pieces = pieces;
  if (2 * piece_bytes <= static_cast<double>(chip_.vmem.bytes)) {
    for (int64_t steps = 1; steps <= pieces; steps *= 4) work.tiles.push_back({.m = steps, .n = 1});
    if (pieces > 1) work.tiles.push_back({.m = pieces, .n = 1});
  } else {
    const int32_t order = new_tensor(id, n.shape, DType::i32, tiling);  // keys and places between passes
    work.writes.push_back(order);
    spec.outputs = {{}, {DType::i32, out_.tensors[at(order)].vregs}};
    for (int64_t merges = 1; merges <= std::min<int64_t>(bits, 20); ++merges)
      if (const int64_t steps = pieces << merges; steps <= registers)
        work.tiles.push_back({.m = steps, .n = 1 + merges * (merges + 3) / 2});
  }
  add_array(id, std::move(work), std::move(spec));
}

}  // namespace backbeat::tpu
