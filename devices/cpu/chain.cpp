// A chain of elementwise nodes as one vector program: every value between its inputs and its outputs stays in L1.
#include <omp.h>

#include <algorithm>
#include <map>

#include "devices/cpu/step.hpp"
#include "engine/host/vector_program.hpp"

namespace backbeat::cpu {

namespace {

using host::VectorOp;
using host::VectorProgram;

// One dimension of the loop over a chain: its size and each operand's stride, outputs after inputs.
struct LoopAxis {
  int64_t size;
  std::vector<int64_t> strides;
};

// Axes of size one go; neighbours that continue each other for every operand become one. At least [rows, columns] remain.
std::vector<LoopAxis> collapse(const Shape& shape, const std::vector<Dims>& strides) {
  std::vector<LoopAxis> axes;
  for (int64_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) continue;
    LoopAxis axis{shape[i], {}};
    for (const Dims& s : strides) axis.strides.push_back(s[i]);
    const auto continues = [&](const LoopAxis& outer) {
      for (size_t o = 0; o < strides.size(); ++o)
        if (outer.strides[o] != axis.size * axis.strides[o]) return false;
      return true;
    };
    if (!axes.empty() && continues(axes.back())) {
      axis.size *= axes.back().size;
      axes.back() = axis;
    } else {
      axes.push_back(axis);
    }
  }
  while (axes.size() < 2) axes.insert(axes.begin(), LoopAxis{1, std::vector<int64_t>(strides.size(), 0)});
  return axes;
}

// Hands out registers and takes them back when a value is dead.
class Registers {
 public:
  explicit Registers(int reserved) : count_(reserved) {}
  int take() {
    if (free_.empty()) return count_++;
    const int r = free_.back();
    free_.pop_back();
    return r;
  }
  void give_back(int r) { free_.push_back(r); }
  int count() const { return count_; }

 private:
  int count_;
  std::vector<int> free_;
};

}  // namespace

