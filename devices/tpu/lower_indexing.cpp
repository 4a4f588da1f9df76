// gather, scatter and slices at a computed start: rows, one after the other, each at an address of the scalar unit.
#include <algorithm>

#include "devices/tpu/lowerer.hpp"

namespace backbeat::tpu {

namespace {

// One slice of an array: its registers, what it is in main memory, and whether it has to be rotated along the lanes.
struct Slice {
  int64_t vregs = 1;
  sim::RowWork row;
  bool turned = false;
};

Slice slice_of(const Shape& shape, DType dtype, Tiling tiling, const Shape& sizes, const Dims& computed,
               const sim::Chip& chip) {
  Slice s;
  s.vregs = std::max<int64_t>(element_count(sizes) == 0 ? 0 : 1, vregs(sizes, tiling, chip));
  const auto moves = [&](int64_t d) { return d >= 0 && computed.contains(d) && sizes[d] < shape[d]; };
  const int64_t lanes = chip.vpu.lanes, sublanes = chip.vpu.sublanes;
  int64_t elements = std::min(std::max<int64_t>(1, element_count(sizes)), lanes * sublanes);
  if (is_line(shape) || tiling.lane < 0) {
    for (int64_t d : computed) s.turned = s.turned || moves(d);
  } else {
    s.turned = moves(tiling.lane);
    const int64_t down = tiling.sublane < 0 ? 1 : std::min(sizes[tiling.sublane], sublanes);
    elements = down > 1 ? down * lanes : std::min(sizes[tiling.lane], lanes);
  }
  s.row.vregs = static_cast<double>(s.vregs) * std::max(1.0, static_cast<double>(size_of(dtype)) / 4);
  s.row.pieces = static_cast<double>(s.vregs);
  s.row.piece_bytes = std::max<int64_t>(1, elements) * size_of(dtype);
  return s;
}

// Of what a gather reads: the dimensions of its result that hold those of x's slices; -1: collapsed.
Dims places_of(const GatherDims& g, int64_t rank) {
  Dims places = Dims::filled(rank, -1);
  for (int64_t d = 0, i = 0; d < rank; ++d)
    if (!g.collapsed.contains(d)) places[d] = g.offset[i++];
  return places;
}

// The tiling of the slices' side that leaves each slice as it lies in x.
Tiling tiling_of_slices(const GatherDims& g, const Shape& x, Tiling tiling, const Shape& slices,
                        const sim::Chip& chip) {
  if (is_line(slices) || tiling.lane < 0) return smallest(slices, chip);
  const Dims places = places_of(g, x.size());
  Tiling out{tiling.sublane < 0 ? -1 : places[tiling.sublane], places[tiling.lane]};
  if (out.lane < 0) return smallest(slices, chip);
  for (int64_t d = slices.size() - 1; d >= 0 && out.sublane < 0; --d)
    if (!g.offset.contains(d)) out.sublane = d;
  return out.sublane < 0 ? smallest(slices, chip) : out;
}

// The table in VMEM, or where it is.
void add_places(Work& work, int64_t most) {
  for (int64_t steps : {1, 4, 16})
    if (steps <= most) work.tiles.push_back({.m = steps, .n = 1});
  for (int64_t steps : {1, 4, 16, 64, 256, 1024, 2048, 4096, 16384, 65536})
    if (steps <= most) work.tiles.push_back({.m = steps, .n = 1, .swap_order = true});
}

}  // namespace

void Lowerer::lower_gather(NodeId id) {
  const Node& n = node(id);
  const NodeId x = n.operands[0], indices = n.operands[1];
  const Shape& shape = node(x).shape;
  const bool one = n.op == Op::dynamic_slice;
  const GatherDims* g = one ? nullptr : std::get<std::shared_ptr<const GatherDims>>(n.attributes).get();
  const Shape sizes = one ? n.shape : g->slice_sizes;
  const Dims computed = one ? Dims::range(shape.size()) : g->index_map;
  const Shape& starts = node(indices).shape;
  double rows = 1;
  if (!one)
    for (int64_t d = 0; d + 1 < starts.size(); ++d) rows *= static_cast<double>(starts[d]);
  const auto work_for = [&](Tiling tiling) {
    const Slice s = slice_of(shape, n.dtype, tiling, sizes, computed, chip_);
    sim::ArrayWork w;
    w.lane_turns = s.turned ? rows * s.row.vregs : 0;
    w.loads = w.stores = s.turned ? rows * s.row.vregs : 0;
    // What does not lie inside is replaced by zeros.
    if (g && g->bounds == Bounds::fill_or_drop) w.slots = rows * s.row.vregs;
    return w;
  };
  const Tiling tiling = lay_out(x, id, [&](Tiling t) {
    const Slice s = slice_of(shape, n.dtype, t, sizes, computed, chip_);
    const Tiling result = one ? t : tiling_of_slices(*g, shape, t, n.shape, chip_);
    return cycles_of(work_for(t)) + rows * s.row.vregs / chip_.vmem.loads_per_cycle +
           static_cast<double>(bytes(n.shape, n.dtype, result, chip_)) / chip_.hbm_bytes_per_cycle();
  });
  const Slice s = slice_of(shape, n.dtype, tiling, sizes, computed, chip_);
  sim::ArraySpecs spec;
  Work work = start_array(id, spec);
  spec.operands.push_back(read(work, spec, x, tensor_as(x, tiling, id), sim::ArraySpecs::whole));
  spec.operands.push_back(
      read(work, spec, indices, tensor_of(indices), one ? sim::ArraySpecs::whole : sim::ArraySpecs::along));
  spec.work = work_for(tiling);
  spec.rows_from = spec.operands[0];
  spec.rows = s.row;
  spec.rows.rows = s.vregs == 0 ? 0 : rows;
  if (one)
    spec.step_addresses = static_cast<double>(shape.size());
  else
    spec.rows.addresses = rows * static_cast<double>(computed.size());
  define(id, one ? (is_line(n.shape)  ? Tiling{}
                    : tiling.lane < 0 ? smallest(n.shape, chip_)
                                      : tiling)
                 : tiling_of_slices(*g, shape, tiling, n.shape, chip_));
  add_places(work, std::max<int64_t>(1, out_.tensors[at(tensor_of(id))].vregs));
  add_array(id, std::move(work), std::move(spec));
}

// The operand passes through VMEM block by block; if there is more than one, the indices are sorted first, so that each
// block meets its own rows. They are added one after the other, as the next one may be the same.
void Lowerer::lower_scatter(NodeId id) {
  const Node& n = node(id);
  const ScatterDims& dims = *std::get<std::shared_ptr<const ScatterDims>>(n.attributes);
  const GatherDims& g = dims.where;
  const NodeId x = n.operands[0], indices = n.operands[1], updates = n.operands[2];
  const Shape& starts = node(indices).shape;
  double rows = 1;
  for (int64_t d = 0; d + 1 < starts.size(); ++d) rows *= static_cast<double>(starts[d]);
  const double words = static_cast<double>(size_of(n.dtype)) / 4;
  const auto work_for = [&](Tiling tiling) {
    const Slice s = slice_of(n.shape, n.dtype, tiling, g.slice_sizes, g.index_map, chip_);
    const double whole = static_cast<double>(vregs(n.shape, tiling, chip_)) * words,
                 moved = s.vregs == 0 ? 0 : rows * s.row.vregs;
    sim::ArrayWork w;
    w.loads = whole + moved * (dims.add ? 2 : 1);
    w.stores = whole + moved;
    w.slots = dims.add ? moved * (sim::slots_of(Op::add, n.dtype, chip_) + is_half(n.dtype)) : 0;
    w.lane_turns = s.turned ? moved : 0;
    const double chain = dims.add ? static_cast<double>(2 * chip_.vmem.latency + chip_.vpu.latency) : 0;
    w.loop = rows * std::max(static_cast<double>(g.index_map.size()) * chip_.overhead.address_cycles, chain);
    return w;
  };
  const Shape& rows_shape = node(updates).shape;
  const Tiling tiling = lay_out(x, id, [&](Tiling t) {
    const Tiling lies = tiling_of_slices(g, n.shape, t, rows_shape, chip_);
    return cycles_of(work_for(t)) +
           static_cast<double>(bytes(rows_shape, n.dtype, lies, chip_)) / chip_.hbm_bytes_per_cycle();
  });
  const Slice s = slice_of(n.shape, n.dtype, tiling, g.slice_sizes, g.index_map, chip_);
  sim::ArraySpecs spec;
  Work work = start_array(id, spec);
  spec.operands.push_back(read(work, spec, x, tensor_as(x, tiling, id), sim::ArraySpecs::along));
  spec.operands.push_back(read(work, spec, indices, tensor_of(indices), sim::ArraySpecs::whole));
  const Tiling lies = tiling_of_slices(g, n.shape, tiling, rows_shape, chip_);
  spec.operands.push_back(read(work, spec, updates, tensor_as(updates, lies, id), sim::ArraySpecs::whole));
  spec.work = work_for(tiling);
  spec.rows_from = spec.operands[2];
  spec.adds = true;
  spec.rows = s.row;
  spec.rows.rows = s.vregs == 0 ? 0 : rows;
  if (rows > 1) spec.cut = sorting({static_cast<int64_t>(rows)}, {}, 0, 2, 2, 1);
  define(id, tiling);
  const int64_t registers = std::max<int64_t>(1, out_.tensors[at(tensor_of(id))].vregs);
  if (dims.add) out_.flops_padded[at(id)] = static_cast<int64_t>(rows) * s.vregs * chip_.vpu.sublanes * chip_.vpu.lanes;
  for (int64_t passes : {1, 4, 16}) work.tiles.push_back({.m = 1, .n = passes});
  for (int64_t steps : {4, 16, 64, 256, 1024, 2048, 4096, 16384, 65536})
    if (steps <= registers) work.tiles.push_back({.m = steps, .n = 1, .swap_order = true});
  add_array(id, std::move(work), std::move(spec));
}

// Does nothing but `by` read x, and may its place be written? The caller's inputs and constants may not.
bool Lowerer::can_overwrite(NodeId x, NodeId by) const {
  if (kept_[at(x)] || out_.tensors[at(tensor_of(x))].node != x) return false;
  for (NodeId user = x + 1; user < tape_.size(); ++user)
    if (user != by && out_.fusion.live[at(user)])
      for (NodeId operand : node(user).operands)
        if (operand == x) return false;
  if (!out_.tensors[at(tensor_of(x))].leaf) return true;
  return std::any_of(program_.states.begin(), program_.states.end(),
                     [&](const Program::State& s) { return s.read == x && s.write == by; });
}

void Lowerer::lower_update(NodeId id) {
  const Node& n = node(id);
  const NodeId x = n.operands[0], update = n.operands[1], start = n.operands[2];
  const Dims computed = Dims::range(n.shape.size());
  const Shape& sizes = node(update).shape;
  const auto words = static_cast<double>(size_of(n.dtype)) / 4;
  const bool in_place = can_overwrite(x, id);
  const auto work_for = [&](Tiling tiling, bool copies) {
    const Slice s = slice_of(n.shape, n.dtype, tiling, sizes, computed, chip_);
    sim::ArrayWork w;
    if (copies) w.loads = w.stores = static_cast<double>(vregs(n.shape, tiling, chip_)) * words;
    if (s.turned) w.lane_turns = s.row.vregs, w.loads += s.row.vregs, w.stores += s.row.vregs;
    return w;
  };
  const Tiling tiling = lay_out(x, id, [&](Tiling t) { return cycles_of(work_for(t, !in_place)); });
  const Slice s = slice_of(n.shape, n.dtype, tiling, sizes, computed, chip_);
  const bool line = tiling.lane < 0 && !is_line(sizes);
  const int32_t x_tensor = tensor_as(x, tiling, id),
                update_tensor = line ? tensor_of(update) : tensor_as(update, tiling, id);
  const bool overwrites = in_place && x_tensor == tensor_of(x);
  sim::ArraySpecs spec;
  Work work = start_array(id, spec);
  spec.operands.push_back(read(work, spec, x, x_tensor, overwrites ? sim::ArraySpecs::stays : sim::ArraySpecs::along));
  spec.operands.push_back(
      read(work, spec, update, update_tensor, overwrites ? sim::ArraySpecs::along : sim::ArraySpecs::whole));
  spec.operands.push_back(read(work, spec, start, tensor_of(start), sim::ArraySpecs::whole));
  spec.work = work_for(tiling, !overwrites);
  spec.rows_from = spec.operands[1];
  spec.rows = s.row;
  spec.rows.rows = s.vregs == 0 ? 0 : 1;
  spec.step_addresses = static_cast<double>(n.shape.size());
  define(id, tiling);
  if (overwrites) {
    set_view(id, x_tensor, tiling);
    spec.outputs = {{n.dtype, 1, sim::ArraySpecs::stays}};
  } else {
    add_places(work, std::max<int64_t>(1, out_.tensors[at(tensor_of(id))].vregs));
  }
  add_array(id, std::move(work), std::move(spec));
}

}  // namespace backbeat::tpu
