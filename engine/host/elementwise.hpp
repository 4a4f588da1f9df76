// Chunk kernels: n contiguous elements in, n contiguous elements out; `out` may be one of the operands. The bool of
// compare and select is one byte, 0 or 1. Vector code at the level of instruction_set.hpp; f32 bits are those of
// definitions.hpp at every level.
#pragma once
#include <cstdint>

#include "engine/dtype.hpp"
#include "engine/primitive.hpp"

namespace backbeat::host {

using UnaryKernel = void (*)(const float* a, float* out, int64_t n);
using BinaryKernel = void (*)(const float* a, const float* b, float* out, int64_t n);
using CompareKernel = void (*)(const float* a, const float* b, uint8_t* out, int64_t n);

UnaryKernel unary_f32(Op op);            // Error for an operation that has no such kernel
BinaryKernel binary_f32(Op op);
CompareKernel compare_f32(Direction direction);
void select_f32(const uint8_t* condition, const float* a, const float* b, float* out, int64_t n);
void clamp_f32(const float* low, const float* x, const float* high, float* out, int64_t n);


// `half` is bf16 or f16. The bits are those of engine/dtype.hpp, NaN included.
void round_to_half(DType half, const float* in, float* out, int64_t n);  // the rounded value, still a float
void widen(DType half, const void* in, float* out, int64_t n);
void widen(DType from, const void* in, double* out, int64_t n);  // any floats
void narrow(DType half, const float* in, void* out, int64_t n);

}  // namespace backbeat::host
