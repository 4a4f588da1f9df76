// The primitives, named as in StableHLO, and the attributes each one carries.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engine/array.hpp"

namespace backbeat {

enum class Op : uint8_t {
  // leaves
  input, constant, iota, replica_id,
  // elementwise, one operand
  negate, abs, sign, exp, expm1, log, log1p, sqrt, rsqrt, tanh, logistic, erf, sine, cosine, floor, ceil, round_nearest_even,
  is_finite, logical_not, convert, reduce_precision, stop_gradient,
  // elementwise, two operands of one shape and dtype
  add, subtract, multiply, divide, remainder, maximum, minimum, power,
  bitwise_and, bitwise_or, bitwise_xor, shift_left, shift_right_logical, shift_right_arithmetic,
  // elementwise, mixed
  compare,  // two operands of one dtype -> bool
  select,   // (bool, x, y)
  clamp,    // (low, x, high)
  // shape
  reshape, transpose, broadcast_in_dim, slice, pad, concatenate, reverse,
  // places that are computed
  dynamic_slice,         // (x, start)
  dynamic_update_slice,  // (x, update, start)
  gather,                // (x, indices)
  scatter,               // (x, indices, updates)
  sort,                  // (keys, values): the values in the order of the keys
  // reductions and windows
  reduce, argmax, cumsum, reduce_window,
  select_and_scatter,  // (x, source): each window's source added where x has its extreme
  select_and_gather,   // (x, source): for each window what source holds where x has its extreme
  // products
  dot_general, convolution,
  // random bits
  rng_bit_generator,
  // between replicas
  all_reduce, all_gather, reduce_scatter, all_to_all, collective_permute,
  // structure
  optimization_barrier,  // (x, after...): x, but not before the others, and unlike any other node
  call,                  // a body of its own, engine/composite.hpp
  count_
};

enum class Direction : uint8_t { eq, ne, lt, le, gt, ge };
enum class Reduction : uint8_t { sum, max, min, product };

// How a product of float32 operands runs on a matrix unit that multiplies bfloat16: in 1, 3 or 6 passes.
enum class Precision : uint8_t { standard, high, highest };
int passes_of(Precision precision);
std::string_view name_of(Precision precision);  // "default", "high", "highest"
Precision precision_from_name(std::string_view name);

// Batch dimensions come first in the result, then the free ones of lhs, then those of rhs.
struct DotDims {
  Dims lhs_batch, rhs_batch, lhs_contracting, rhs_contracting;
  Precision precision = Precision::standard;
  std::optional<DType> accumulation = {};  // of the sums and the result; none: the operands' dtype
  bool operator==(const DotDims&) const = default;
};

// Of `size` elements with dilation - 1 places between neighbours.
inline int64_t dilated_size(int64_t size, int64_t dilation) { return size == 0 ? 0 : (size - 1) * dilation + 1; }

// Where batch (out for a kernel), feature (in for a kernel) and the spatial dimensions lie in an operand.
struct ConvLayout {
  int64_t batch = 0, feature = 1;
  Dims spatial{2, 3};
  bool operator==(const ConvLayout&) const = default;
};

// Cross-correlation, as lax.conv_general_dilated. kernel.batch is its output-feature dimension, kernel.feature its
// input-feature dimension (input features / feature_groups).
struct ConvDims {
  ConvLayout lhs, kernel, out;
  Dims strides{1, 1}, pad_low{0, 0}, pad_high{0, 0}, lhs_dilation{1, 1}, kernel_dilation{1, 1};
  int64_t feature_groups = 1, batch_groups = 1;
  Precision precision = Precision::standard;
  bool operator==(const ConvDims&) const = default;
};

struct ReduceDims {
  Reduction kind = Reduction::sum;
  Dims axes;
  bool operator==(const ReduceDims&) const = default;
};
struct SliceDims {
  Dims start, limit, stride;
  bool operator==(const SliceDims&) const = default;
};
struct PadDims {  // low and high may be negative; interior zeros go between elements
  Dims low, high, interior;
  bool operator==(const PadDims&) const = default;
};
struct Axis {  // concatenate, iota, sort
  int64_t index = 0;
  bool operator==(const Axis&) const = default;
};
struct CumulativeDims {
  int64_t axis = 0;
  bool reverse = false;  // from the end
  bool operator==(const CumulativeDims&) const = default;
};
struct FloatFormat {  // reduce_precision: bits besides the sign
  int exponent_bits = 8, mantissa_bits = 23;
  bool operator==(const FloatFormat&) const = default;
};
struct InputName {
  std::string name;
  bool operator==(const InputName&) const = default;
};

// One window position an output element: along a dimension, tap w of output o reads element
// (o * stride + w * window_dilation - pad_low) / base_dilation, if that is a whole number inside of the operand. What
// lies outside is the identity of the reduction. Padding may be negative. All have one entry a dimension.
struct WindowDims {
  Reduction kind = Reduction::sum;
  Dims window, strides, pad_low, pad_high, base_dilation, window_dilation;
  bool operator==(const WindowDims&) const = default;
};

// What becomes of a slice that does not lie inside of the operand: it is moved inside, or it reads zeros and writes nothing.
enum class Bounds : uint8_t { clip, fill_or_drop };

// As in lax.gather and lax.scatter. The last dimension of the indices holds a vector whose entry i is a start along the
// operand's dimension index_map[i]. The result of a gather (the updates of a scatter) has the other dimensions of the
// indices in order, and at `offset` those of the slices, without the collapsed ones (whose slice size is 1).
struct GatherDims {
  Dims offset, collapsed, index_map, slice_sizes;
  Bounds bounds = Bounds::clip;
  bool operator==(const GatherDims&) const = default;
};
struct ScatterDims {
  GatherDims where;
  bool add = true;  // false: sets; of several updates of one element the last counts, and derivatives expect none
  bool operator==(const ScatterDims&) const = default;
};

struct CollectiveDims {
  int64_t replicas = 1;
  Reduction kind = Reduction::sum;             // all_reduce
  int64_t axis = 0, concat_axis = 0;           // all_gather, reduce_scatter; all_to_all splits `axis`
  std::vector<std::pair<int64_t, int64_t>> pairs;  // collective_permute: from, to
  bool operator==(const CollectiveDims&) const = default;
};

struct Composite;
struct CallDims {
  std::shared_ptr<const Composite> composite;
  int64_t result = 0;  // which of the composite's results the node is
  bool operator==(const CallDims&) const = default;  // the same composite, not an equal one
};

// transpose: the permutation; broadcast_in_dim: where each operand dimension goes; reverse: the axes; dynamic_slice: the
// sizes; argmax: the extreme and the axis; input: its name; constant: its value. Operations without attributes hold monostate.
using Attributes =
    std::variant<std::monostate, Dims, Direction, ReduceDims, SliceDims, PadDims, Axis, CumulativeDims, FloatFormat, InputName,
                 Array, CallDims, std::shared_ptr<const DotDims>, std::shared_ptr<const ConvDims>,
                 std::shared_ptr<const WindowDims>, std::shared_ptr<const GatherDims>, std::shared_ptr<const ScatterDims>,
                 std::shared_ptr<const CollectiveDims>>;
// Those that nodes share.
template <class T>
const T& shared(const Attributes& attributes) { return *std::get<std::shared_ptr<const T>>(attributes); }
bool same_attributes(const Attributes& a, const Attributes& b);

std::string_view name_of(Op op);
std::string_view name_of(Direction direction);
std::string_view name_of(Reduction reduction);
std::ostream& operator<<(std::ostream& out, Op op);

bool is_elementwise(Op op);      // output element i depends on element i of each operand (convert, compare, select too)
bool is_differentiable(Op op);   // false: piecewise constant or integer-valued, cotangents stop here
bool is_collective(Op op);       // exchanges values between replicas

}  // namespace backbeat
