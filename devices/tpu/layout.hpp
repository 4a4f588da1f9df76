// Layouts: which dimension of an array lies on the lanes of vector registers and which on the sublanes. They change
// time and padded size; values are row-major on the host whatever the layout.
#pragma once
#include <cstdint>
#include <optional>

#include "engine/dims.hpp"
#include "engine/dtype.hpp"
#include "sim/chip.hpp"

namespace backbeat::tpu {

struct Tiling {
  int64_t sublane = -1, lane = -1;  // dimensions; -1: none (arrays of one dimension, scalars)
  bool operator==(const Tiling&) const = default;
};

// At most one dimension is not 1: such an array is a line whatever its tiling.
bool is_line(const Shape& shape);
int64_t vregs(const Shape& shape, Tiling tiling, const sim::Chip& chip);  // vector registers, padding included
int64_t bytes(const Shape& shape, DType dtype, Tiling tiling, const sim::Chip& chip);
Tiling smallest(const Shape& shape, const sim::Chip& chip);  // the pair with the least padding; ties: last two
bool same(const Shape& shape, Tiling a, Tiling b);
Tiling transposed(Tiling tiling, const Dims& permutation);
// The tiling after a reshape that moves nothing; none if registers would have to be rearranged.
std::optional<Tiling> reshaped(const Shape& from, Tiling tiling, const Shape& to);

}  // namespace backbeat::tpu
