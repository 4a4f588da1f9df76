// Operations that move elements: slice, pad, concatenate, reverse, broadcasts that nothing folds; and random words.
#include <algorithm>

#include "devices/tpu/lowerer.hpp"

namespace backbeat::tpu {

// Is a reversed array read only as the kernel of convolutions, whose taps are what is reversed?
bool Lowerer::reverses_taps(NodeId id) const {
  if (kept_[at(id)]) return false;
  for (NodeId user = id + 1; user < tape_.size(); ++user) {
    if (!out_.fusion.live[at(user)]) continue;
    const Node& u = node(user);
    for (size_t i = 0; i < u.operands.size(); ++i) {
      if (u.operands[i] != id) continue;
      if (u.op != Op::convolution || i != 1) return false;
      const ConvDims& dims = *std::get<std::shared_ptr<const ConvDims>>(u.attributes);
      for (int64_t axis : std::get<Dims>(node(id).attributes))
        if (!dims.kernel.spatial.contains(axis)) return false;
    }
  }
  return true;
}

void Lowerer::lower_move(NodeId id) {
  const Node& n = node(id);
  // Reversing dimensions that lie neither on lanes nor on sublanes is only another order of addresses, and a reversed
  // convolution kernel another order of taps: nothing moves on the chip, and the host reads backwards.
  if (n.op == Op::reverse) {
    const Dims& axes = std::get<Dims>(n.attributes);
    const NodeId from = n.operands[0];
    const int32_t t = tensor_of(from);
    const Tiling tiling = tiling_of(from);
    bool addresses = out_.tensors[at(t)].laid_out && !is_line(n.shape);
    for (int64_t axis : axes) addresses = addresses && axis != tiling.lane && axis != tiling.sublane;
    if (addresses || reverses_taps(id)) {
      sim::Layout view = out_.values[at(from)].layout;
      for (int64_t axis : axes) {
        view.offset += (view.shape[axis] - 1) * view.strides[axis];
        view.strides[axis] = -view.strides[axis];
      }
      out_.values[at(id)] = {buffer_of(from), view};
      set_view(id, t, tiling);
      out_.tensors[at(t)].laid_out = true;
      return;
    }
  }

  Work work;
  work.name = name_of(n.op);
  work.nodes = {id};
  work.weight = {1};
  std::vector<sim::Layout> parts;
  for (NodeId operand : n.operands) {
    out_.tensors[at(tensor_of(operand))].laid_out = true;
    work.reads.push_back(tensor_of(operand));
    work.host_buffers.push_back(out_.values[at(operand)].buffer);
    parts.push_back(out_.values[at(operand)].layout);
  }
  const Tiling from = tiling_of(n.operands[0]);
  Tiling tiling = smallest(n.shape, chip_);
  if (node(n.operands[0]).shape.size() == n.shape.size() && from.lane >= 0) tiling = from;
  auto plan = std::make_shared<sim::CopyPlan>();
  bool turns = !(n.op == Op::broadcast_in_dim);  // unaligned: through the XLU
  const auto touches = [&](int64_t d) { return d == tiling.lane || d == tiling.sublane; };
  switch (n.op) {
    case Op::slice: {
      const SliceDims& s = std::get<SliceDims>(n.attributes);
      sim::Layout view = parts[0];
      turns = false;
      for (int64_t d = 0; d < n.shape.size(); ++d) {
        view.offset += s.start[d] * view.strides[d];
        view.strides[d] *= s.stride[d];
        const int64_t unit = d == tiling.lane ? chip_.vpu.lanes : chip_.vpu.sublanes;
        if (touches(d) && (s.start[d] % unit != 0 || s.stride[d] != 1)) turns = true;
      }
      view.shape = n.shape;
      *plan = sim::plan_copy(n.dtype, view);
      break;
    }
    case Op::pad: {
      const PadDims& p = std::get<PadDims>(n.attributes);
      turns = false;
      for (int64_t d = 0; d < n.shape.size(); ++d) {
        const int64_t unit = d == tiling.lane ? chip_.vpu.lanes : chip_.vpu.sublanes;
        if (touches(d) && (p.low[d] % unit != 0 || p.interior[d] != 0)) turns = true;
      }
      *plan = sim::plan_pad(n.dtype, parts[0], p, n.shape);
      break;
    }
    case Op::concatenate: {
      const int64_t axis = std::get<Axis>(n.attributes).index;
      turns = touches(axis);
      *plan = sim::plan_concatenate(n.dtype, parts, axis, n.shape);
      break;
    }
    case Op::reverse: {
      sim::Layout view = parts[0];
      turns = false;
      for (int64_t axis : std::get<Dims>(n.attributes)) {
        view.offset += (view.shape[axis] - 1) * view.strides[axis];
        view.strides[axis] = -view.strides[axis];
        turns = turns || touches(axis);
      }
      *plan = sim::plan_copy(n.dtype, view);
      break;
    }
    case Op::broadcast_in_dim: {
      const Dims& dims = std::get<Dims>(n.attributes);
      sim::Layout view{n.shape, Dims::filled(n.shape.size(), 0), parts[0].offset};
      for (int64_t d = 0; d < dims.size(); ++d)
        view.strides[dims[d]] = parts[0].shape[d] == 1 ? 0 : parts[0].strides[d];
      tiling = smallest(n.shape, chip_);
      *plan = sim::plan_copy(n.dtype, view);
      break;
    }
    default:
      fail("tpu", "there is no kernel for ", n.op);
  }
  define(id, tiling);
  work.writes = {tensor_of(id)};
  work.host_buffers.push_back(out_.values[at(id)].buffer);

  struct Part {
    DType dtype;
    int64_t registers;
  };
  std::vector<Part> in;
  int64_t most = std::max<int64_t>(1, out_.tensors[at(tensor_of(id))].vregs);
  const int64_t out_registers = most;
  for (int32_t t : work.reads) {
    in.push_back({out_.tensors[at(t)].dtype, std::max<int64_t>(1, out_.tensors[at(t)].vregs)});
    most = std::max(most, in.back().registers);
  }
  for (int64_t steps : {1, 2, 4, 8, 16, 32, 64, 256, 1024, 8192})
    if (steps <= most) work.tiles.push_back({.m = steps});
  const int64_t sublanes = chip_.vpu.sublanes, lanes = chip_.vpu.lanes;
  const std::string name = work.name;
  const DType dtype = n.dtype;
  work.build = [=](const Tile& tile) {
    const int64_t steps = tile.m;
    sim::Kernel k(name, {steps});
    const auto cut = [=](int64_t count) { return ceil_div(count, steps); };
    const auto place = [=](int64_t count) {
      const int64_t last = ceil_div(count, cut(count)) - 1;
      return [=](const Dims& grid) { return Dims{std::min(grid[0], last)}; };
    };
    std::vector<sim::Ref> refs;
    for (size_t i = 0; i < in.size(); ++i)
      refs.push_back(k.in(concat("in", i), {in[i].dtype, {in[i].registers, sublanes, lanes}},
                          {cut(in[i].registers), sublanes, lanes}, place(in[i].registers)));
    const sim::Ref out = k.out("out", {dtype, {out_registers, sublanes, lanes}}, {cut(out_registers), sublanes, lanes},
                               place(out_registers));
    k.collapse();
    k.body([=](sim::Step& s) {
      sim::CopyWork work;
      work.plan = plan;
      work.turned_vregs = turns ? static_cast<double>(cut(out_registers)) : 0;
      s.gather(out, refs, work);
    });
    return k;
  };
  std::string key = concat(name, ' ', out_registers, dtype, turns);
  for (const Part& p : in) key += concat(" i", p.registers);
  work.signature = key;
  add_work(std::move(work));
}

void Lowerer::lower_random(NodeId id) {
  const Node& n = node(id);
  const NodeId key = n.operands[0];
  out_.tensors[at(tensor_of(key))].laid_out = true;
  define(id, smallest(n.shape, chip_));
  Work work;
  work.name = "random";
  work.nodes = {id};
  work.weight = {1};
  work.reads = {tensor_of(key)};
  work.writes = {tensor_of(id)};
  work.host_buffers = {row_major(key), out_.values[at(id)].buffer};
  const int64_t registers = std::max<int64_t>(1, out_.tensors[at(tensor_of(id))].vregs);
  out_.flops_padded[at(id)] = registers * chip_.vpu.sublanes * chip_.vpu.lanes;
  auto plan = std::make_shared<sim::RandomPlan>();
  plan->samples = n.shape.empty() ? 1 : n.shape[0];
  plan->words = plan->samples == 0 ? 0 : element_count(n.shape) / plan->samples;
  for (int64_t steps : {1, 2, 4, 8, 16, 64, 256, 1024})
    if (steps <= registers) work.tiles.push_back({.m = steps});
  const int64_t sublanes = chip_.vpu.sublanes, lanes = chip_.vpu.lanes;
  work.build = [=](const Tile& tile) {
    const int64_t block = ceil_div(registers, tile.m);
    sim::Kernel k("random", {ceil_div(registers, block)});
    const sim::Ref in = k.in("key", {DType::u32, {1, sublanes, lanes}}, {1, sublanes, lanes}, sim::whole());
    const sim::Ref out = k.out("out", {DType::u32, {registers, sublanes, lanes}}, {block, sublanes, lanes}, sim::at(0));
    k.collapse();
    k.body([=](sim::Step& s) { s.random(out, in, plan); });
    return k;
  };
  work.signature = concat("random ", registers);
  add_work(std::move(work));
}

}  // namespace backbeat::tpu
