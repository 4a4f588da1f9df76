#include <algorithm>
#include <cstdio>
#include <numeric>

#include "devices/tpu/compile.hpp"

namespace backbeat::tpu {

namespace {

std::string size_text(int64_t bytes) {
  char text[32];
  const double b = static_cast<double>(bytes);
  if (b >= 1073741824.0)
    std::snprintf(text, sizeof text, "%.1f GiB", b / 1073741824.0);
  else if (b >= 1048576.0)
    std::snprintf(text, sizeof text, "%.1f MiB", b / 1048576.0);
  else
    std::snprintf(text, sizeof text, "%.1f KiB", b / 1024.0);
  return text;
}

std::string phase_text(Phase phase) {
  std::string text(name_of(phase));
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

}  // namespace

MemoryPlan plan_memory(const Program& program, const Lowering& lowering, const Residency& residency,
                       const sim::Chip& chip) {
  const Tape& tape = program.tape;
  const auto works = static_cast<int32_t>(lowering.works.size());
  MemoryPlan plan;

  // State that is written takes the place of what was read, if nothing reads the old value later.
  std::vector<bool> in_place(lowering.tensors.size(), false);
  std::vector<bool> is_state(lowering.tensors.size(), false), is_input(lowering.tensors.size(), false),
      optimizer(lowering.tensors.size(), false);
  for (const Program::State& s : program.states) {
    const int32_t old = lowering.node_tensor[static_cast<size_t>(s.read)];
    if (old < 0) continue;
    is_state[static_cast<size_t>(old)] = true;
    const Tensor& t = lowering.tensors[static_cast<size_t>(old)];
    optimizer[static_cast<size_t>(old)] =
        !t.consumers.empty() && std::all_of(t.consumers.begin(), t.consumers.end(), [&](int32_t w) {
          const Work& work = lowering.works[static_cast<size_t>(w)];
          return std::all_of(work.nodes.begin(), work.nodes.end(),
                             [&](NodeId id) { return tape.phase_of(id) == Phase::update; });
        });
    if (!s.write) continue;
    const int32_t fresh = lowering.node_tensor[static_cast<size_t>(*s.write)];
    if (fresh < 0 || fresh == old) continue;
    const int32_t producer = lowering.tensors[static_cast<size_t>(fresh)].producer;
    // One place for one state, and never over a value that is also wanted at the end.
    const std::vector<NodeId> roots = program.roots();
    in_place[static_cast<size_t>(fresh)] =
        std::count(roots.begin(), roots.end(), *s.write) == 1 && std::count(roots.begin(), roots.end(), s.read) == 0 &&
        std::all_of(t.consumers.begin(), t.consumers.end(), [&](int32_t w) { return w <= producer; });
  }
  for (const Program::Port& port : program.inputs)
    if (const int32_t t = lowering.node_tensor[static_cast<size_t>(port.node)]; t >= 0)
      is_input[static_cast<size_t>(t)] = true;

  int64_t permanent = 0;
  std::vector<Lifetime> intervals;
  std::vector<size_t> of;
  std::vector<int64_t> live(static_cast<size_t>(works) + 2, 0);  // by work; first the changes, then their sums
  for (size_t i = 0; i < lowering.tensors.size(); ++i) {
    const Tensor& t = lowering.tensors[i];
    if (t.leaf) {
      permanent += (t.bytes + chip.hbm.granularity - 1) / chip.hbm.granularity * chip.hbm.granularity;
      continue;
    }
    if (t.producer < 0 || in_place[i] || (residency.resident[i] && !t.kept)) continue;
    const Lifetime interval{t.bytes, t.producer, t.kept ? works : lifetime(lowering, static_cast<int32_t>(i)).second, -1};
    live[static_cast<size_t>(interval.first)] += t.bytes;
    live[static_cast<size_t>(interval.last) + 1] -= t.bytes;
    intervals.push_back(interval);
    of.push_back(i);
  }
  std::partial_sum(live.begin(), live.end(), live.begin());
  plan.cost.hbm_peak_bytes = permanent + place(intervals, chip.hbm.granularity);

  const auto peak = static_cast<int32_t>(std::max_element(live.begin(), live.end()) - live.begin());
  const auto origin = [&](size_t i) -> std::string {
    const Tensor& t = lowering.tensors[i];
    if (is_state[i]) return optimizer[i] ? "optimizer" : "parameters";
    if (is_input[i]) return "inputs";
    if (t.leaf) return "constants";
    return std::string(name_of(tape.phase_of(t.node)));
  };
  int64_t accounted = 0;
  for (size_t i = 0; i < lowering.tensors.size(); ++i)
    if (lowering.tensors[i].leaf) {
      plan.cost.by_origin[origin(i)] += lowering.tensors[i].bytes;
      accounted += lowering.tensors[i].bytes;
    }
  for (size_t n = 0; n < of.size(); ++n)
    if (intervals[n].first <= peak && peak <= intervals[n].last) {
      plan.cost.by_origin[origin(of[n])] += intervals[n].bytes;
      accounted += intervals[n].bytes;
    }
  if (plan.cost.hbm_peak_bytes > accounted) plan.cost.by_origin["gaps"] = plan.cost.hbm_peak_bytes - accounted;

  if (plan.cost.hbm_peak_bytes > chip.hbm.bytes) {
    const size_t at = static_cast<size_t>(std::min(peak, works - 1));
    std::string where;
    if (works > 0 && !lowering.works[at].nodes.empty()) {
      const NodeId id = lowering.works[at].nodes[0];
      const std::string& scope = tape.scope_of(id);
      where = concat(" at node ", id, " (", phase_text(tape.phase_of(id)), scope.empty() ? "" : ", ", scope, ')');
    }
    std::vector<size_t> alive;
    for (size_t i = 0; i < lowering.tensors.size(); ++i)
      if (lowering.tensors[i].leaf) alive.push_back(i);
    for (size_t n = 0; n < of.size(); ++n)
      if (intervals[n].first <= peak && peak <= intervals[n].last) alive.push_back(of[n]);
    std::stable_sort(alive.begin(), alive.end(),
                     [&](size_t a, size_t b) { return lowering.tensors[a].bytes > lowering.tensors[b].bytes; });
    std::string largest;
    for (size_t n = 0; n < std::min<size_t>(3, alive.size()); ++n) {
      const Tensor& t = lowering.tensors[alive[n]];
      largest += concat(n ? ", " : "", t.dtype, t.shape, ' ', size_text(t.bytes));
      if (t.leaf) {
        largest += concat(" of ", origin(alive[n]));
      } else if (!t.consumers.empty()) {
        const Work& last =
            lowering.works[static_cast<size_t>(*std::max_element(t.consumers.begin(), t.consumers.end()))];
        if (!last.nodes.empty())
          largest += concat(" kept for the ", phase_text(tape.phase_of(last.nodes.back())), " pass");
      }
    }
    throw Error(concat(program.name, " does not fit: peak ", size_text(plan.cost.hbm_peak_bytes), " of ",
                       size_text(chip.hbm.bytes), " HBM of ", chip.name, where, "; largest: ", largest));
  }
  return plan;
}

}  // namespace backbeat::tpu
