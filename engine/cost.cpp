#include "engine/cost.hpp"

#include <algorithm>

namespace backbeat {

namespace {

// One view: rows by key, and whose nodes they are.
struct View {
  std::vector<CostRow>* rows;
  std::vector<std::vector<NodeId>> members;

  template <class KeyOf>
  void fill(const Cost& cost, KeyOf&& key_of) {
    std::map<std::string, size_t> index;
    rows->clear();
    for (const NodeCost& node : cost.nodes) {
      const std::string key = node.id < 0 ? "launch" : key_of(node);
      const auto [found, fresh] = index.try_emplace(key, rows->size());
      if (fresh) {
        rows->push_back({});
        rows->back().key = key;
        members.emplace_back();
      }
      CostRow& row = (*rows)[found->second];
      row.nodes += node.id >= 0;
      row.cycles += node.cycles;
      row.flops += node.flops;
      row.flops_padded += node.flops_padded;
      for (const auto& [memory, bytes] : node.bytes) row.bytes[memory] += bytes;
      for (const auto& [cause, cycles] : node.stalls) row.stalls[cause] += cycles;
      if (node.cycles > 0) row.bound_by[node.bound_by] += node.cycles;
      members[found->second].push_back(node.id);
    }
  }
};

// Along one spatial dimension: pairs of an output position and a tap that meet an element of the lhs.
int64_t meetings(int64_t outputs, int64_t taps, int64_t elements, int64_t stride, int64_t tap_step, int64_t low, int64_t spread) {
  int64_t count = 0;
  for (int64_t o = 0; o < outputs; ++o)
    for (int64_t t = 0; t < taps; ++t) {
      const int64_t at = o * stride + t * tap_step - low;
      count += at >= 0 && at % spread == 0 && at / spread < elements;
    }
  return count;
}

int64_t convolution_flops(const Tape& tape, const Node& node) {
  const ConvDims& d = *std::get<std::shared_ptr<const ConvDims>>(node.attributes);
  const Shape &lhs = tape[node.operands[0]].shape, &kernel = tape[node.operands[1]].shape;
  int64_t pairs = 2 * node.shape[d.out.batch] * node.shape[d.out.feature] * kernel[d.kernel.feature];
  for (int64_t s = 0; s < d.strides.size(); ++s)
    pairs *= meetings(node.shape[d.out.spatial[s]], kernel[d.kernel.spatial[s]], lhs[d.lhs.spatial[s]], d.strides[s],
                      d.kernel_dilation[s], d.pad_low[s], d.lhs_dilation[s]);
  return pairs;
}

}  // namespace

void fill_views(Cost& cost, const std::function<Cycles(const std::vector<NodeId>&)>& removal) {
  View views[4] = {{&cost.by_phase, {}}, {&cost.by_order, {}}, {&cost.by_scope, {}}, {&cost.by_op, {}}};
  views[0].fill(cost, [](const NodeCost& n) { return std::string(name_of(n.phase)); });
  views[1].fill(cost, [](const NodeCost& n) { return std::to_string(n.order); });
  views[2].fill(cost, [](const NodeCost& n) { return n.scope; });
  views[3].fill(cost, [](const NodeCost& n) { return std::string(name_of(n.op)); });
  if (!removal) return;
  struct Job {
    CostRow* row;
    const std::vector<NodeId>* members;
  };
  std::vector<Job> jobs;
  for (View& view : views)
    for (size_t i = 0; i < view.rows->size(); ++i) jobs.push_back({&(*view.rows)[i], &view.members[i]});
#pragma omp parallel for schedule(dynamic) if (cost.nodes.size() > 100)
  for (size_t i = 0; i < jobs.size(); ++i) jobs[i].row->removal_cycles = removal(*jobs[i].members);
}

int64_t useful_flops(const Tape& tape, NodeId id) {
  const Node& node = tape[id];
  if (node.op == Op::convolution) return convolution_flops(tape, node);
  if (node.op == Op::dot_general) {
    int64_t flops = 2 * element_count(node.shape);
    for (int64_t d : std::get<std::shared_ptr<const DotDims>>(node.attributes)->lhs_contracting)
      flops *= tape[node.operands[0]].shape[d];
    return flops;
  }
  // Sums, or comparisons of maxima: one an element, one a tap, one an update added. Sorting and moves compute nothing.
  const auto elements_of = [&](size_t operand) { return element_count(tape[node.operands[operand]].shape); };
  const auto taps = [&] { return element_count(std::get<std::shared_ptr<const WindowDims>>(node.attributes)->window); };
  switch (node.op) {
    case Op::reduce:
    case Op::argmax:
    case Op::cumsum: return elements_of(0);
    case Op::reduce_window:
    case Op::select_and_gather: return taps() * element_count(node.shape);
    case Op::select_and_scatter: return taps() * elements_of(1);
    case Op::scatter: return std::get<std::shared_ptr<const ScatterDims>>(node.attributes)->add ? elements_of(2) : 0;
    default: break;
  }
  if (node.op == Op::stop_gradient) return 0;
  return is_elementwise(node.op) || node.op == Op::rng_bit_generator ? element_count(node.shape) : 0;
}

}  // namespace backbeat
