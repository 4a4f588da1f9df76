// From fusion groups to work for the chip: tensors in its memory and kernels that read and write them.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "devices/tpu/layout.hpp"
#include "engine/fusion.hpp"
#include "sim/kernel.hpp"
#include "sim/recording.hpp"

namespace backbeat::tpu {

// An array in the chip's memory. Several nodes may be views of one (transposes, reshapes that move nothing).
struct Tensor {
  Shape shape;
  DType dtype = DType::f32;
  Tiling tiling;
  int64_t vregs = 0, bytes = 0;
  NodeId node = -1;       // whose value it holds
  bool leaf = false;      // an input, state or constant: there before the run
  bool kept = false;      // an output or written state: must be in main memory when the run ends
  bool laid_out = true;   // leaves are laid out as their first reader wants
  int32_t producer = -1;  // index of the work that writes it
  std::vector<int32_t> consumers;
};

// Where a node's value lies on the host: a buffer and a view of it.
struct HostValue {
  int32_t buffer = -1;
  sim::Layout layout;
};
struct HostBuffer {
  enum Kind : uint8_t { input, state, constant, arena, output } kind = arena;
  int64_t bytes = 0;
  NodeId node = -1;
  Array constant_value;
};

// How a kernel's blocks are cut: one number an axis whose meaning is the kernel's own.
struct Tile {
  int64_t m = 0, n = 0, k = 0;
  bool swap_order = false;     // which axis the grid walks outside
  bool swap_operands = false;  // convolutions: features are streamed past latched positions
};

struct Work {
  std::string name;
  std::vector<NodeId> nodes;  // who pays
  NodeId head = -1;
  std::vector<double> weight;          // of each node, in vector slots; the head's does not matter
  std::vector<int32_t> reads, writes;  // tensors; in the order of the kernel's refs
  std::vector<Tile> tiles;             // candidates, the likeliest first
  std::function<sim::Kernel(const Tile&)> build;
  // What is timed to choose a tile, if not that: products choose as for one pass, so that three and six passes stream
  // exactly three and six times the rows.
  std::function<sim::Kernel(const Tile&)> build_for_choice;
  // Values: one buffer for each ref, scratch included (-1). Empty where nothing moves on the host.
  std::vector<int32_t> host_buffers;
  bool has_values = true;
  int64_t scratch_bytes = 0;
  int64_t flops_padded_swapped = -1;  // of the head, if its operands are swapped
  std::string signature;              // equal for kernels that take equally long
};

struct Lowering {
  std::vector<Tensor> tensors;
  std::vector<Work> works;
  std::vector<HostBuffer> buffers;
  std::vector<HostValue> values;             // by node; buffer -1: folded or dead
  std::vector<int32_t> node_tensor;          // by node; -1: folded or dead
  std::vector<int64_t> flops, flops_padded;  // by node
  Fusion fusion;
};

Lowering lower(const Program& program, const sim::Chip& chip, bool fuse, bool values);

}  // namespace backbeat::tpu
