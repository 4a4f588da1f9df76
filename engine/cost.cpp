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

}  // namespace backbeat