Step chain_step(const Tape& tape, const Fusion& fusion, const FusionGroup& group, const std::vector<NodeId>& outputs) {
  const std::vector<NodeId>& chain = group.chain;
  const Shape& shape = tape[chain[0]].shape;
  const Dims dense = row_major_strides(shape);
  const auto member = [&](NodeId id) { return std::binary_search(chain.begin(), chain.end(), id); };

  // Inputs: each source once for each way in which it is read.
  std::vector<View> inputs;
  std::map<NodeId, int> place;  // by operand as written: its input, or -1 - (index of an immediate)
  std::vector<NodeId> immediates;
  std::map<NodeId, size_t> last_use;
  for (NodeId id : chain)
    for (NodeId operand : tape[id].operands) {
      last_use[operand] = static_cast<size_t>(id);
      if (member(operand) || place.count(operand)) continue;
      const View view = view_of(tape, fusion, operand);
      if (host::is_immediate(tape[view.source])) {
        const auto found = std::find(immediates.begin(), immediates.end(), view.source);
        place[operand] = -1 - static_cast<int>(found - immediates.begin());
        if (found == immediates.end()) immediates.push_back(view.source);
        continue;
      }
      const auto found = std::find_if(inputs.begin(), inputs.end(),
                                      [&](const View& v) { return v.source == view.source && v.strides == view.strides; });
      place[operand] = static_cast<int>(found - inputs.begin());
      if (found == inputs.end()) inputs.push_back(view);
    }

  auto program = std::make_shared<VectorProgram>();
  program->inputs = static_cast<int>(inputs.size());
  for (const View& view : inputs) program->input_dtypes.push_back(tape[view.source].dtype);
  const int first_immediate = program->inputs;
  for (size_t i = 0; i < immediates.size(); ++i)
    program->ops.push_back({.op = Op::constant, .dtype = tape[immediates[i]].dtype, .destination = first_immediate + static_cast<int>(i),
                            .value = std::get<Array>(tape[immediates[i]].attributes).at(0)});
  Registers registers(first_immediate + static_cast<int>(immediates.size()));
  std::map<NodeId, int> holder;
  const auto register_of = [&](NodeId operand) {
    if (member(operand)) return holder.at(operand);
    const int p = place.at(operand);
    return p >= 0 ? p : first_immediate + (-1 - p);
  };
  for (NodeId id : chain) {
    const Node& node = tape[id];
    VectorOp op = host::vector_op(node, tape[node.operands[0]].dtype);
    int* const slots[] = {&op.a, &op.b, &op.c};
    for (size_t i = 0; i < node.operands.size(); ++i) *slots[i] = register_of(node.operands[i]);
    op.destination = registers.take();
    holder[id] = op.destination;
    program->ops.push_back(op);
    std::vector<NodeId> operands = node.operands;
    std::sort(operands.begin(), operands.end());
    operands.erase(std::unique(operands.begin(), operands.end()), operands.end());
    for (NodeId operand : operands)
      if (member(operand) && last_use[operand] == static_cast<size_t>(id) &&
          std::find(outputs.begin(), outputs.end(), operand) == outputs.end())
        registers.give_back(holder.at(operand));
  }
  for (NodeId id : outputs) {
    program->outputs.push_back(holder.at(id));
    program->output_dtypes.push_back(tape[id].dtype);
  }
  program->registers = registers.count();

  std::vector<Dims> strides;
  for (const View& view : inputs) strides.push_back(view.strides);
  for (size_t i = 0; i < outputs.size(); ++i) strides.push_back(dense);
  const std::vector<LoopAxis> axes = collapse(shape, strides);

  Step step;
  step.nodes = chain;
  step.writes = outputs;
  for (const View& view : inputs) {
    step.reads.push_back(view.source);
    if (view.strides == dense) step.elementwise_reads.push_back(view.source);
  }
  // A source that is read in another way as well may not be overwritten on the fly.
  std::erase_if(step.elementwise_reads, [&](NodeId id) {
    return std::any_of(inputs.begin(), inputs.end(), [&](const View& v) { return v.source == id && v.strides != dense; });
  });

  struct Port {
    NodeId id;
    int64_t size;  // bytes an element
  };
  std::vector<Port> in, out;
  for (const View& view : inputs) in.push_back({view.source, size_of(tape[view.source].dtype)});
  for (NodeId id : outputs) out.push_back({id, size_of(tape[id].dtype)});
  const LoopAxis rows = axes[axes.size() - 2], columns = axes[axes.size() - 1];
  const std::vector<LoopAxis> outer(axes.begin(), axes.end() - 2);
  int64_t repeats = 1;
  for (const LoopAxis& axis : outer) repeats *= axis.size;
  const bool small_inside = rows.size * columns.size * static_cast<int64_t>(program->ops.size()) < (1 << 18);
  const bool outer_threads = repeats > 1 && small_inside && repeats * rows.size * columns.size * static_cast<int64_t>(program->ops.size()) > (1 << 18);

  step.work = [=](const Memory& m) {
#pragma omp parallel for schedule(static) if (outer_threads && !omp_in_parallel())
    for (int64_t repeat = 0; repeat < repeats; ++repeat) {
      thread_local std::vector<host::VectorInput> from;
      thread_local std::vector<host::VectorOutput> to;
      from.clear();
      to.clear();
      const auto offset = [&](size_t operand) {
        int64_t rest = repeat, sum = 0;
        for (size_t i = outer.size(); i-- > 0; rest /= outer[i].size) sum += rest % outer[i].size * outer[i].strides[operand];
        return sum;
      };
      for (size_t i = 0; i < in.size(); ++i)
        from.push_back({m.at(in[i].id) + offset(i) * in[i].size, rows.strides[i], columns.strides[i]});
      for (size_t i = 0; i < out.size(); ++i) {
        const size_t o = in.size() + i;
        to.push_back({m.at(out[i].id) + offset(o) * out[i].size, rows.strides[o], columns.strides[o]});
      }
      if (outer_threads) host::run(*program, rows.size, columns.size, from, to);
      else host::run_parallel(*program, rows.size, columns.size, from, to);
    }
  };
  return step;
}

}  // namespace backbeat::cpu
