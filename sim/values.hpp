// What instructions compute, prepared once for whole arrays: index tables, register programs, orders of addition.
// Every definition here is exact: the same bits on every host and for any number of threads.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/dims.hpp"
#include "engine/dtype.hpp"
#include "engine/host/vector_program.hpp"
#include "engine/primitive.hpp"

namespace backbeat::sim {

// An array of any strides, in elements from its base.
struct Layout {
  Shape shape;
  Dims strides;
  int64_t offset = 0;
  static Layout row_major(const Shape& shape) { return {shape, row_major_strides(shape), 0}; }
  bool is_row_major() const;
};

// --- products
// In 1, 3 or 6 passes: which bf16 part of each operand, in the order in which passes are added. Smallest terms first.
struct PassParts {
  int a, b;  // 0 high, 1 middle, 2 low
};
const std::vector<PassParts>& passes(Precision precision);

struct ProductPlan {
  int64_t m = 0, n = 0, k = 0;
  std::vector<int64_t> a_row, a_column, b_row, b_column, c_row, c_column;
  struct Batch {
    int64_t a, b, c;
  };
  std::vector<Batch> batches;
  std::vector<int64_t> k_tiles;  // their ends
  Precision precision = Precision::standard;
  bool vector_unit = false;  // f32 products, on the VPU: a matrix times a vector
  bool a_rounded = false;    // `a` holds bf16 values
  bool accumulate = false;   // the first pass adds to the result, too
  int64_t pass = -1;         // this pass alone; -1: all
  DType a_dtype = DType::f32, b_dtype = DType::f32, c_dtype = DType::f32;
};
// `dtype` is the operands'.
ProductPlan plan_product(const DotDims& dims, const Layout& a, const Layout& b, const Shape& out, DType dtype,
                         int64_t array_rows);
// `scratch` holds scratch_bytes(plan).
void compute(const ProductPlan& plan, const void* a, const void* b, void* c, void* scratch);
int64_t scratch_bytes(const ProductPlan& plan);

// --- convolutions: the lhs is copied once into an array with a border of zeros, rounded to bf16 where one pass is
// enough; then every phase of every group is a product of index tables.
struct ConvolutionPlan {
  DType dtype = DType::f32, lhs_dtype = DType::f32;
  Precision precision = Precision::standard;
  Layout lhs;            // [batch, features, spatial...]
  Shape bordered;        // [batch, spatial..., features]
  Dims border;           // zeros before each spatial dimension
  bool rounded = false;  // bordered holds f32 values that are rounded to bf16 already, once and not at every tap
  std::vector<ProductPlan> products;  // a = bordered lhs, b = kernel, c = output
  bool overwrites_all = true;         // false: some outputs have no taps and are zero
  int64_t output_elements = 0, kernel_extent = 0;  // kernel_extent: elements from its base to its last one
};
// Taps of one output phase, per spatial dimension: kernel index and offset into the (undilated, unpadded) lhs.
struct Taps {
  int64_t first_output = 0, output_step = 1, outputs = 0;  // outputs first, first + step, ...
  int64_t input_step = 1;                                  // lhs positions between two of them
  std::vector<int64_t> kernel, offset;                     // offset = the tap's lhs position at the first output
};
std::vector<Taps> phases_of(int64_t lhs, int64_t kernel, int64_t out, int64_t stride, int64_t pad_low,
                            int64_t lhs_dilation, int64_t kernel_dilation);
// Channel-first packing (Zhou et al., IISWC 2021): max(1, rows / channels) taps share a pass; the rows in use, tile by
// tile.
std::vector<int64_t> convolution_k_tiles(int64_t taps, int64_t channels, int64_t rows);

ConvolutionPlan plan_convolution(const ConvDims& dims, const Layout& lhs, const Layout& kernel, const Shape& out,
                                 DType dtype, int64_t array_rows);
void compute(const ConvolutionPlan& plan, const void* lhs, const void* kernel, void* out, void* scratch);
int64_t scratch_bytes(const ConvolutionPlan& plan);

// --- elementwise: a register program over arrays of any rank, dimensions merged where all operands allow it
struct VectorPlan {
  host::VectorProgram program;
  Dims outer;  // loops around rows x columns
  int64_t rows = 1, columns = 1;
  struct Operand {
    int64_t offset, row_stride, column_stride, element_bytes;
    Dims outer_strides;
  };
  std::vector<Operand> inputs, outputs;
};
VectorPlan plan_vector(host::VectorProgram program, const Shape& shape, const std::vector<Layout>& inputs,
                       const std::vector<Layout>& outputs);
void compute(const VectorPlan& plan, std::span<const void* const> inputs, std::span<void* const> outputs);

// --- reductions: the innermost group of neighbouring axes first, in the order that engine/host/reduce.hpp states
struct ReducePlan {
  Reduction kind = Reduction::sum;
  DType dtype = DType::f32;
  struct Stage {
    int64_t outer, reduced, inner;
  };  // [outer, reduced, inner] -> [outer, inner]
  std::vector<Stage> stages;
  VectorPlan gather;  // makes the input row-major first; unused when `direct`
  bool direct = true;
  int64_t offset = 0, elements = 0;  // of the input
};
ReducePlan plan_reduce(const ReduceDims& dims, const Layout& in, DType dtype);
void compute(const ReducePlan& plan, const void* in, void* out, void* scratch);
int64_t scratch_bytes(const ReducePlan& plan);

// --- moving: out[i] = in[i] for each region; what no region covers is zero
struct CopyPlan {
  struct Region {
    int32_t source;
    VectorPlan copy;
  };
  std::vector<Region> regions;
  bool clear = false;
  int64_t output_bytes = 0;
};
CopyPlan plan_copy(DType dtype, const Layout& in);  // to row-major
CopyPlan plan_pad(DType dtype, const Layout& in, const PadDims& pad, const Shape& out);
CopyPlan plan_concatenate(DType dtype, const std::vector<Layout>& parts, int64_t axis, const Shape& out);
void compute(const CopyPlan& plan, const std::vector<const void*>& inputs, void* out);

// --- random words and iota
struct RandomPlan {
  int64_t samples = 0, words = 0;  // words of one sample
};
void compute(const RandomPlan& plan, const uint32_t* key, uint32_t* out);
void fill_iota(DType dtype, const Shape& shape, int64_t axis, void* out);

}  // namespace backbeat::sim
