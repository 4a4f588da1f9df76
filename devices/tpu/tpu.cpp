#include "devices/tpu/tpu.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "devices/tpu/compile.hpp"
#include "sim/evaluation.hpp"

namespace backbeat {

namespace {

using namespace tpu;

// As one chip runs it: it is replica 0, and what nobody sends is zero.
Program for_one_chip(const Program& program) {
  Program flat = flattened(program, "the chip");
  for (NodeId id = 0; id < flat.tape.size(); ++id) {
    Node& n = flat.tape.node(id);
    const bool unsent =
        n.op == Op::collective_permute && std::get<std::shared_ptr<const CollectiveDims>>(n.attributes)->pairs.empty();
    if (n.op != Op::replica_id && !unsent) continue;
    n.op = Op::constant;
    n.operands.clear();
    n.attributes = Array::full(n.dtype, n.shape, 0);
  }
  return flat;
}

class TpuExecutable final : public Executable {
 public:
  TpuExecutable(const sim::Chip& chip, const Program& program, const CompileOptions& options, TileSearch& search,
                int64_t block_budget)
      : chip_(chip), program_(for_one_chip(program)), timing_only_(options.timing_only) {
    // Blocks keep at least half of VMEM, whatever would like to stay.
    const int64_t reserve = options.residency ? chip_.vmem.bytes / 2 : chip_.vmem.bytes;
    // What cannot fit is refused before the host's tables of its values, which would not fit here either.
    lowering_ = lower(program_, chip_, options.fusion, false);
    Residency residency = choose_residents(lowering_, chip_.vmem.bytes, reserve);
    plan_memory(program_, lowering_, residency, chip_);
    if (!timing_only_) {
      lowering_ = lower(program_, chip_, options.fusion, true);
      residency = choose_residents(lowering_, chip_.vmem.bytes, reserve);
    }
    schedule_ = schedule(lowering_, residency, chip_, search, block_budget);
    memory_ = plan_memory(program_, lowering_, residency, chip_);
    if (!timing_only_) plan_host();
  }

  std::vector<Array> run(std::span<const Array> inputs, StateStore& state) override {
    if (timing_only_) fail("run", program_.name, " was compiled for its time only");
    check_run(program_, inputs, state);
    states_.clear();
    for (const Program::State& s : program_.states) states_.push_back(&state.at(s.name));
    separate_state(program_, inputs, constants_, states_, seen_);
    std::vector<Array> outputs(program_.outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Node& node = program_.tape[program_.outputs[i].node];
      outputs[i] = Array(node.dtype, node.shape);
    }
    for (size_t b = 0; b < lowering_.buffers.size(); ++b) {
      const HostBuffer& buffer = lowering_.buffers[b];
      switch (buffer.kind) {
        case HostBuffer::input:
          bases_[b] = const_cast<void*>(inputs[static_cast<size_t>(port_of_[b])].raw());
          break;
        case HostBuffer::state:
          bases_[b] = states_[static_cast<size_t>(port_of_[b])]->raw();
          break;
        case HostBuffer::output:
          bases_[b] = outputs[static_cast<size_t>(port_of_[b])].raw();
          break;
        case HostBuffer::constant:
          bases_[b] = const_cast<void*>(buffer.constant_value.raw());
          break;
        case HostBuffer::arena:
          bases_[b] = static_cast<std::byte*>(arena_.raw()) + arena_offsets_[b];
          break;
      }
    }
    for (size_t w = 0; w < lowering_.works.size(); ++w) {
      const Work& work = lowering_.works[w];
      if (!work.has_values) continue;
      arrays_.assign(schedule_.kernels[w].refs().size(), nullptr);
      for (size_t r = 0; r < work.host_buffers.size(); ++r)
        arrays_[r] = bases_[static_cast<size_t>(work.host_buffers[r])];
      evaluation_.run(schedule_.kernels[w], arrays_, chip_, scratch_.raw());
    }
    for (size_t i = 0; i < outputs.size(); ++i)
      if (copied_output_[i]) deliver(program_.outputs[i].node, outputs[i]);
    // State last, and first aside where it is taken from other state: nothing may read a value that is already new.
    std::vector<std::pair<size_t, Array>> aside;
    for (size_t s = 0; s < program_.states.size(); ++s) {
      const Program::State& entry = program_.states[s];
      if (!entry.write || *entry.write == entry.read) continue;
      const HostValue& value = lowering_.values[static_cast<size_t>(*entry.write)];
      if (lowering_.buffers[static_cast<size_t>(value.buffer)].kind != HostBuffer::state) continue;
      aside.emplace_back(s, Array(program_.tape[*entry.write].dtype, program_.tape[*entry.write].shape));
      deliver(*entry.write, aside.back().second);
    }
    for (size_t s = 0; s < program_.states.size(); ++s) {
      const Program::State& entry = program_.states[s];
      if (!entry.write || *entry.write == entry.read) continue;
      Array& target = *states_[s];
      const auto held = std::find_if(aside.begin(), aside.end(), [&](const auto& a) { return a.first == s; });
      if (held != aside.end())
        std::memcpy(target.raw(), held->second.raw(), static_cast<size_t>(target.bytes()));
      else
        deliver(*entry.write, target);
    }
    return outputs;
  }

