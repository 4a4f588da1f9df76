// The reference device: the live nodes of a Program evaluated one by one, in the order of the tape, and timed.
#include <chrono>

#include "devices/device.hpp"
#include "devices/reference/evaluate.hpp"

namespace backbeat {

namespace {

Array evaluate(const Node& node, reference::Operands x) {
  using namespace reference;
  const auto& a = node.attributes;
  switch (node.op) {
    case Op::constant: return std::get<Array>(a);
    case Op::iota: return iota(node.dtype, node.shape, std::get<Axis>(a).index);
    case Op::reshape: return x[0].reshaped(node.shape);
    case Op::transpose: return transpose(x[0], std::get<Dims>(a));
    case Op::broadcast_in_dim: return broadcast_in_dim(x[0], node.shape, std::get<Dims>(a));
    case Op::slice: return slice(x[0], node.shape, std::get<SliceDims>(a));
    case Op::pad: return pad(x[0], node.shape, std::get<PadDims>(a));
    case Op::concatenate: return concatenate(x, node.dtype, node.shape, std::get<Axis>(a).index);
    case Op::reverse: return reverse(x[0], std::get<Dims>(a));
    case Op::reduce: return reduce(x[0], node.shape, std::get<ReduceDims>(a));
    case Op::dynamic_slice: return dynamic_slice(x[0], x[1], node.shape);
    case Op::dynamic_update_slice: return dynamic_update_slice(x[0], x[1], x[2]);
    case Op::gather: return gather(x[0], x[1], node.shape, shared<GatherDims>(a));
    case Op::scatter: return scatter(x[0], x[1], x[2], shared<ScatterDims>(a));
    case Op::sort: return sort(x[0], x[1], std::get<Axis>(a).index);
    case Op::argmax: return argmax(x[0], node.shape, std::get<ReduceDims>(a));
    case Op::cumsum: return cumsum(x[0], std::get<CumulativeDims>(a));
    case Op::reduce_window: return reduce_window(x[0], node.shape, shared<WindowDims>(a));
    case Op::select_and_scatter: return select_and_scatter(x[0], x[1], shared<WindowDims>(a));
    case Op::select_and_gather: return select_and_gather(x[0], x[1], node.shape, shared<WindowDims>(a));
    case Op::dot_general: return dot_general(x[0], x[1], node.shape, shared<DotDims>(a));
    case Op::convolution: return convolution(x[0], x[1], node.shape, shared<ConvDims>(a));
    case Op::rng_bit_generator: return rng_bit_generator(x[0], node.shape);
    case Op::optimization_barrier: return x[0];
    // There is one replica.
    case Op::replica_id: return Array::zeros(node.dtype, {});
    case Op::all_reduce:
    case Op::all_gather:
    case Op::reduce_scatter:
    case Op::all_to_all: return x[0];
    case Op::collective_permute:
      return shared<CollectiveDims>(a).pairs.empty() ? Array::zeros(node.dtype, node.shape) : x[0];
    default: break;
  }
  if (!is_elementwise(node.op)) fail("reference", "cannot evaluate ", node.op);
  return elementwise(node, x);
}

class ReferenceExecutable : public Executable {
 public:
  explicit ReferenceExecutable(const Program& program)
      : program_(program),
        last_use_(static_cast<size_t>(program.tape.size()), unused),
        nanoseconds_(last_use_.size(), 0) {
    // Walking back, the first user met is the last; what no live node uses is dead and not computed.
    for (NodeId root : program_.roots()) last_use_[static_cast<size_t>(root)] = program_.tape.size();
    for (NodeId id = program_.tape.size() - 1; id >= 0; --id)
      if (last_use_[static_cast<size_t>(id)] != unused)
        for (NodeId operand : program_.tape[id].operands)
          if (last_use_[static_cast<size_t>(operand)] == unused) last_use_[static_cast<size_t>(operand)] = id;
  }

  std::vector<Array> run(std::span<const Array> inputs, StateStore& state) override {
    check_run(program_, inputs, state);
    const Tape& tape = program_.tape;
    std::vector<Array> values(last_use_.size());
    for (size_t i = 0; i < inputs.size(); ++i) values[static_cast<size_t>(program_.inputs[i].node)] = inputs[i];
    for (const Program::State& s : program_.states) values[static_cast<size_t>(s.read)] = state.at(s.name);

    for (NodeId id = 0; id < tape.size(); ++id) {
      const Node& node = tape[id];
      if (node.op == Op::input || last_use_[static_cast<size_t>(id)] == unused) continue;
      std::vector<Array> operands;
      for (NodeId operand : node.operands) operands.push_back(values[static_cast<size_t>(operand)]);
      for (NodeId operand : node.operands)
        if (last_use_[static_cast<size_t>(operand)] == id) values[static_cast<size_t>(operand)] = {};
      const auto start = std::chrono::steady_clock::now();
      values[static_cast<size_t>(id)] = evaluate(node, operands);
      const auto elapsed = std::chrono::steady_clock::now() - start;
      nanoseconds_[static_cast<size_t>(id)] = std::chrono::duration_cast<std::chrono::nanoseconds>(elapsed).count();
    }

    ran_ = true;

    // Copies: an output may share its buffer with an input, a constant or another output.
    std::vector<Array> outputs;
    for (const Program::Port& port : program_.outputs)
      outputs.push_back(values[static_cast<size_t>(port.node)].clone());
    for (const Program::State& s : program_.states)
      if (s.write) state.set(s.name, values[static_cast<size_t>(*s.write)].clone());
    return outputs;
  }

  Cost cost() override {
    if (!ran_) throw RunError("[reference] its times are measured: run the program before asking for its cost");
    Cost cost;
    cost.program = program_.name;
    cost.device = "reference";
    for (NodeId id = 0; id < program_.tape.size(); ++id) {
      const Node& node = program_.tape[id];
      if (node.op == Op::input || last_use_[static_cast<size_t>(id)] == unused) continue;
      NodeCost row;
      row.id = id, row.op = node.op, row.dtype = node.dtype, row.shape = node.shape;
      row.order = node.order, row.phase = program_.tape.phase_of(id), row.scope = program_.tape.scope_of(id);
      row.cycles = nanoseconds_[static_cast<size_t>(id)];
      row.busy["host"] = row.cycles;
      row.flops = row.flops_padded = useful_flops(program_.tape, id);
      row.bound_by = "host";
      cost.cycles += row.cycles;
      cost.nodes.push_back(std::move(row));
    }
    cost.engines = {{"host", cost.cycles, 0, 0}};
    // One node after the other: what is left out is saved.
    fill_views(cost, [this](const std::vector<NodeId>& nodes) {
      Cycles saved = 0;
      for (NodeId id : nodes) saved += nanoseconds_[static_cast<size_t>(id)];
      return saved;
    });
    return cost;
  }

 private:
  static constexpr NodeId unused = -1;

  const Program program_;
  std::vector<NodeId> last_use_;     // by node: the last node that reads it; past the end for what the run returns
  std::vector<Cycles> nanoseconds_;  // by node: of the last run
  bool ran_ = false;
};

class ReferenceDevice : public Device {
 public:
  std::string name() const override { return "reference"; }
  std::unique_ptr<Executable> compile(const Program& program, const CompileOptions& options) override {
    if (options.timing_only) fail("reference", "its times are measured: there are none without a run");
    return std::make_unique<ReferenceExecutable>(flattened(program, name()));
  }
};

}  // namespace

std::unique_ptr<Device> make_reference_device() { return std::make_unique<ReferenceDevice>(); }

}  // namespace backbeat
