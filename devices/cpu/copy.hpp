// Moving elements: one strided copy serves transpose, slice, pad, concatenate, reverse and broadcasts.
#pragma once
#include "engine/dims.hpp"
#include "engine/dtype.hpp"

namespace backbeat::cpu {

// to[sum of i * to_strides] = from[sum of i * from_strides] for every index i within `shape`; strides in elements, those of
// `from` may be 0 or negative. On several threads when there is work enough.
void strided_copy(DType dtype, const Shape& shape, const void* from, const Dims& from_strides, void* to, const Dims& to_strides);

void fill_zero(void* to, int64_t bytes);

// `from` with zeros around and between its elements, into a dense array of shape `out`. Negative padding cuts off.
void padded_copy(DType dtype, const Shape& shape, const void* from, const Dims& from_strides, const Dims& low, const Dims& interior,
                 const Shape& out, void* to);

}  // namespace backbeat::cpu