  Cost cost() override {
    const sim::Times& t = times();
    Cost cost = build_cost(program_, lowering_, schedule_, memory_, chip_, t);
    fill_views(cost, [&](const std::vector<NodeId>& nodes) {
      return t.total - sim::total_cycles(schedule_.stream, removing(schedule_.stream, nodes));
    });
    return cost;
  }

  Timeline timeline() {
    const sim::Times& t = times();
    const sim::Stream& stream = schedule_.stream;
    const std::vector<std::string> names = sim::engine_names(chip_);
    Timeline line;
    line.total = t.total;
    for (size_t n = 0; n < stream.instructions.size(); ++n) {
      const sim::Instruction& i = stream.instructions[n];
      NodeId node = -1;
      double most = -1;
      for (const auto& s : stream.labels[static_cast<size_t>(i.label)])
        if (s.share > most) {
          most = s.share;
          node = s.node;
        }
      const std::string kernel =
          i.kernel < 0 ? "launch"
                       : lowering_.works[static_cast<size_t>(schedule_.timed[static_cast<size_t>(i.kernel)])].name;
      for (int p = 0; p < i.parts; ++p) {
        const sim::Part& part = stream.parts[static_cast<size_t>(i.first_part + p)];
        if (part.occupancy > 0)
          line.events.push_back(
              {names[static_cast<size_t>(part.engine)], t.start[n], t.start[n] + part.occupancy, node, kernel});
      }
    }
    return line;
  }

  const sim::Stream& stream() const { return schedule_.stream; }

 private:
  const sim::Times& times() {
    if (!times_) times_ = std::make_unique<sim::Times>(sim::simulate(schedule_.stream, chip_));
    return *times_;
  }

  void deliver(NodeId id, Array& target) {
    const HostValue& value = lowering_.values[static_cast<size_t>(id)];
    const void* from = bases_[static_cast<size_t>(value.buffer)];
    if (value.layout.is_row_major() && value.layout.offset == 0)
      std::memcpy(target.raw(), from, static_cast<size_t>(target.bytes()));
    else
      sim::compute(sim::plan_copy(program_.tape[id].dtype, value.layout), {from}, target.raw());
  }

