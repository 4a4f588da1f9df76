// The walk over fusion groups that lower.hpp promises. One file a family of operations.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "devices/tpu/lower.hpp"
#include "sim/kernels/kernels.hpp"

namespace backbeat::tpu {

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

class Lowerer {
 public:
  Lowerer(const Program& program, const sim::Chip& chip, bool fuse, bool values);
  Lowering run();

 private:
  // --- lower.cpp: tensors, buffers, chains
  static size_t at(int64_t i) { return static_cast<size_t>(i); }
  const Node& node(NodeId id) const { return tape_[id]; }
  int32_t new_tensor(NodeId id, const Shape& shape, DType dtype, Tiling tiling);
  int32_t new_buffer(NodeId id, int64_t bytes);
  void leaves();
  bool is_alias(const FusionGroup& group) const;
  void alias(NodeId id);
  void lower_group(const FusionGroup& group);
  // The tensor of a node, laid out as `wanted`: a leaf without a reader takes that tiling, anything else is turned.
  int32_t tensor_as(NodeId id, Tiling wanted, NodeId payer);
  int32_t tensor_of(NodeId id) const { return out_.node_tensor[at(id)]; }
  Tiling tiling_of(NodeId id) const;  // in terms of the node's own shape
  bool is_identity(NodeId id) const;  // the value of its first operand: barriers, collectives of one replica
  NodeId same_value(NodeId id) const;
  int32_t copy_on_host(NodeId id, const HostValue& value);  // row-major; the chip moves nothing
  int32_t row_major(NodeId id);       // a host buffer that holds the value densely; a view is copied, once
  void set_view(NodeId id, int32_t tensor, Tiling tiling);
  int32_t turn(int32_t tensor, const Shape& shape, Tiling from, Tiling to, NodeId payer);
  sim::Layout layout_of(NodeId id) const;  // of its host value, folded broadcasts included
  int32_t buffer_of(NodeId id) const { return out_.values[at(source(id))].buffer; }
  NodeId source(NodeId id) const;
  Tiling tiling_for(const FusionGroup& group);  // of a chain: the largest operand's, else the smallest
  void define(NodeId id, Tiling tiling);        // a computed node: a tensor and a row-major buffer
  Work& add_work(Work work);
  void count_chain_flops(const FusionGroup& group, int64_t registers);

  // A chain as a register program: which operands it reads, folded broadcasts as strides of 0.
  struct Chain {
    host::VectorProgram program;
    std::vector<NodeId> inputs;        // sources, each once for each way it is read
    std::vector<sim::Layout> layouts;  // over the group's shape
    std::vector<NodeId> outputs;       // chain members
  };
  Chain chain_of(const FusionGroup& group, const std::vector<NodeId>& outputs);
  double lane_broadcasts(const Chain& chain, const Shape& shape, Tiling tiling) const;

  // --- lower_chain.cpp, lower_product.cpp, lower_convolution.cpp, lower_moves.cpp
  void lower_chain(const FusionGroup& group);
  void lower_dot(const FusionGroup& group);
  void lower_matvec(const FusionGroup& group, const DotDims& dims);
  void lower_convolution(const FusionGroup& group);
  void lower_move(NodeId id);
  bool reverses_taps(NodeId id) const;
  void lower_random(NodeId id);

  // --- lower_arrays.cpp, lower_windows.cpp, lower_indexing.cpp: the operations of host::ArrayOperation
  // Where a dimension lies: over how many registers, across lanes, across sublanes.
  struct Along {
    int64_t registers = 1;
    bool lanes = false, sublanes = false;
  };
  Along along(const Shape& shape, Tiling tiling, int64_t axis) const;
  double cycles_of(const sim::ArrayWork& work) const;
  // The tiling in which `x` is cheapest to read, turning it included, and x so laid out.
  Tiling lay_out(NodeId x, NodeId payer, const std::function<double(Tiling)>& cycles);
  // Adds an input to the kernel, unless it is there already.
  int read(Work& work, sim::ArraySpecs& spec, NodeId id, int32_t tensor, sim::ArraySpecs::Place place);
  Tiling start_along(NodeId id, int64_t axis, const std::function<sim::ArrayWork(Tiling)>& count, Work& work,
                     sim::ArraySpecs& spec);
  Work start_array(NodeId id, sim::ArraySpecs& spec) const;
  void add_array(NodeId id, Work work, sim::ArraySpecs spec);
  void lower_cumsum(NodeId id);
  void lower_argmax(NodeId id);
  void lower_sort(NodeId id);
  sim::ArrayWork sorting(Shape shape, Tiling tiling, int64_t axis, double arrays, double words, double slot) const;
  void lower_window(NodeId id);
  sim::ArrayWork window_work(NodeId id, Tiling tiling) const;
  void lower_gather(NodeId id);  // dynamic_slice, too
  void lower_scatter(NodeId id);
  void lower_update(NodeId id);  // dynamic_update_slice
  bool can_overwrite(NodeId x, NodeId by) const;

  // The epilogue of a product: what its kernel needs beside the product itself.
  struct Epilogue {
    Chain chain;
    std::vector<int32_t> tensors;  // of its inputs other than the head; -1 for the head
    std::vector<bool> full;        // read block by block as the result is written
    std::vector<NodeId> outputs;   // tensors written, the head's included where it is read elsewhere
    sim::VectorWork work;          // per register
    double lane_broadcasts = 0;
    std::shared_ptr<const sim::VectorPlan> plan;
  };
  Epilogue epilogue_of(const FusionGroup& group, Tiling tiling);
  int32_t head_buffer(const FusionGroup& group, const Epilogue& epilogue);
  Work work_of(const char* name, const FusionGroup& group) const;  // its nodes and how they share the time
  // Adds the epilogue's operands to the work, in the order of the kernel's refs. `registers`: of the result.
  sim::Epilogue bind_epilogue(const FusionGroup& group, const Epilogue& e, Tiling tiling, int64_t registers, Work& work);

  const Program& program_;
  const Tape& tape_;
  const sim::Chip& chip_;
  bool values_;
  Lowering out_;
  std::vector<Tiling> tilings_;  // by node
  std::map<std::string, int32_t> turned_;  // by tensor, shape of the view and tiling: what it was turned into
  std::vector<bool> kept_;
};

}  // namespace backbeat::tpu
