// The cpu device: a Program becomes steps over one arena; a run allocates nothing but the outputs it returns.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <set>

#include "devices/cpu/step.hpp"
#include "devices/device.hpp"
#include "devices/placement.hpp"
#include "engine/host/array_operation.hpp"
#include "engine/host/instruction_set.hpp"
#include "engine/host/scratch.hpp"

namespace backbeat {
namespace cpu {

namespace {

using Clock = std::chrono::steady_clock;

// Where a node's value lies during a run.
struct Location {
  enum Kind : uint8_t { nowhere, input, state, constant, output, arena } kind = nowhere;
  int64_t index = 0;  // of the input, state, constant or output; the offset in the arena
};

class CpuExecutable : public Executable {
 public:
  CpuExecutable(const Program& program, const CompileOptions& options) : program_(program), fusion_(fusion_groups(program_, options.fusion)) {
    host::instruction_set();  // an unknown BACKBEAT_ISA is an Error now, not in the middle of a step
    make_steps();
    locate();
    nanoseconds_.assign(steps_.size(), 0);
    memory_.node.assign(static_cast<size_t>(program_.tape.size()), nullptr);
  }

  std::vector<Array> run(std::span<const Array> inputs, StateStore& store) override {
    check_run(program_, inputs, store);
    const auto start = Clock::now();
    states_.clear();
    for (const Program::State& s : program_.states) states_.push_back(&store.at(s.name));
    separate_state(program_, inputs, constants_, states_, seen_);
    std::vector<Array> outputs;
    outputs.reserve(program_.outputs.size());
    for (const Program::Port& port : program_.outputs) outputs.emplace_back(program_.tape[port.node].dtype, program_.tape[port.node].shape);
    char* const arena = arena_.reserve_for<char>(arena_bytes_ + scratch_bytes_);
    memory_.scratch = arena + arena_bytes_;
    for (NodeId id : located_) {
      const Location& place = at(id);
      char*& pointer = memory_.node[static_cast<size_t>(id)];
      const auto i = static_cast<size_t>(place.index);
      switch (place.kind) {
        case Location::input: pointer = const_cast<char*>(static_cast<const char*>(inputs[i].raw())); break;
        case Location::state: pointer = static_cast<char*>(states_[i]->raw()); break;
        case Location::constant: pointer = static_cast<char*>(constants_[i].raw()); break;
        case Location::output: pointer = static_cast<char*>(outputs[i].raw()); break;
        case Location::arena: pointer = arena + place.index; break;
        case Location::nowhere: break;
      }
    }
    auto before = Clock::now();
    for (size_t s = 0; s < steps_.size(); ++s) {
      steps_[s].work(memory_);
      const auto now = Clock::now();
      nanoseconds_[s] = std::chrono::duration_cast<std::chrono::nanoseconds>(now - before).count();
      before = now;
    }
    for (const Copy& copy : copies_) {
      char* to = copy.to.kind == Location::arena    ? arena + copy.to.index
                 : copy.to.kind == Location::output ? static_cast<char*>(outputs[static_cast<size_t>(copy.to.index)].raw())
                                                    : static_cast<char*>(states_[static_cast<size_t>(copy.to.index)]->raw());
      const char* from = copy.staged < 0 ? memory_.at(copy.from) : arena + copy.staged;
      std::memcpy(to, from, static_cast<size_t>(copy.bytes));
    }
    total_ = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
    return outputs;
  }

  Cost cost() override;

 private:
  struct Copy {
    NodeId from;
    Location to;
    int64_t bytes;
    int64_t staged = -1;  // read from here in the arena instead
  };

  Location& at(NodeId id) { return location_[static_cast<size_t>(id)]; }
  int64_t bytes_of(NodeId id) const {
    const Node& node = program_.tape[id];
    return element_count(node.shape) * size_of(node.dtype);
  }
  // Nothing moves: such a node is its first operand. Between replicas, because there is one.
  bool is_alias(NodeId id) const {
    const Node& node = program_.tape[id];
    if (node.op == Op::collective_permute) return !std::get<std::shared_ptr<const CollectiveDims>>(node.attributes)->pairs.empty();
    return node.op == Op::reshape || node.op == Op::optimization_barrier || is_collective(node.op);
  }
  NodeId alias(NodeId id) const {
    while (is_alias(id)) id = program_.tape[id].operands[0];
    return id;
  }
  bool is_leaf(NodeId id) const {
    const Op op = program_.tape[id].op;
    return op == Op::input || op == Op::constant || op == Op::iota;
  }

