// Operations on whole dense row-major arrays that are neither elementwise nor products: dynamic_slice,
// dynamic_update_slice, gather, scatter, sort, argmax, cumsum, reduce_window, select_and_scatter, select_and_gather. One
// definition for the cpu device and the chip: the same bits for any number of threads, in the orders that ops.hpp states.
// Sums of halves (cumsum, reduce_window, scatter, select_and_scatter) are carried in f32; each result rounds once.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "engine/tape.hpp"

namespace backbeat::host {

bool is_array_operation(Op op);

class ArrayOperation {
 public:
  ArrayOperation(const Tape& tape, NodeId node);  // copies what it needs of the node and its operands

  int64_t scratch_bytes() const;
  // Operands in the node's order. `out` overlaps no operand, except that dynamic_update_slice and scatter may write over
  // their first. Allocates nothing.
  void run(std::span<const void* const> operands, void* out, void* scratch) const;

 private:
  struct Described {
    Shape shape;
    DType dtype;
  };
  Op op_;
  Attributes attributes_;
  std::vector<Described> operands_;
  Described result_;
};

}  // namespace backbeat::host
