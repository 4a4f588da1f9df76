// reduce_window, select_and_scatter, select_and_gather: the taps of all windows, one after the other.
#include <algorithm>
#include <cmath>

#include "devices/tpu/lowerer.hpp"

namespace backbeat::tpu {

sim::ArrayWork Lowerer::window_work(NodeId id, Tiling tiling) const {
  const Node& n = node(id);
  const WindowDims& w = *std::get<std::shared_ptr<const WindowDims>>(n.attributes);
  const Node& x = node(n.operands[0]);
  const Shape& windows = n.op == Op::select_and_scatter ? node(n.operands[1]).shape : n.shape;
  // Taps of a window; the share of them that lies on other lanes or sublanes than the window does; how many registers
  // of x hold the elements of one register of windows, which a stride along the lanes spreads out.
  double taps = 1, other_lanes = 0, other_sublanes = 0, spread = 1;
  for (int64_t d = 0; d < x.shape.size(); ++d) {
    const Along a = along(x.shape, tiling, d);
    const bool plain = w.window[d] == 1 && w.strides[d] == 1 && w.base_dilation[d] == 1;
    if (!a.lanes && !a.sublanes) {  // of a dilated operand each window meets the elements only
      taps *= static_cast<double>(ceil_div(w.window[d], w.base_dilation[d]));
      continue;
    }
    taps *= static_cast<double>(w.window[d]);
    const int64_t unit = a.lanes ? chip_.vpu.lanes : chip_.vpu.sublanes;
    double moved = 0;
    for (int64_t t = 0; t < w.window[d]; ++t)
      moved += !plain &&
               (w.strides[d] != 1 || w.base_dilation[d] != 1 || (t * w.window_dilation[d] - w.pad_low[d]) % unit != 0);
    if (plain && w.pad_low[d] % unit != 0) moved = 1;
    moved /= static_cast<double>(w.window[d]);
    if (a.lanes) {
      other_lanes = moved;
      spread = static_cast<double>(std::min(w.strides[d], a.registers));
    }
    if (a.sublanes) other_sublanes = moved;
  }
  const auto registers = static_cast<double>(vregs(windows, tiling, chip_));
  const double each = taps * registers * spread;  // registers of x that are looked at
  const auto words = [&](DType dtype) { return static_cast<double>(size_of(dtype)) / 4; };
  const auto turned = [&](DType dtype) { return std::max(1.0, words(dtype)); };
  const double slot = std::max(sim::slots_of(Op::maximum, x.dtype, chip_), sim::slots_of(Op::add, n.dtype, chip_));
  const double rounding = is_half(n.dtype) ? 1 : 0;
  sim::ArrayWork work;
  double turns = turned(x.dtype);
  switch (n.op) {
    case Op::reduce_window:  // one operation a tap
      work.slots = each * slot + registers * rounding;
      work.loads = each * words(x.dtype);
      work.stores = registers * words(n.dtype);
      break;
    case Op::select_and_gather:  // compare; select the extreme, and what the source holds there
      work.slots = 3 * each * slot;
      work.loads = each * (words(x.dtype) + words(n.dtype));
      work.stores = registers * words(n.dtype);
      turns += turned(n.dtype);
      break;
    default: {  // compare, select the extreme and its tap; then for each tap compare, select, add where it lies
      const auto whole = static_cast<double>(vregs(n.shape, tiling, chip_));
      work.slots = 6 * each * slot + whole * rounding;
      work.loads = each * (words(x.dtype) + 1) + registers * words(n.dtype);
      work.stores = each + whole * words(n.dtype);
      turns += turned(n.dtype);
    }
  }
  work.lane_turns = each * other_lanes * turns;
  work.sublane_turns = each * other_sublanes * turns;
  return work;
}

void Lowerer::lower_window(NodeId id) {
  const Node& n = node(id);
  const WindowDims& w = *std::get<std::shared_ptr<const WindowDims>>(n.attributes);
  const NodeId x = n.operands[0];
  const Shape& shape = node(x).shape;
  const Tiling tiling = lay_out(x, id, [&](Tiling t) { return cycles_of(window_work(id, t)); });
  sim::ArraySpecs spec;
  Work work = start_array(id, spec);
  spec.operands = {read(work, spec, x, tensor_as(x, tiling, id), sim::ArraySpecs::along)};
  if (n.operands.size() > 1) {
    const NodeId source = n.operands[1];
    const bool line = tiling.lane < 0 && !is_line(node(source).shape);  // padding alone has made it more than a line
    spec.operands.push_back(
        read(work, spec, source, line ? tensor_of(source) : tensor_as(source, tiling, id), sim::ArraySpecs::along));
  }
  spec.work = window_work(id, tiling);
  // Pieces are walked one after the other. Where one is cut, the rows that later windows still need stay: as few as one
  // of the dimensions allows.
  for (int64_t d = 0; d < shape.size(); ++d)
    if (w.window[d] == 1) spec.pieces *= along(shape, tiling, d).registers;
  const int64_t piece = ceil_div(spec.inputs[0].vregs, spec.pieces);
  for (int64_t d = 0; d < shape.size(); ++d) {
    if (w.window[d] == 1) continue;
    const int64_t registers = along(shape, tiling, d).registers;
    const int64_t reach = std::min(registers, ceil_div((w.window[d] - 1) * w.window_dilation[d], w.base_dilation[d]));
    const int64_t rows = ceil_div(piece, registers) * reach;
    spec.carried_vregs = spec.carried_vregs == 0 ? rows : std::min(spec.carried_vregs, rows);
  }
  define(id, tiling.lane < 0 ? smallest(n.shape, chip_) : tiling);
  const int64_t windows = vregs(n.op == Op::select_and_scatter ? node(n.operands[1]).shape : n.shape, tiling, chip_);
  out_.flops_padded[at(id)] = windows * element_count(w.window) * chip_.vpu.sublanes * chip_.vpu.lanes;
  add_array(id, std::move(work), std::move(spec));
}

}  // namespace backbeat::tpu
