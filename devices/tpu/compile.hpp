// From a lowering to a schedule: what stays in VMEM, how blocks are cut, where buffers lie, and the stream of
// instructions.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "devices/placement.hpp"
#include "devices/tpu/lower.hpp"
#include "sim/recording.hpp"

namespace backbeat::tpu {

// --- residency.cpp
struct Residency {
  std::vector<bool> resident;       // by tensor
  std::vector<int64_t> used_bytes;  // by work: VMEM taken by residents while it runs
};
// Greedy over lifetimes: the tensors that save the most traffic for the room and time they take. `reserve` bytes are
// left to the blocks of kernels.
Residency choose_residents(const Lowering& lowering, int64_t vmem_bytes, int64_t reserve);
void drop_largest_resident(Residency& residency, const Lowering& lowering, size_t work);  // none: used_bytes stays 0
std::pair<int32_t, int32_t> lifetime(const Lowering& lowering, int32_t tensor);  // first and last work, kept ones apart

// --- memory.cpp
struct MemoryPlan {
  MemoryCost cost;
};
// Error where the program does not fit the chip's main memory.
MemoryPlan plan_memory(const Program& program, const Lowering& lowering, const Residency& residency,
                       const sim::Chip& chip);

// --- schedule.cpp
// The fastest blocks by the machine's own time, remembered by the kernel's signature.
class TileSearch {
 public:
  explicit TileSearch(const sim::Chip& chip) : chip_(chip) {}
  // The index into work.tiles; -1: none fits `vmem_bytes`.
  int choose(const Work& work, const std::vector<sim::Operand>& operands, int64_t vmem_bytes);

 private:
  sim::Chip chip_;
  std::map<std::string, int> known_;
};

struct Schedule {
  std::vector<sim::Kernel> kernels;  // by work
  std::vector<int32_t> timed;        // works in the order of their kernels in the stream
  sim::Stream stream;
  int64_t vmem_peak_bytes = 0;
};
Schedule schedule(Lowering& lowering, Residency& residency, const sim::Chip& chip, TileSearch& search,
                  int64_t block_budget);

// --- costs.cpp
Cost build_cost(const Program& program, const Lowering& lowering, const Schedule& schedule, const MemoryPlan& memory,
                const sim::Chip& chip, const sim::Times& times);
sim::Scaling removing(const sim::Stream& stream, const std::vector<NodeId>& nodes);  // -1: the launch

}  // namespace backbeat::tpu
