// One node's value from its operands' values: what the reference device is made of. bf16 and f16 compute in f32 and round
// once.
#pragma once
#include <span>

#include "engine/tape.hpp"

namespace backbeat::reference {

using Operands = std::span<const Array>;

Array elementwise(const Node& node, Operands x);

Array transpose(const Array& x, const Dims& permutation);
Array broadcast_in_dim(const Array& x, const Shape& shape, const Dims& dims);
Array slice(const Array& x, const Shape& shape, const SliceDims& dims);
Array pad(const Array& x, const Shape& shape, const PadDims& dims);
Array concatenate(Operands parts, DType dtype, const Shape& shape, int64_t axis);
Array reverse(const Array& x, const Dims& axes);
Array iota(DType dtype, const Shape& shape, int64_t axis);
Array reduce(const Array& x, const Shape& shape, const ReduceDims& dims);

Array dynamic_slice(const Array& x, const Array& start, const Shape& sizes);
Array dynamic_update_slice(const Array& x, const Array& update, const Array& start);
Array gather(const Array& x, const Array& indices, const Shape& shape, const GatherDims& dims);
Array scatter(const Array& x, const Array& indices, const Array& updates, const ScatterDims& dims);

Array sort(const Array& keys, const Array& values, int64_t axis);
Array argmax(const Array& x, const Shape& shape, const ReduceDims& dims);
Array cumsum(const Array& x, const CumulativeDims& dims);
Array reduce_window(const Array& x, const Shape& shape, const WindowDims& dims);
Array select_and_scatter(const Array& x, const Array& source, const WindowDims& dims);
Array select_and_gather(const Array& x, const Array& source, const Shape& shape, const WindowDims& dims);

Array dot_general(const Array& lhs, const Array& rhs, const Shape& shape, const DotDims& dims);
Array convolution(const Array& lhs, const Array& kernel, const Shape& shape, const ConvDims& dims);
Array rng_bit_generator(const Array& key, const Shape& shape);

}  // namespace backbeat::reference
