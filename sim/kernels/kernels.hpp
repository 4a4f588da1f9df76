// The kernels that products become, written in the public API of sim/kernel.hpp.
#pragma once
#include <memory>
#include <vector>

#include "sim/kernel.hpp"

namespace backbeat::sim {

// What follows a product in its kernel: a register program over the block that the product has just finished.
struct Epilogue {
  struct Input {
    DType dtype = DType::f32;
    bool head = false;  // the product itself
    bool full = false;  // as large as the result: read block by block; else whole
    int64_t vregs = 1;
  };
  std::vector<Input> inputs;
  std::vector<DType> outputs;
  VectorWork work;             // slots for one register; its plan
  double lane_broadcasts = 0;  // for one register of the result
  bool present() const { return !outputs.empty(); }
};

// [batches] a [m,k] b [k,n] -> [m,n], as the kernel sees it: `a` is streamed, `b` is latched.
struct MatmulSpec {
  DType dtype = DType::f32, result = DType::f32;
  int64_t batches = 1, m = 1, n = 1, k = 1;
  bool a_transposed = false, b_transposed = false;  // how they lie: [k,m], [n,k]
  Precision precision = Precision::standard;
  double emulated_passes = 0;
  bool swapped = false;  // see Product
  bool head_is_output = true;
  std::shared_ptr<const ProductPlan> plan;
  Epilogue epilogue;
};
struct MatmulBlock {
  int64_t m = 1, n = 1, k = 1;
  bool columns_first = false;  // the grid walks the columns in its outer loop
};
// Refs: a, b, the epilogue's inputs but the head, the head if it is an output, the epilogue's outputs; then scratch, of
// which the first is the head where it is no output.
Kernel matmul_kernel(const MatmulSpec& spec, const MatmulBlock& block, const Chip& chip);
double matmul_estimate(const MatmulSpec& spec, const MatmulBlock& block,
                       const Chip& chip);  // in cycles, for ranking blocks

// A convolution; operands and result are counted in vector registers.
struct ConvolutionSpec {
  DType dtype = DType::f32, result = DType::f32;
  int64_t images = 1, columns = 1, groups = 1;  // columns: output features of one group
  int64_t lhs_vregs = 1, kernel_vregs = 1, out_vregs = 1;
  bool streams_kernel = false;
  double turned_vregs = 0;  // of the whole streamed operand, through the XLU
  bool transposed_latch = false;
  bool packs_result = false;  // see Convolution
  Precision precision = Precision::standard;
  std::vector<ConvolutionPhase> phases;  // positions for one image
  bool head_is_output = true;
  std::shared_ptr<const ConvolutionPlan> plan;
  Epilogue epilogue;
};
struct ConvolutionBlock {
  int64_t images = 1, columns = 1;  // output features in multiples of the array's columns
  int64_t taps = 1;                 // into how many parts the contraction is cut
  bool columns_first = false;
};
Kernel convolution_kernel(const ConvolutionSpec& spec, const ConvolutionBlock& block, const Chip& chip);
double convolution_estimate(const ConvolutionSpec& spec, const ConvolutionBlock& block, const Chip& chip);

// An operation of host::ArrayOperation; operands and result are counted in vector registers and cut into as many parts as
// the grid has steps.
struct ArraySpecs {
  enum Place : uint8_t {
    along,  // block by block, as the grid walks
    whole,  // all of it in VMEM
    stays   // where it is: rows of it are moved
  };
  struct Operand {
    DType dtype = DType::f32;
    int64_t vregs = 1;
    Place place = along;
  };
  std::string name;
  std::vector<Operand> inputs;
  std::vector<Operand> outputs;  // the first is the result; others hold what a kernel of several passes keeps
  std::vector<int> operands;     // of the operation, in its order, among the inputs
  ArrayWork work;                // of all blocks together
  // Rows that are moved from an input to the result before (or, `adds`, from an input to where `work` adds them).
  RowWork rows;
  int rows_from = -1;
  bool adds = false;
  double step_addresses = 0;     // of a row of which every step moves a part
  ArrayWork cut;                 // what more than one block costs beside, all steps together
  int64_t pieces = 1;             // that need nothing of each other: more steps carry registers from one to the next
  int64_t carried_vregs = 0;
};
struct ArrayBlock {
  int64_t steps = 1, passes = 1;  // passes: how often everything goes through VMEM; or in how many parts rows are added
  bool rows_stay = false;         // the operand whose rows are moved stays where it is
};
Kernel array_kernel(const ArraySpecs& spec, const ArrayBlock& block, const Chip& chip);

}  // namespace backbeat::sim
