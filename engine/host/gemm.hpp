// C = A B for operands described by offset tables, so that transposes, several contracting dimensions and convolutions
// (implicit im2col) are all one call without copies.
//
// Canonical order of addition, the same bits for any number of threads, blocking and split of M and N: within a K tile an
// accumulator starts at +0 and adds the products in ascending k, one by one; then C = C + accumulator; tiles ascend. C
// starts at +0 unless `accumulate`.
//  - f32 and f64 add each product with one rounding where the processor has FMA, else multiply then add: equal bits at one
//    instruction-set level (instruction_set.hpp).
//  - matrix_unit (f32 results only) is multiply, then add, in f32 with subnormal operands, products and sums flushed to
//    zero, and every NaN result is 0x7fc00000: the same bits at every level, on every host.
#pragma once
#include <cstdint>
#include <span>

#include "engine/dtype.hpp"

namespace backbeat::host {

// Element (r, c) is base[row[r] + column[c]]. Tables are in elements and may repeat or descend. `column` of a result is
// fastest when ascending by one; a result whose rows ascend by one is as good (the product is then computed transposed).
template <class T>
struct Indexed {
  const T* base = nullptr;
  const int64_t* row = nullptr;
  const int64_t* column = nullptr;
};
template <class T>
struct IndexedOut {
  T* base = nullptr;
  const int64_t* row = nullptr;
  const int64_t* column = nullptr;
};

// What of an f32 operand takes part in a matrix unit's pass. high = bf16(x) rounded to nearest even,
// middle = bf16(x - high), low = bf16(x - high - middle), subtractions in f32. Where high is not finite, middle and low are
// zero, so that an infinity stays one in three and six passes.
enum class Part : uint8_t { whole, bf16_high, bf16_middle, bf16_low };
float part_of(float x, Part part);  // exactly what packing does to one element, matrix_unit's flush apart

struct GemmOptions {
  bool accumulate = false;              // C += A B instead of C = A B
  std::span<const int64_t> k_tiles{};   // the ends of the K tiles, ascending, the last one k; empty: tiles of 256
  bool matrix_unit = false;             // flush subnormals, multiply and add apart (see above)
  Part a_part = Part::whole;            // f32 operands of the matrix unit only; halves are always whole
  Part b_part = Part::whole;
  int threads = 0;                      // at most so many; 0: as OpenMP is set. Small products run on one in any case
};

// A is m x k, B is k x n, C is m x n. Inside a parallel region everything runs on the calling thread.
void gemm(int64_t m, int64_t n, int64_t k, Indexed<double> a, Indexed<double> b, IndexedOut<double> c,
          const GemmOptions& options = {});
void gemm(int64_t m, int64_t n, int64_t k, Indexed<float> a, Indexed<float> b, IndexedOut<float> c,
          const GemmOptions& options = {});
void gemm(int64_t m, int64_t n, int64_t k, Indexed<bf16> a, Indexed<bf16> b, IndexedOut<float> c,
          const GemmOptions& options = {});
void gemm(int64_t m, int64_t n, int64_t k, Indexed<f16> a, Indexed<f16> b, IndexedOut<float> c,
          const GemmOptions& options = {});

// C = A B of integers: both operands become `to` by keeping its low bits or extending theirs, and products and sums wrap.
// Bases point to elements of `from`, respectively `to`.
struct IntegerOperand {
  const void* base;
  const int64_t* row;
  const int64_t* column;
};
void gemm_integers(int64_t m, int64_t n, int64_t k, DType from, IntegerOperand a, IntegerOperand b, DType to, void* c,
                   const int64_t* c_row, const int64_t* c_column);

// The definition in scalar code, one element after the other: what tests compare gemm with, bit for bit.
void gemm_plain(int64_t m, int64_t n, int64_t k, Indexed<double> a, Indexed<double> b, IndexedOut<double> c,
                const GemmOptions& options = {});
void gemm_plain(int64_t m, int64_t n, int64_t k, Indexed<float> a, Indexed<float> b, IndexedOut<float> c,
                const GemmOptions& options = {});
void gemm_plain(int64_t m, int64_t n, int64_t k, Indexed<bf16> a, Indexed<bf16> b, IndexedOut<float> c,
                const GemmOptions& options = {});
void gemm_plain(int64_t m, int64_t n, int64_t k, Indexed<f16> a, Indexed<f16> b, IndexedOut<float> c,
                const GemmOptions& options = {});

}  // namespace backbeat::host
