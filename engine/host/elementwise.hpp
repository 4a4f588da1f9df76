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
void round_to_bf16(const float* in, float* out, int64_t n);   // the rounded value, still a float
void bf16_to_f32(const bf16* in, float* out, int64_t n);
void f32_to_bf16(const float* in, bf16* out, int64_t n);

}  // namespace backbeat::host
