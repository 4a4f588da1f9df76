// Cost: where the time of one run of a Program went, by the tape's labels and by the chip's engines. Times are whole
// cycles of the device's clock (a CPU counts nanoseconds), sizes are bytes.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/tape.hpp"

namespace backbeat {

using Cycles = int64_t;

struct NodeCost {
  NodeId id = -1;
  Op op = Op::constant;
  int order = 0;
  Phase phase = Phase::forward;
  std::string scope;
  DType dtype = DType::f32;
  Shape shape;
  Cycles cycles = 0;                        // how far this node's completion moved the program's frontier
  int64_t flops = 0, flops_padded = 0;      // see useful_flops; and what the arrays and registers really did
  std::map<std::string, int64_t> bytes;     // by memory: "hbm", "vmem"
  std::map<std::string, Cycles> busy;       // by engine
  std::map<std::string, Cycles> stalls;     // by cause: "weights", "hbm", "operands", ...
  std::string bound_by;                     // the engine or memory that set its time
};

struct EngineCost {
  std::string engine;
  Cycles busy = 0, stalled = 0, idle = 0;   // they sum to Cost::cycles
};

// One row of an additive view: the rows of a view sum to Cost::cycles.
struct CostRow {
  std::string key;
  int64_t nodes = 0;
  Cycles cycles = 0;
  Cycles removal_cycles = 0;  // how much shorter the run is with this row's durations set to zero
  int64_t flops = 0, flops_padded = 0;
  std::map<std::string, int64_t> bytes;
  std::map<std::string, Cycles> stalls;
  std::map<std::string, Cycles> bound_by;   // cycles by what bound its nodes
};

struct MemoryCost {
  int64_t hbm_peak_bytes = 0, vmem_peak_bytes = 0;
  std::map<std::string, int64_t> by_origin;  // bytes at the HBM peak: parameters, optimizer, inputs, by phase kept
};

struct Cost {
  std::string program, device, chip, precision;
  double clock_hz = 1e9;
  Cycles cycles = 0;
  Cycles launch_cycles = 0;  // part of `cycles`, in the node rows of "launch": belongs to no operation
  std::vector<NodeCost> nodes;
  std::vector<EngineCost> engines;
  MemoryCost memory;
  std::vector<CostRow> by_phase, by_order, by_scope, by_op;

  double seconds() const { return static_cast<double>(cycles) / clock_hz; }
};

// Fills by_phase, by_order, by_scope and by_op from the nodes: rows in order of first appearance, the launch (node -1) as a
// row "launch" of each. Each view sums to Cost::cycles if the nodes do. `removal` says how much shorter the run is without
// some nodes; it may be called from several threads at once. Without it removal_cycles stay 0.
void fill_views(Cost& cost, const std::function<Cycles(const std::vector<NodeId>&)>& removal = {});

// The same on every device. A product: 2 for each pair of numbers that meet; in a convolution neither padding nor a zero
// between dilated elements is such a number, so a convolution and its two gradients count the same. Elementwise
// operations, random words and what goes into a reduction: 1 an element. What only moves elements: 0.
int64_t useful_flops(const Tape& tape, NodeId id);

}  // namespace backbeat
