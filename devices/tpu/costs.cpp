// The books of a run: which node paid how much of what.
#include <algorithm>
#include <map>
#include <set>

#include "devices/tpu/compile.hpp"

namespace backbeat::tpu {

namespace {

// "mxu1.weights" -> "weights": engines by what they are, not by which one.
std::string kind_of(sim::Engine engine) {
  switch (engine) {
    case sim::scalar:
      return "issue";
    case sim::dma_in:
    case sim::dma_out:
    case sim::hbm:
      return "hbm";
    case sim::vpu:
      return "vpu";
    case sim::eup:
      return "eup";
    case sim::xlu:
      return "xlu";
    case sim::vmem_load:
    case sim::vmem_store:
      return "vmem";
    default:
      return (engine - sim::first_mxu) % 2 == 0 ? "mxu" : "weights";
  }
}

const sim::Part& longest_part(const sim::Stream& stream, const sim::Instruction& i) {
  const sim::Part* best = &stream.parts[static_cast<size_t>(i.first_part)];
  for (int p = 1; p < i.parts; ++p) {
    const sim::Part& part = stream.parts[static_cast<size_t>(i.first_part + p)];
    if (part.occupancy > best->occupancy) best = &part;
  }
  return *best;
}

}  // namespace

sim::Scaling removing(const sim::Stream& stream, const std::vector<NodeId>& nodes) {
  const std::set<NodeId> removed(nodes.begin(), nodes.end());
  sim::Scaling scaling;
  scaling.by_label.reserve(stream.labels.size());
  for (const auto& shares : stream.labels) {
    bool any = false, all = true;
    double kept = 0;
    for (const sim::Stream::Share& s : shares) {
      const bool gone = removed.count(s.node) != 0;
      any = any || gone;
      all = all && gone;
      if (!gone) kept += s.share;
    }
    scaling.by_label.push_back(!any ? 1 : all ? 0 : std::min(1.0, kept));
  }
  return scaling;
}

Cost build_cost(const Program& program, const Lowering& lowering, const Schedule& schedule, const MemoryPlan& memory,
                const sim::Chip& chip, const sim::Times& times) {
  const sim::Stream& stream = schedule.stream;
  const Tape& tape = program.tape;
  Cost cost;
  cost.program = program.name;
  cost.device = "tpu";
  cost.chip = chip.name;
  cost.clock_hz = chip.clock_hz;
  cost.cycles = times.total;
  cost.engines = times.engines;
  cost.memory = memory.cost;
  cost.memory.vmem_peak_bytes = schedule.vmem_peak_bytes;

  // Rows: the launch, then every node that something computes.
  std::vector<int32_t> row_of(static_cast<size_t>(tape.size()), -1);
  cost.nodes.push_back({});
  cost.nodes[0].scope = "launch";
  cost.nodes[0].bound_by = "launch";
  std::set<Precision> precisions;  // of products
  for (NodeId id = 0; id < tape.size(); ++id) {
    const Node& node = tape[id];
    if (!lowering.fusion.live[static_cast<size_t>(id)] || node.op == Op::input || node.op == Op::constant ||
        node.op == Op::iota)
      continue;
    row_of[static_cast<size_t>(id)] = static_cast<int32_t>(cost.nodes.size());
    NodeCost row;
    row.id = id;
    row.op = node.op;
    row.order = node.order;
    row.phase = tape.phase_of(id);
    row.scope = tape.scope_of(id);
    row.dtype = node.dtype;
    row.shape = node.shape;
    row.flops = useful_flops(program.tape, id);
    row.flops_padded = lowering.flops_padded[static_cast<size_t>(id)];
    row.bound_by = "none";
    cost.nodes.push_back(std::move(row));
    if (node.op == Op::dot_general) precisions.insert(std::get<std::shared_ptr<const DotDims>>(node.attributes)->precision);
    if (node.op == Op::convolution) precisions.insert(std::get<std::shared_ptr<const ConvDims>>(node.attributes)->precision);
  }
  for (Precision precision : precisions) cost.precision += concat(cost.precision.empty() ? "" : " and ", name_of(precision));
  if (precisions.empty()) cost.precision = name_of(Precision::standard);
  const auto row = [&](NodeId id) -> NodeCost& {
    return cost.nodes[id < 0 ? 0 : static_cast<size_t>(row_of[static_cast<size_t>(id)])];
  };

  // Sums by label, then split among the label's nodes to the last unit.
  const std::vector<std::string> names = sim::engine_names(chip);
  const size_t labels = stream.labels.size(), engines = names.size();
  constexpr size_t causes = sim::cause_count;
  std::vector<Cycles> busy(labels * engines, 0), stalls(labels * causes, 0);
  std::vector<int64_t> hbm_bytes(labels, 0), vmem_bytes(labels, 0);
  std::vector<Cycles> work(labels, 0);  // all engine cycles, by label
  std::vector<Cycles> finish(static_cast<size_t>(stream.kernels) + 1, 0);
  std::vector<std::vector<sim::Label>> labels_of(static_cast<size_t>(stream.kernels) + 1);
  const double register_bytes = static_cast<double>(chip.vpu.sublanes * chip.vpu.lanes * 4);
  for (size_t n = 0; n < stream.instructions.size(); ++n) {
    const sim::Instruction& i = stream.instructions[n];
    const auto label = static_cast<size_t>(i.label);
    for (int p = 0; p < i.parts; ++p) {
      const sim::Part& part = stream.parts[static_cast<size_t>(i.first_part + p)];
      busy[label * engines + static_cast<size_t>(part.engine)] += part.occupancy;
      work[label] += part.occupancy;
      if (part.engine == sim::vmem_load)
        vmem_bytes[label] += static_cast<int64_t>(part.occupancy * chip.vmem.loads_per_cycle * register_bytes);
      if (part.engine == sim::vmem_store)
        vmem_bytes[label] += static_cast<int64_t>(part.occupancy * chip.vmem.stores_per_cycle * register_bytes);
    }
    hbm_bytes[label] += i.bytes;
    if (times.cause[n] != sim::Cause::none && times.cause[n] != sim::Cause::engine)
      stalls[label * causes + static_cast<size_t>(times.cause[n])] += times.stalled[n];
    const auto kernel = static_cast<size_t>(i.kernel + 1);
    finish[kernel] = std::max(finish[kernel], times.end[n]);
    if (labels_of[kernel].empty() || labels_of[kernel].back() != i.label) labels_of[kernel].push_back(i.label);
  }
  const auto split = [&](size_t label, int64_t amount, auto&& give) {
    if (amount == 0) return;
    const auto& shares = stream.labels[label];
    std::vector<double> weights;
    for (const auto& s : shares) weights.push_back(s.share);
    const std::vector<int64_t> parts = sim::apportion(amount, weights);
    for (size_t s = 0; s < shares.size(); ++s)
      if (parts[s]) give(row(shares[s].node), parts[s]);
  };
  for (size_t label = 0; label < labels; ++label) {
    for (size_t e = 0; e < engines; ++e)
      split(label, busy[label * engines + e], [&](NodeCost& r, int64_t v) { r.busy[names[e]] += v; });
    for (size_t c = 0; c < causes; ++c)
      split(label, stalls[label * causes + c],
            [&](NodeCost& r, int64_t v) { r.stalls[std::string(sim::name_of(static_cast<sim::Cause>(c)))] += v; });
    split(label, hbm_bytes[label], [](NodeCost& r, int64_t v) { r.bytes["hbm"] += v; });
    split(label, vmem_bytes[label], [](NodeCost& r, int64_t v) { r.bytes["vmem"] += v; });
  }

  // Elapsed: how far the end of each kernel moves the frontier; shared by its nodes in proportion to their engine
  // cycles.
  std::vector<Cycles> begin(finish.size(), 0), until(finish.size(), 0);
  Cycles frontier = 0;
  for (size_t k = 0; k < finish.size(); ++k) {
    begin[k] = frontier;
    frontier = until[k] = std::max(frontier, finish[k]);
    std::map<NodeId, double> weight;
    std::sort(labels_of[k].begin(), labels_of[k].end());
    labels_of[k].erase(std::unique(labels_of[k].begin(), labels_of[k].end()), labels_of[k].end());
    for (sim::Label l : labels_of[k])
      for (const auto& s : stream.labels[static_cast<size_t>(l)])
        weight[s.node] += s.share * static_cast<double>(work[static_cast<size_t>(l)]);
    std::vector<double> weights;
    std::vector<NodeId> nodes;
    for (const auto& [id, w] : weight) {
      nodes.push_back(id);
      weights.push_back(w);
    }
    const std::vector<int64_t> parts = sim::apportion(until[k] - begin[k], weights);
    for (size_t i = 0; i < nodes.size(); ++i) row(nodes[i]).cycles += parts[i];
  }
  cost.launch_cycles = cost.nodes[0].cycles;

  // What bound each kernel: the engine with most cycles of the critical path while the frontier moved through the
  // kernel.
  std::vector<std::map<std::string, Cycles>> path(finish.size());
  size_t k = finish.size();
  for (const sim::PathSegment& s : sim::critical_path(stream, times)) {  // from the end to the start
    const std::string kind =
        kind_of(longest_part(stream, stream.instructions[static_cast<size_t>(s.instruction)]).engine);
    while (k > 0 && begin[k - 1] >= s.end) --k;
    for (size_t j = k; j-- > 0 && until[j] > s.begin;) {
      const Cycles overlap = std::min(s.end, until[j]) - std::max(s.begin, begin[j]);
      if (overlap > 0) path[j][kind] += overlap;
    }
  }
  std::vector<Cycles> most(cost.nodes.size(), 0);
  for (size_t j = 1; j < finish.size(); ++j) {
    if (path[j].empty() && labels_of[j].empty()) continue;
    std::string by = "hidden";  // the kernel ended before one that came earlier
    Cycles longest = 0;
    for (const auto& [kind, cycles] : path[j])
      if (cycles > longest) {
        longest = cycles;
        by = kind;
      }
    for (sim::Label l : labels_of[j])
      for (const auto& s : stream.labels[static_cast<size_t>(l)]) {
        const auto r = static_cast<size_t>(s.node < 0 ? 0 : row_of[static_cast<size_t>(s.node)]);
        if (cost.nodes[r].bound_by == "none" || longest > most[r]) {
          cost.nodes[r].bound_by = by;
          most[r] = longest;
        }
      }
  }
  return cost;
}

}  // namespace backbeat::tpu
