// Cuts blocks and records the stream.
#include <algorithm>
#include <limits>

#include "devices/tpu/compile.hpp"

namespace backbeat::tpu {

namespace {

// How the refs of a work's kernel are bound, in the kernel's order: reads, then writes; scratch has none.
std::vector<sim::Operand> operands_of(const Work& work, size_t index, const Lowering& lowering,
                                      const Residency& residency) {
  std::vector<sim::Operand> operands;
  for (int32_t t : work.reads) {
    const Tensor& tensor = lowering.tensors[static_cast<size_t>(t)];
    sim::Operand o{t, residency.resident[static_cast<size_t>(t)], false, false};
    if (o.in_vmem && tensor.leaf) {  // fetched by its first reader, by one ref of it
      const bool first =
          *std::min_element(tensor.consumers.begin(), tensor.consumers.end()) == static_cast<int32_t>(index);
      const bool again =
          std::any_of(operands.begin(), operands.end(), [&](const sim::Operand& other) { return other.tensor == t; });
      o.load = first && !again;
    }
    operands.push_back(o);
  }
  for (int32_t t : work.writes) {
    const Tensor& tensor = lowering.tensors[static_cast<size_t>(t)];
    const bool resident = residency.resident[static_cast<size_t>(t)];
    operands.push_back({t, resident, false, !resident || tensor.kept});
  }
  return operands;
}

}  // namespace

int TileSearch::choose(const Work& work, const std::vector<sim::Operand>& operands, int64_t vmem_bytes) {
  constexpr int most_tried = 8;
  constexpr int64_t most_steps = 20000;
  constexpr size_t most_instructions = 200000;  // then what has been tried has to do
  std::string key = concat(work.signature, " @", vmem_bytes);
  for (const sim::Operand& o : operands) key += concat(' ', o.in_vmem, o.load, o.store);
  if (auto found = known_.find(key); found != known_.end()) return found->second;

  int best = -1, tried = 0;
  size_t instructions = 0;
  Cycles best_cycles = 0;
  for (size_t i = 0; i < work.tiles.size() && tried < most_tried && instructions < most_instructions; ++i) {
    sim::Kernel kernel = work.build(work.tiles[i]);
    std::vector<sim::Operand> bound = operands;
    bound.resize(kernel.refs().size());
    if (sim::working_bytes(kernel, bound, chip_) > vmem_bytes) continue;
    if (work.build_for_choice) kernel = work.build_for_choice(work.tiles[i]);
    bound = operands;
    bound.resize(kernel.refs().size());
    if (kernel.steps() > most_steps && best >= 0) continue;
    ++tried;
    sim::Recording recording(chip_);
    std::map<int32_t, int32_t> tensors;
    for (sim::Operand& o : bound) {
      if (o.tensor < 0) continue;
      if (!tensors.count(o.tensor)) tensors[o.tensor] = recording.new_tensor();
      o.tensor = tensors[o.tensor];
    }
    const sim::Label label = recording.new_label({});
    recording.run({&kernel, bound, label, label, label, vmem_bytes}, nullptr);
    const sim::Stream& stream = recording.finish();
    instructions += stream.instructions.size();
    const Cycles cycles = sim::total_cycles(stream);
    if (best < 0 || cycles < best_cycles) {
      best = static_cast<int>(i);
      best_cycles = cycles;
    }
  }
  known_[key] = best;
  return best;
}

Schedule schedule(Lowering& lowering, Residency& residency, const sim::Chip& chip, TileSearch& search,
                  int64_t block_budget) {
  Schedule s;
  s.kernels.resize(lowering.works.size());
  std::vector<std::vector<sim::Operand>> operands(lowering.works.size());
  std::vector<int64_t> room(lowering.works.size());

  // Residents give way where a kernel's smallest blocks would not fit beside them; that changes the kernels before and
  // after.
  std::vector<int> choice(lowering.works.size(), -1);
  for (size_t w = 0; w < lowering.works.size(); ++w) {
    const Work& work = lowering.works[w];
    if (work.reads.empty() && work.writes.empty()) continue;
    for (;;) {
      operands[w] = operands_of(work, w, lowering, residency);
      int64_t budget = chip.vmem.bytes - residency.used_bytes[w];
      if (block_budget > 0) budget = std::min(budget, block_budget);
      choice[w] = search.choose(work, operands[w], budget);
      if (choice[w] >= 0) break;
      const int64_t before = residency.used_bytes[w];
      drop_largest_resident(residency, lowering, w);
      if (residency.used_bytes[w] == before) {
        if (block_budget > 0 && budget < chip.vmem.bytes) {  // a wish, not a rule
          choice[w] = search.choose(work, operands[w], chip.vmem.bytes - residency.used_bytes[w]);
          if (choice[w] >= 0) break;
        }
        const NodeId id = work.nodes[0];
        fail("tpu", work.name, " at node ", id, " needs more than the ", chip.vmem.bytes, " bytes of VMEM of ",
             chip.name, " even in its smallest blocks");
      }
    }
  }
  for (size_t w = 0; w < lowering.works.size(); ++w) {  // residents may have left since
    const Work& work = lowering.works[w];
    if (choice[w] < 0) {
      s.kernels[w] = work.build({});
      continue;
    }
    operands[w] = operands_of(work, w, lowering, residency);
    room[w] = chip.vmem.bytes - residency.used_bytes[w];
    s.kernels[w] = work.build(work.tiles[static_cast<size_t>(choice[w])]);
    operands[w].resize(s.kernels[w].refs().size());
    int64_t working = sim::working_bytes(s.kernels[w], operands[w], chip);
    if (working > room[w]) {  // a resident left after this kernel was cut: its blocks are its own again
      operands[w] = operands_of(work, w, lowering, residency);
      choice[w] = search.choose(work, operands[w], room[w]);
      if (choice[w] < 0)
        fail("tpu", work.name, " at node ", work.nodes[0], " does not fit the VMEM of ", chip.name, " beside what stays in it");
      s.kernels[w] = work.build(work.tiles[static_cast<size_t>(choice[w])]);
      operands[w].resize(s.kernels[w].refs().size());
      working = sim::working_bytes(s.kernels[w], operands[w], chip);
    }
    if (work.tiles[static_cast<size_t>(choice[w])].swap_operands)
      lowering.flops_padded[static_cast<size_t>(work.head)] = work.flops_padded_swapped;
    s.vmem_peak_bytes = std::max(s.vmem_peak_bytes, residency.used_bytes[w] + working);
    s.timed.push_back(static_cast<int32_t>(w));
  }

  sim::Recording recording(chip);
  for (size_t t = 0; t < lowering.tensors.size(); ++t) recording.new_tensor();
  const sim::Label start = recording.new_label({{-1, 1.0}});
  recording.start_program(start);
  std::vector<sim::Launch> launches;
  for (int32_t w : s.timed) {
    const Work& work = lowering.works[static_cast<size_t>(w)];
    sim::Launch launch;
    launch.kernel = &s.kernels[static_cast<size_t>(w)];
    launch.operands = operands[static_cast<size_t>(w)];
    launch.vmem_bytes = room[static_cast<size_t>(w)];
    std::vector<sim::Stream::Share> rest;
    double total = 0;
    for (size_t i = 0; i < work.nodes.size(); ++i)
      if (work.nodes[i] != work.head) total += work.weight[i];
    for (size_t i = 0; i < work.nodes.size(); ++i)
      if (work.nodes[i] != work.head) rest.push_back({work.nodes[i], work.weight[i] / total});
    launch.all = recording.new_label({});
    launch.head = work.head >= 0 ? recording.new_label({{work.head, 1.0}}) : -1;
    launch.rest = rest.empty() ? launch.head : recording.new_label(rest);
    if (work.head < 0) launch.head = launch.rest;
    launches.push_back(std::move(launch));
  }
  for (size_t i = 0; i < launches.size(); ++i)
    recording.run(launches[i], i + 1 < launches.size() ? &launches[i + 1] : nullptr);
  recording.finish();
  s.stream = std::move(recording.stream());

  // What a whole kernel shares (steps, transfers) is paid in proportion to what each of its nodes does on the engines.
  std::vector<double> busy(s.stream.labels.size(), 0);
  for (const sim::Instruction& i : s.stream.instructions) {
    int32_t duration = 0;
    for (int p = 0; p < i.parts; ++p)
      duration = std::max(duration, s.stream.parts[static_cast<size_t>(i.first_part + p)].occupancy);
    busy[static_cast<size_t>(i.label)] += duration;
  }
  for (size_t i = 0; i < launches.size(); ++i) {
    const sim::Launch& l = launches[i];
    std::vector<sim::Stream::Share>& all = s.stream.labels[static_cast<size_t>(l.all)];
    const double head = l.head != l.rest ? busy[static_cast<size_t>(l.head)] : 0,
                 rest = busy[static_cast<size_t>(l.rest)];
    const double total = head + rest;
    for (const sim::Stream::Share& share : s.stream.labels[static_cast<size_t>(l.rest)])
      all.push_back({share.node, share.share * (total > 0 ? rest / total : 1)});
    if (l.head != l.rest)
      all.push_back({s.stream.labels[static_cast<size_t>(l.head)][0].node, total > 0 ? head / total : 0});
  }
  return s;
}

}  // namespace backbeat::tpu
