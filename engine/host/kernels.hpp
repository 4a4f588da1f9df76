// The border between code compiled for one instruction set and the rest: tables of plain functions over raw pointers.
// kernels_f32.cpp and kernels_gemm.cpp are compiled once a level and fill one table each; they include nothing that has
// inline functions in common with other files, or the linker might keep the copy that an older processor cannot run.
#pragma once
#include <stdint.h>

namespace backbeat::host {

// Packed panels of one block: `a` holds panels of a_width rows, element (k, r) of a panel at [k * a_width + r]; `b` the
// same of b_width columns. A K tile is a run of k in both.
template <class T>
struct BlockArguments {
  int64_t m, n, k;
  const T* a;
  const T* b;
  T* c;                        // element (r, c) at c[row[r] + column[c]]
  const int64_t* row;
  const int64_t* column;
  const uint8_t* contiguous;   // by B panel: its columns ascend by one
  const int64_t* tile_ends;    // relative to the block, the last one k
  int64_t tiles;
  bool accumulate;             // the first tile adds to C too
  bool matrix_unit;
  bool exact_products;         // operands are numbers of a half
  const float* a_range;        // by panel, matrix unit only: smallest nonzero and largest magnitude
  const float* b_range;
};

template <class T>
struct GemmKernels {
  int64_t a_width, b_width;
  bool fused;                  // multiply-add with one rounding
  void (*block)(const BlockArguments<T>&);
};

// Rounds a packed panel in place to one of the bf16 parts (0: whole, 1: high, 2: middle, 3: low), flushes subnormals,
// makes every NaN the same and stores the panel's smallest nonzero and largest magnitude in range[0] and range[1].
using PreparePanel = void (*)(float* panel, int64_t n, int part, float* range);
enum UnaryIndex {
  u_negate, u_abs, u_sign, u_exp, u_expm1, u_log, u_log1p, u_sqrt, u_rsqrt, u_tanh, u_logistic, u_erf, u_sine, u_cosine,
  u_floor, u_ceil, u_round, u_count
};
enum BinaryIndex { b_add, b_subtract, b_multiply, b_divide, b_maximum, b_minimum, b_power, b_count };

struct Kernels {
  const char* name;
  GemmKernels<float> f32;
  GemmKernels<double> f64;
  PreparePanel prepare_panel;

  void (*unary[u_count])(const float* a, float* out, int64_t n);
  void (*binary[b_count])(const float* a, const float* b, float* out, int64_t n);
  void (*compare[6])(const float* a, const float* b, uint8_t* out, int64_t n);  // Direction
  void (*select)(const uint8_t* condition, const float* a, const float* b, float* out, int64_t n);
  void (*clamp)(const float* low, const float* x, const float* high, float* out, int64_t n);
  void (*round_to_bf16)(const float* in, float* out, int64_t n);
  void (*bf16_to_f32)(const uint16_t* in, float* out, int64_t n);
  void (*f32_to_bf16)(const float* in, uint16_t* out, int64_t n);
  void (*round_to_f16)(const float* in, float* out, int64_t n);
  void (*f16_to_f32)(const uint16_t* in, float* out, int64_t n);
  void (*f32_to_f16)(const float* in, uint16_t* out, int64_t n);

  // kind 0, 1, 2, 3: sum, max, min, product. One block of the order in reduce.hpp.
  float (*fold_f32)(int kind, const float* in, int64_t n);
  double (*fold_f64)(int kind, const double* in, int64_t n);
  void (*take_f32)(int kind, float* accumulator, const float* in, int64_t n);  // accumulator[i] takes in[i]
  void (*take_f64)(int kind, double* accumulator, const double* in, int64_t n);
};

namespace sse2 { void fill_f32(Kernels&); void fill_gemm(Kernels&); }
namespace avx2 { void fill_f32(Kernels&); void fill_gemm(Kernels&); }
namespace avx512 { void fill_f32(Kernels&); void fill_gemm(Kernels&); }

const Kernels& kernels();  // of this process, see instruction_set.hpp

}  // namespace backbeat::host