  // Every buffer of a step lies in one arena; what lives at different times shares its place.
  void plan_host() {
    const size_t count = lowering_.buffers.size();
    bases_.assign(count, nullptr);
    port_of_.assign(count, -1);
    arena_offsets_.assign(count, 0);
    for (size_t b = 0; b < count; ++b) {
      const HostBuffer& buffer = lowering_.buffers[b];
      if (buffer.kind == HostBuffer::input) {
        for (size_t i = 0; i < program_.inputs.size(); ++i)
          if (program_.inputs[i].node == buffer.node) port_of_[b] = static_cast<int32_t>(i);
      } else if (buffer.kind == HostBuffer::state) {
        for (size_t i = 0; i < program_.states.size(); ++i)
          if (program_.states[i].read == buffer.node) port_of_[b] = static_cast<int32_t>(i);
      } else if (buffer.kind == HostBuffer::constant) {
        constants_.push_back(buffer.constant_value);
      }
    }
    // A result that is one output and nothing else is computed in place.
    copied_output_.assign(program_.outputs.size(), true);
    std::vector<int> roots(count, 0);
    for (NodeId id : program_.roots()) ++roots[static_cast<size_t>(lowering_.values[static_cast<size_t>(id)].buffer)];
    for (size_t i = 0; i < program_.outputs.size(); ++i) {
      const HostValue& value = lowering_.values[static_cast<size_t>(program_.outputs[i].node)];
      HostBuffer& buffer = lowering_.buffers[static_cast<size_t>(value.buffer)];
      if (buffer.kind != HostBuffer::arena || roots[static_cast<size_t>(value.buffer)] != 1) continue;
      if (!value.layout.is_row_major() || value.layout.offset != 0) continue;
      buffer.kind = HostBuffer::output;
      port_of_[static_cast<size_t>(value.buffer)] = static_cast<int32_t>(i);
      copied_output_[i] = false;
    }
    const auto works = static_cast<int32_t>(lowering_.works.size());
    std::vector<Lifetime> all(count, {0, works, -1, -1});
    int64_t scratch = 64;
    for (int32_t w = 0; w < works; ++w) {
      for (int32_t b : lowering_.works[static_cast<size_t>(w)].host_buffers) {
        all[static_cast<size_t>(b)].first = std::min<int64_t>(all[static_cast<size_t>(b)].first, w);
        all[static_cast<size_t>(b)].last = std::max<int64_t>(all[static_cast<size_t>(b)].last, w);
      }
      scratch = std::max(scratch, lowering_.works[static_cast<size_t>(w)].scratch_bytes);
    }
    std::vector<Lifetime> intervals;
    std::vector<size_t> of;
    for (size_t b = 0; b < count; ++b) {
      if (lowering_.buffers[b].kind != HostBuffer::arena || all[b].last < 0) continue;
      all[b].bytes = lowering_.buffers[b].bytes + 64;  // vector code may read a whole last register
      if (roots[b] > 0) all[b].last = works;
      intervals.push_back(all[b]);
      of.push_back(b);
    }
    arena_ = Array(DType::boolean, {place(intervals, Array::alignment) + 128});
    for (size_t n = 0; n < of.size(); ++n) arena_offsets_[of[n]] = intervals[n].offset;
    scratch_ = Array(DType::boolean, {scratch + 64});
  }

  const sim::Chip chip_;
  const Program program_;
  bool timing_only_;
  Lowering lowering_;
  Schedule schedule_;
  MemoryPlan memory_;
  std::unique_ptr<sim::Times> times_;
  sim::Evaluation evaluation_;
  std::vector<void*> bases_, arrays_;
  std::vector<int32_t> port_of_;        // by buffer: which input, state or output
  std::vector<int64_t> arena_offsets_;  // by buffer
  std::vector<bool> copied_output_;
  std::vector<Array> constants_;
  std::vector<Array*> states_;  // of the store of this run
  std::vector<const void*> seen_;
  Array arena_, scratch_;
};

class TpuDevice final : public Device {
 public:
  explicit TpuDevice(sim::Chip chip) : chip_(std::move(chip)), search_(chip_) {}
  std::string name() const override { return "tpu"; }
  std::unique_ptr<Executable> compile(const Program& program, const CompileOptions& options) override {
    return std::make_unique<TpuExecutable>(chip_, program, options, search_, block_budget);
  }
  int64_t block_budget = 0;

 private:
  sim::Chip chip_;
  TileSearch search_;
};

TpuExecutable& checked(Executable& executable) {
  auto* tpu = dynamic_cast<TpuExecutable*>(&executable);
  if (!tpu) fail("tpu", "the program was compiled for another device");
  return *tpu;
}

}  // namespace

std::unique_ptr<Device> make_tpu_device(sim::Chip chip) { return std::make_unique<TpuDevice>(std::move(chip)); }
Timeline timeline(Executable& executable) { return checked(executable).timeline(); }
const sim::Stream& instruction_stream(Executable& executable) { return checked(executable).stream(); }
void set_block_budget(Device& device, int64_t bytes) {
  auto* tpu = dynamic_cast<TpuDevice*>(&device);
  if (!tpu) fail("tpu", device.name(), " has no blocks to cut");
  tpu->block_budget = bytes;
}

}  // namespace backbeat
