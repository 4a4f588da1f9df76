// Elementwise chains and the reductions that end them; the epilogues of products.
#include <algorithm>
#include <cmath>

#include "devices/tpu/lowerer.hpp"

namespace backbeat::tpu {

namespace {

// A ref over whole registers: [registers, sublanes, lanes], in as many blocks as the iteration space or in one.
struct Registers {
  DType dtype;
  int64_t count;
  bool whole;
};

int64_t last_block(int64_t count, int64_t block) { return count - (ceil_div(count, block) - 1) * block; }

}  // namespace

void Lowerer::lower_chain(const FusionGroup& group) {
  const Tiling tiling = tiling_for(group);
  const int64_t registers = vregs(group.shape, tiling, chip_);
  count_chain_flops(group, registers);

  // What the chain writes: members read elsewhere, then what only its reductions read.
  std::vector<NodeId> outputs, hidden;
  for (NodeId id : group.outputs)
    if (std::binary_search(group.chain.begin(), group.chain.end(), id)) outputs.push_back(id);
  for (NodeId r : group.reductions) {
    const NodeId x = node(r).operands[0];
    const bool member = std::binary_search(group.chain.begin(), group.chain.end(), x);
    if (member && std::find(outputs.begin(), outputs.end(), x) == outputs.end() &&
        std::find(hidden.begin(), hidden.end(), x) == hidden.end())
      hidden.push_back(x);
  }
  std::vector<NodeId> written = outputs;
  written.insert(written.end(), hidden.begin(), hidden.end());
  const Chain chain = chain_of(group, written);
  const bool has_chain = !group.chain.empty();

  Work work;
  work.name = group.reductions.empty() ? "elementwise" : "reduce";
  work.nodes = group.nodes();
  for (NodeId id : work.nodes) work.weight.push_back(sim::slots_of(node(id).op, node(id).dtype, chip_));

  // Operands, laid out like the chain where they are as large as it is.
  std::vector<Registers> in, out;
  std::vector<NodeId> sources = chain.inputs;
  std::vector<int32_t> ref_of_input;
  const auto read = [&](NodeId id) {
    const bool full = node(id).shape == group.shape;
    const int32_t t = full ? tensor_as(id, tiling, work.nodes[0]) : tensor_of(id);
    for (size_t i = 0; i < work.reads.size(); ++i)
      if (work.reads[i] == t && work.host_buffers[i] == out_.values[at(id)].buffer) return static_cast<int32_t>(i);
    if (!full) out_.tensors[at(t)].laid_out = true;
    work.reads.push_back(t);
    work.host_buffers.push_back(out_.values[at(id)].buffer);
    in.push_back({node(id).dtype, out_.tensors[at(t)].vregs, !full});
    return static_cast<int32_t>(work.reads.size()) - 1;
  };
  for (NodeId id : sources) ref_of_input.push_back(read(id));
  struct Reduced {
    sim::ReduceWork work;  // of the whole space
    int32_t source_input = -1, source_output = -1;
  };
  std::vector<Reduced> reduced;
  for (NodeId r : group.reductions) {
    const NodeId x = node(r).operands[0];
    Reduced item;
    if (!std::binary_search(group.chain.begin(), group.chain.end(), x)) item.source_input = read(source(x));
    reduced.push_back(item);
  }
  for (NodeId id : outputs) {
    define(id, tiling);
    work.writes.push_back(tensor_of(id));
    work.host_buffers.push_back(out_.values[at(id)].buffer);
    out.push_back({node(id).dtype, registers, false});
  }
  for (size_t i = 0; i < group.reductions.size(); ++i) {
    const NodeId r = group.reductions[i];
    const Dims& axes = std::get<ReduceDims>(node(r).attributes).axes;
    Tiling kept;  // of what is left
    Dims left;
    for (int64_t d = 0; d < group.shape.size(); ++d)
      if (!axes.contains(d)) left.push_back(d);
    for (int64_t d = 0; d < left.size(); ++d) {
      if (left[d] == tiling.lane) kept.lane = d;
      if (left[d] == tiling.sublane) kept.sublane = d;
    }
    if (kept.lane < 0 || kept.sublane < 0) kept = smallest(node(r).shape, chip_);
    define(r, kept);
    work.writes.push_back(tensor_of(r));
    work.host_buffers.push_back(out_.values[at(r)].buffer);
    out.push_back({node(r).dtype, out_.tensors[at(tensor_of(r))].vregs, true});

    Reduced& item = reduced[i];
    const bool line = is_line(group.shape) || tiling.lane < 0;
    const bool lanes = line ? !axes.empty() : axes.contains(tiling.lane);
    const bool sublanes = line ? !axes.empty() : tiling.sublane >= 0 && axes.contains(tiling.sublane);
    double remaining = 1;
    if (!line)
      for (int64_t d : left)
        remaining *= static_cast<double>(d == tiling.lane      ? ceil_div(group.shape[d], chip_.vpu.lanes)
                                         : d == tiling.sublane ? ceil_div(group.shape[d], chip_.vpu.sublanes)
                                                               : group.shape[d]);
    item.work.lane_reductions = lanes ? remaining : 0;
    item.work.sublane_reductions = sublanes ? remaining : 0;
    item.work.source_in_registers = has_chain;
    const NodeId x = node(r).operands[0];
    sim::Layout from;
    if (std::binary_search(group.chain.begin(), group.chain.end(), x)) {
      from = sim::Layout::row_major(group.shape);
      item.source_output = static_cast<int32_t>(std::find(written.begin(), written.end(), x) - written.begin());
    } else {
      from = layout_of(x);
    }
    item.work.plan = std::make_shared<sim::ReducePlan>(
        sim::plan_reduce(std::get<ReduceDims>(node(r).attributes), from, node(r).dtype));
    work.scratch_bytes = std::max(work.scratch_bytes, sim::scratch_bytes(*item.work.plan));
  }
  std::vector<DType> hidden_types;
  for (NodeId id : hidden) {
    work.host_buffers.push_back(new_buffer(id, element_count(group.shape) * size_of(node(id).dtype)));
    hidden_types.push_back(node(id).dtype);
  }

  sim::VectorWork vector = sim::work_of(chain.program, chip_);
  const double spread = lane_broadcasts(chain, group.shape, tiling);
  std::vector<sim::Layout> out_layouts(written.size(), sim::Layout::row_major(group.shape));
  if (has_chain)
    vector.plan =
        std::make_shared<sim::VectorPlan>(sim::plan_vector(chain.program, group.shape, chain.layouts, out_layouts));

  for (int64_t steps : {1, 2, 4, 8, 16, 32, 64, 256, 1024, 4096, 16384})
    if (steps <= std::max<int64_t>(1, registers)) work.tiles.push_back({.m = steps});
  const size_t chain_outputs = outputs.size();
  const int64_t sublanes = chip_.vpu.sublanes, lanes = chip_.vpu.lanes;
  const int64_t small_limit = chip_.vmem.bytes / 8;
  const std::string name = work.name;
  const auto make = [=](const Tile& tile) {
    const int64_t block = ceil_div(std::max<int64_t>(1, registers), tile.m),
                  steps = ceil_div(std::max<int64_t>(1, registers), block);
    sim::Kernel k(name, {steps});
    const auto ref = [&](const std::string& label, const Registers& r, bool output) {
      const int64_t count = std::max<int64_t>(1, r.count);
      int64_t cut = count;
      if (!r.whole)
        cut = ceil_div(count, steps);
      else if (!output && count * sublanes * lanes * size_of(r.dtype) > small_limit)
        cut = ceil_div(count, steps);
      const int64_t blocks = ceil_div(count, cut);
      // A large operand that stretches is read along, block by block.
      sim::IndexMap map = [=](const Dims& grid) { return Dims{std::min(grid[0] * blocks / steps, blocks - 1)}; };
      if (blocks == steps) map = sim::at(0);
      if (blocks == 1) map = sim::whole();
      const sim::ArraySpec array{r.dtype, {count, sublanes, lanes}};
      const Dims shape{cut, sublanes, lanes};
      return output ? k.out(label, array, shape, map) : k.in(label, array, shape, map);
    };
    std::vector<sim::Ref> inputs, outs, vector_in, vector_out;
    for (size_t i = 0; i < in.size(); ++i) inputs.push_back(ref(concat("in", i), in[i], false));
    for (size_t i = 0; i < out.size(); ++i) outs.push_back(ref(concat("out", i), out[i], true));
    for (int32_t i : ref_of_input) vector_in.push_back(inputs[static_cast<size_t>(i)]);
    for (size_t i = 0; i < chain_outputs; ++i) vector_out.push_back(outs[i]);
    for (size_t i = 0; i < hidden_types.size(); ++i)  // stays in registers on the chip; the host keeps it in an array
      vector_out.push_back(k.scratch(concat("hidden", i), {hidden_types[i], {1, sublanes, lanes}}));
    k.collapse();
    k.body([=](sim::Step& s) {
      const bool final = s.last(0);
      const double here = static_cast<double>(final ? last_block(std::max<int64_t>(1, registers), block) : block);
      if (has_chain) {
        sim::VectorWork w = vector;
        w.vregs = here;
        w.lane_broadcasts = spread * here / static_cast<double>(std::max<int64_t>(1, registers));
        s.vector(w, vector_in, vector_out);
      }
      for (size_t i = 0; i < reduced.size(); ++i) {
        sim::ReduceWork w = reduced[i].work;
        w.vregs = here;
        if (!final) w.lane_reductions = w.sublane_reductions = 0;
        const sim::Ref from = reduced[i].source_output >= 0 ? vector_out[static_cast<size_t>(reduced[i].source_output)]
                                                            : inputs[static_cast<size_t>(reduced[i].source_input)];
        s.reduce(outs[chain_outputs + i], from, w);
      }
    });
    return k;
  };
  work.build = make;
  std::string key = concat(name, ' ', registers, ' ', vector.alu_slots, ' ', vector.eup_pushes, ' ', spread, ' ',
                           chain.inputs.size(), ' ', hidden.size());
  for (const Registers& r : in) key += concat(" i", r.count, r.dtype, r.whole);
  for (const Registers& r : out) key += concat(" o", r.count, r.dtype, r.whole);
  for (const Reduced& r : reduced) key += concat(" r", r.work.lane_reductions, ',', r.work.sublane_reductions);
  work.signature = key;
  add_work(std::move(work));
}

Lowerer::Epilogue Lowerer::epilogue_of(const FusionGroup& group, Tiling tiling) {
  Epilogue e;
  e.outputs = group.outputs;
  std::vector<NodeId> chain_outputs;
  for (NodeId id : group.outputs)
    if (id != group.head) chain_outputs.push_back(id);
  if (group.chain.empty()) return e;
  e.chain = chain_of(group, chain_outputs);
  for (NodeId id : e.chain.inputs) {
    const bool full = node(id).shape == group.shape;
    e.full.push_back(full);
    if (id == group.head) {
      e.tensors.push_back(-1);
      continue;
    }
    e.tensors.push_back(full ? tensor_as(id, tiling, group.head) : tensor_of(id));
    out_.tensors[at(e.tensors.back())].laid_out = true;
  }
  e.work = sim::work_of(e.chain.program, chip_);
  e.lane_broadcasts = lane_broadcasts(e.chain, group.shape, tiling);
  std::vector<sim::Layout> layouts(chain_outputs.size(), sim::Layout::row_major(group.shape));
  e.plan = std::make_shared<sim::VectorPlan>(sim::plan_vector(e.chain.program, group.shape, e.chain.layouts, layouts));
  return e;
}

// Where the host keeps a product that only its epilogue reads: in place of the first result of the same width, so that
// the epilogue runs in place.
int32_t Lowerer::head_buffer(const FusionGroup& group, const Epilogue& epilogue) {
  const Node& head = node(group.head);
  for (NodeId id : epilogue.outputs)
    if (id == group.head) return out_.values[at(id)].buffer;
  for (NodeId id : epilogue.outputs)
    if (size_of(node(id).dtype) == size_of(head.dtype)) return out_.values[at(id)].buffer;
  return new_buffer(group.head, element_count(head.shape) * size_of(head.dtype));
}

}  // namespace backbeat::tpu
