// A little register program over chunks of elements: what a fused group of elementwise nodes becomes, on the cpu device
// and on the chip's vector unit. Each register holds one chunk; the program runs over a chunk while it lies in L1.
//
// f32 values are the exact definitions of definitions.hpp, the same bits at every instruction-set level. bf16 and f16 values
// are computed in f32 and rounded once an operation, to nearest even. Integers wrap; a float becomes an integer by truncation
// with saturation (NaN gives 0); x / 0 is all ones, x rem 0 is x, the smallest value / -1 is itself; a shift by the width or
// more, or by less than nothing, leaves 0, or sign bits where it is arithmetic. bool: add and maximum are or, multiply and
// minimum are and.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "engine/dtype.hpp"
#include "engine/primitive.hpp"

namespace backbeat {
struct Node;
}

namespace backbeat::host {

// One elementwise operation, or Op::constant, which fills its register with `value` once a run.
struct VectorOp {
  Op op = Op::constant;
  DType dtype = DType::f32;          // of the result
  DType operand_dtype = DType::f32;  // of operand a, which may differ from the result's: convert, compare, is_finite
  Direction direction = Direction::eq;  // compare
  FloatFormat format = {};              // reduce_precision
  int destination = -1;
  int a = -1, b = -1, c = -1;        // registers, in the order of the node's operands
  double value = 0;
};

VectorOp vector_op(const Node& node, DType operand_dtype);  // with the node's attributes, its registers still to be filled in
bool is_immediate(const Node& node);  // a constant of one element that is exactly the `value` of an Op::constant

// Registers 0 ... inputs - 1 hold the inputs and are never written. A register of a constant is written by it alone; any
// other may be reused, with any dtype, once its value is dead; by the operation that reads it last only for a value of the
// same width. `outputs` are registers as they stand at the end.
struct VectorProgram {
  int inputs = 0;
  std::vector<DType> input_dtypes;
  std::vector<VectorOp> ops;
  std::vector<int> outputs;
  std::vector<DType> output_dtypes;  // the dtype of the value in each output's register
  int registers = 0;
};

// Element (r, c) is at base + r * row_stride + c * column_stride, in elements of the value's dtype. Strides of 0 broadcast;
// column strides of 0 and 1 are fast, others are right.
struct VectorInput {
  const void* base = nullptr;
  int64_t row_stride = 0, column_stride = 0;
};
struct VectorOutput {
  void* base = nullptr;
  int64_t row_stride = 0, column_stride = 0;
};

// An output may share memory with an input only if both have the same base, strides and element size; nothing else may
// overlap. Allocates nothing but a thread's scratch, which is kept.
void run(const VectorProgram& program, int64_t rows, int64_t columns, std::span<const VectorInput> inputs,
         std::span<const VectorOutput> outputs);
// The same bits on several threads when there is work enough.
void run_parallel(const VectorProgram& program, int64_t rows, int64_t columns, std::span<const VectorInput> inputs,
                  std::span<const VectorOutput> outputs);

}  // namespace backbeat::host