  void make_steps();
  void locate();
  void locate_leaves();
  bool may_overwrite(const Program::State& state, NodeId written) const;

  const Program program_;
  const Fusion fusion_;
  std::vector<Step> steps_;
  std::vector<Location> location_;  // by node
  std::vector<NodeId> located_;     // nodes that have one
  std::vector<int64_t> written_, read_;  // by node: the step that writes it, the last that reads it or an alias of it
  std::vector<Array> constants_;
  std::vector<Copy> copies_;        // at the end of a run, in this order
  int64_t arena_bytes_ = 0, scratch_bytes_ = 0;

  host::Scratch arena_;
  Memory memory_;
  std::vector<Array*> states_;      // of the store of this run
  std::vector<const void*> seen_;
  std::vector<int64_t> nanoseconds_;  // by step, of the last run
  int64_t total_ = -1;
};

void CpuExecutable::make_steps() {
  const Tape& tape = program_.tape;
  for (const FusionGroup& group : fusion_.groups) {
    if (group.head >= 0 && !is_alias(group.head)) {
      switch (tape[group.head].op) {
        case Op::dot_general: steps_.push_back(dot_step(tape, group.head)); break;
        case Op::convolution: steps_.push_back(convolution_step(tape, group.head)); break;
        case Op::rng_bit_generator: steps_.push_back(random_step(tape, group.head)); break;
        case Op::replica_id:
        case Op::collective_permute: steps_.push_back(zeros_step(tape, group.head)); break;
        default:
          if (host::is_array_operation(tape[group.head].op)) steps_.push_back(array_step(tape, group.head));
          else steps_.push_back(shape_step(tape, group.head));
      }
    }
    if (!group.chain.empty()) {
      // What leaves the chain: the group's outputs and what its reductions read.
      std::set<NodeId> needed;
      for (NodeId id : group.outputs)
        if (std::binary_search(group.chain.begin(), group.chain.end(), id)) needed.insert(id);
      for (NodeId reduction : group.reductions)
        for (NodeId operand : tape[reduction].operands)
          if (std::binary_search(group.chain.begin(), group.chain.end(), operand)) needed.insert(operand);
      steps_.push_back(chain_step(tape, fusion_, group, std::vector<NodeId>(needed.begin(), needed.end())));
    }
    for (NodeId id : group.reductions) steps_.push_back(reduce_step(tape, fusion_, id));
  }
  const auto n = static_cast<size_t>(tape.size());
  written_.assign(n, -1);
  read_.assign(n, -1);
  location_.resize(n);
  for (size_t s = 0; s < steps_.size(); ++s) {
    for (NodeId id : steps_[s].writes) written_[static_cast<size_t>(id)] = static_cast<int64_t>(s);
    for (NodeId id : steps_[s].reads) read_[static_cast<size_t>(alias(id))] = static_cast<int64_t>(s);
    scratch_bytes_ = std::max(scratch_bytes_, steps_[s].scratch_bytes);
  }
}

void CpuExecutable::locate_leaves() {
  const Tape& tape = program_.tape;
  for (size_t i = 0; i < program_.inputs.size(); ++i) at(program_.inputs[i].node) = {Location::input, static_cast<int64_t>(i)};
  for (size_t i = 0; i < program_.states.size(); ++i) at(program_.states[i].read) = {Location::state, static_cast<int64_t>(i)};
  for (NodeId id = 0; id < tape.size(); ++id) {
    if (!fusion_.live[static_cast<size_t>(id)] || (tape[id].op != Op::constant && tape[id].op != Op::iota)) continue;
    at(id) = {Location::constant, static_cast<int64_t>(constants_.size())};
    constants_.push_back(tape[id].op == Op::constant ? std::get<Array>(tape[id].attributes) : iota_array(tape, id));
  }
}

// May the state's memory take its new value while the run goes on? Only if nobody reads the old one afterwards.
bool CpuExecutable::may_overwrite(const Program::State& state, NodeId written) const {
  for (const Program::Port& port : program_.outputs)
    if (alias(port.node) == state.read) return false;
  for (const Program::State& other : program_.states)
    if (other.write && alias(*other.write) == state.read) return false;
  const int64_t last = read_[static_cast<size_t>(state.read)], when = written_[static_cast<size_t>(written)];
  if (last < when) return true;
  if (last > when) return false;
  const Step& step = steps_[static_cast<size_t>(when)];
  for (NodeId id : step.reads)  // element by element, and as the same element
    if (alias(id) == state.read && std::find(step.elementwise_reads.begin(), step.elementwise_reads.end(), id) == step.elementwise_reads.end())
      return false;
  return true;
}

void CpuExecutable::locate() {
  const Tape& tape = program_.tape;
  locate_leaves();
  const auto end = static_cast<int64_t>(steps_.size());
  std::vector<Copy> to_outputs, to_stages, to_states;
  for (size_t i = 0; i < program_.outputs.size(); ++i) {
    const NodeId id = alias(program_.outputs[i].node);
    const Location here{Location::output, static_cast<int64_t>(i)};
    if (!is_leaf(id) && at(id).kind == Location::nowhere) at(id) = here;
    else to_outputs.push_back({id, here, bytes_of(id)});
  }
  std::vector<Lifetime> buffers;
  std::vector<NodeId> owners;                     // of the buffers; -1: a stage
  std::vector<size_t> staged;                     // copies in to_stages, by buffer
  for (size_t i = 0; i < program_.states.size(); ++i) {
    const Program::State& state = program_.states[i];
    if (!state.write) continue;
    const NodeId id = alias(*state.write);
    const Location here{Location::state, static_cast<int64_t>(i)};
    if (id == state.read) continue;
    if (!is_leaf(id) && at(id).kind == Location::nowhere && may_overwrite(state, id)) {
      at(id) = here;
      continue;
    }
    // Another state's old value must be read before that state is overwritten: by way of the arena.
    if (at(id).kind == Location::state && is_leaf(id)) {
      buffers.push_back({bytes_of(id), end, end, -1});
      owners.push_back(-1);
      to_stages.push_back({id, {Location::arena, static_cast<int64_t>(buffers.size()) - 1}, bytes_of(id)});
      to_states.push_back({id, here, bytes_of(id), static_cast<int64_t>(buffers.size()) - 1});
    } else {
      read_[static_cast<size_t>(id)] = end;
      to_states.push_back({id, here, bytes_of(id)});
    }
  }
  for (const Copy& copy : to_outputs) read_[static_cast<size_t>(copy.from)] = end;
  for (const Step& step : steps_)
    for (NodeId id : step.writes)
      if (at(id).kind == Location::nowhere) {
        const int64_t written = written_[static_cast<size_t>(id)];
        buffers.push_back({bytes_of(id), written, std::max(written, read_[static_cast<size_t>(id)]), -1});
        owners.push_back(id);
      }
  constexpr int64_t alignment = Array::alignment;
  arena_bytes_ = (place(buffers, alignment) + alignment - 1) / alignment * alignment;  // the scratch lies behind it
  for (size_t b = 0; b < buffers.size(); ++b)
    if (owners[b] >= 0) at(owners[b]) = {Location::arena, buffers[b].offset};
  for (Copy& copy : to_stages) copy.to.index = buffers[static_cast<size_t>(copy.to.index)].offset;
  for (Copy& copy : to_states)
    if (copy.staged >= 0) copy.staged = buffers[static_cast<size_t>(copy.staged)].offset;
  for (const auto* list : {&to_outputs, &to_stages, &to_states}) copies_.insert(copies_.end(), list->begin(), list->end());
  // Aliases stand where their operand does.
  for (NodeId id = 0; id < tape.size(); ++id) {
    if (is_alias(id) && fusion_.live[static_cast<size_t>(id)]) at(id) = at(alias(id));
    if (at(id).kind != Location::nowhere) located_.push_back(id);
  }
}

Cost CpuExecutable::cost() {
  if (total_ < 0) throw RunError("[cpu] its times are measured: run the program before asking for its cost");
  const Tape& tape = program_.tape;
  Cost cost;
  cost.program = program_.name;
  cost.device = "cpu";
  cost.cycles = total_;
  int64_t busy = 0;
  for (size_t s = 0; s < steps_.size(); ++s) {
    const Step& step = steps_[s];
    busy += nanoseconds_[s];
    int64_t elements = 0, moved = 0, spent = 0, counted = 0, moved_so_far = 0;
    for (NodeId id : step.nodes) elements += std::max<int64_t>(1, element_count(tape[id].shape));
    for (NodeId id : step.reads) moved += bytes_of(id);
    for (NodeId id : step.writes) moved += bytes_of(id);
    for (NodeId id : step.nodes) {  // shares that add up exactly
      const Node& node = tape[id];
      counted += std::max<int64_t>(1, element_count(node.shape));
      const double share = static_cast<double>(counted) / static_cast<double>(elements);
      const auto until = static_cast<int64_t>(static_cast<double>(nanoseconds_[s]) * share);
      const auto moved_until = static_cast<int64_t>(static_cast<double>(moved) * share);
      NodeCost row;
      row.id = id, row.op = node.op, row.order = node.order, row.dtype = node.dtype, row.shape = node.shape;
      row.phase = tape.phase_of(id), row.scope = tape.scope_of(id);
      row.cycles = (counted == elements ? nanoseconds_[s] : until) - spent;
      row.flops = row.flops_padded = useful_flops(tape, id);
      row.bytes["memory"] = (counted == elements ? moved : moved_until) - moved_so_far;
      row.busy["cpu"] = row.cycles;
      row.bound_by = "cpu";
      spent += row.cycles;
      moved_so_far += row.bytes["memory"];
      cost.nodes.push_back(std::move(row));
    }
  }
  std::sort(cost.nodes.begin(), cost.nodes.end(), [](const NodeCost& a, const NodeCost& b) { return a.id < b.id; });
  cost.launch_cycles = total_ - busy;  // checks, outputs and state moved
  NodeCost launch;
  launch.cycles = cost.launch_cycles;
  launch.bound_by = "launch";
  cost.nodes.insert(cost.nodes.begin(), launch);
  cost.engines = {{"cpu", busy, 0, total_ - busy}};
  auto& origin = cost.memory.by_origin;
  for (const Program::State& s : program_.states) origin["state"] += bytes_of(s.read);
  for (const Program::Port& p : program_.inputs) origin["inputs"] += bytes_of(p.node);
  for (const Program::Port& p : program_.outputs) origin["outputs"] += bytes_of(p.node);
  for (const Array& a : constants_) origin["constants"] += a.bytes();
  origin["arena"] = arena_bytes_ + scratch_bytes_;
  for (const auto& [name, bytes] : origin) cost.memory.hbm_peak_bytes += bytes;
  // Steps run one after the other: without some of them the run is shorter by their time.
  std::map<NodeId, Cycles> cycles;
  for (const NodeCost& row : cost.nodes) cycles[row.id] = row.cycles;
  fill_views(cost, [&](const std::vector<NodeId>& nodes) {
    Cycles sum = 0;
    for (NodeId id : nodes) sum += cycles.at(id);
    return sum;
  });
  return cost;
}

class CpuDevice : public Device {
 public:
  std::string name() const override { return "cpu"; }
  std::unique_ptr<Executable> compile(const Program& program, const CompileOptions& options) override {
    if (options.timing_only) fail("cpu", "its times are measured: there are none without a run");
    return std::make_unique<CpuExecutable>(flattened(program, name()), options);
  }
};

}  // namespace

}  // namespace cpu

std::unique_ptr<Device> make_cpu_device() { return std::make_unique<cpu::CpuDevice>(); }

}  // namespace backbeat
