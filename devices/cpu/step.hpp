// What a Program becomes on this machine: steps that run one after the other, each reading and writing whole nodes.
#pragma once
#include <functional>
#include <vector>

#include "engine/fusion.hpp"
#include "engine/program.hpp"

namespace backbeat::cpu {

// Where the values of a run lie: by node, and room that a step may use while it runs.
struct Memory {
  std::vector<char*> node;
  char* scratch = nullptr;

  template <class T = char>
  T* at(NodeId id) const { return reinterpret_cast<T*>(node[static_cast<size_t>(id)]); }
};

struct Step {
  std::vector<NodeId> nodes;            // that share its time
  std::vector<NodeId> reads, writes;
  std::vector<NodeId> elementwise_reads;  // of which element i is read just before element i of the writes is written
  int64_t scratch_bytes = 0;
  std::function<void(const Memory&)> work;
};

// An operand as it is really read: a folded broadcast is its source with strides of 0.
struct View {
  NodeId source;
  Dims strides;  // in elements, one for each dimension of the operand
};
View view_of(const Tape& tape, const Fusion& fusion, NodeId operand);

// One maker a family. `outputs` are the members of a chain that others need.
Step chain_step(const Tape& tape, const Fusion& fusion, const FusionGroup& group, const std::vector<NodeId>& outputs);
Step reduce_step(const Tape& tape, const Fusion& fusion, NodeId id);
Step dot_step(const Tape& tape, NodeId id);
Step convolution_step(const Tape& tape, NodeId id);
Step shape_step(const Tape& tape, NodeId id);   // broadcast_in_dim, transpose, slice, pad, concatenate, reverse
Step random_step(const Tape& tape, NodeId id);
Step array_step(const Tape& tape, NodeId id);   // what engine/host/array_operation.hpp computes
Step zeros_step(const Tape& tape, NodeId id);   // replica_id, and what nobody sends
Array iota_array(const Tape& tape, NodeId id);

}  // namespace backbeat::cpu
