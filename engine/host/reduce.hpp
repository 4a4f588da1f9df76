// Reductions of a rows x columns matrix in one written order, the same bits at every instruction-set level and for any
// number of threads.
//
// Over columns (one result a row): the columns are cut into blocks of 4096. In a block, lane l (0 ... 31) starts at the
// identity (+0 for sums, 1 for products) and takes columns l, l + 32, l + 64, ... in ascending order; then lane l takes lane l + 16, l + 8,
// l + 4, l + 2, l + 1 in turn. The total starts as the first block's value and takes the others in ascending order.
// Over rows (one result a column): the rows are cut into blocks of 256. In a block, an accumulator starts at the identity
// and takes the rows in ascending order; the total starts as the first block's value and takes the others in order.
// f64 does the same. bf16 and f16 accumulate in f32 and round once, at the end. max and min keep NaN. Integers: any order.
#pragma once
#include <cstdint>

#include "engine/host/vector_program.hpp"

namespace backbeat::host {

// out[r] over all c, contiguous. `out_dtype` is `dtype`, or f32 for a matrix of halves whose sum is to be carried on.
void reduce_over_columns(Reduction kind, DType dtype, int64_t rows, int64_t columns, VectorInput in, DType out_dtype,
                         void* out);
// out[c] over all r, contiguous.
void reduce_over_rows(Reduction kind, DType dtype, int64_t rows, int64_t columns, VectorInput in, DType out_dtype,
                      void* out);

}  // namespace backbeat::host
