// The simulated TPU as a Device: a Program becomes kernels of sim/kernel.hpp, which give both its values and its
// cycles.
#pragma once
#include <memory>
#include <vector>

#include "devices/device.hpp"
#include "sim/chip.hpp"
#include "sim/machine.hpp"

namespace backbeat {

std::unique_ptr<Device> make_tpu_device(sim::Chip chip);

// What an executable of this device can tell beside its Cost.
struct TimelineEvent {
  std::string engine;
  Cycles start = 0, end = 0;  // occupancy; the result may be ready later
  NodeId node = -1;           // the one that pays most of it; -1: the launch
  std::string kernel;
};
struct Timeline {
  Cycles total = 0;  // when the last result is ready
  std::vector<TimelineEvent> events;
};
// Of an executable of a TPU device; Error for any other.
Timeline timeline(Executable& executable);
// The recorded instructions of one run: for counterfactuals such as an engine twice as fast.
const sim::Stream& instruction_stream(Executable& executable);
// Blocks are chosen as large as this many bytes of VMEM allow, 0: all of it. Values do not depend on it: tests say so.
void set_block_budget(Device& device, int64_t bytes);

}  // namespace backbeat
