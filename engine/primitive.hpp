// The primitives, named as in StableHLO, and the attributes each one carries.
#pragma once
#include <memory>
#include <string>
#include <variant>

#include "engine/array.hpp"

namespace backbeat {

enum class Op : uint8_t {
  // leaves
  input, constant, iota,
  // elementwise, one operand
  negate, abs, sign, exp, log, sqrt, rsqrt, tanh, logistic, sine, cosine, logical_not, convert, stop_gradient,
  // elementwise, two operands of one shape and dtype
  add, subtract, multiply, divide, maximum, minimum, power, shift_right_logical,
  // elementwise, mixed
  compare,  // two operands of one dtype -> bool
  select,   // (bool, x, y)
  // shape
  reshape, transpose, broadcast_in_dim, slice, pad, concatenate, reverse,
  // contraction
  reduce, dot_general, convolution,
  // random bits
  rng_bit_generator,
  count_
};

enum class Direction : uint8_t { eq, ne, lt, le, gt, ge };
enum class Reduction : uint8_t { sum, max, min };

// How a product of float32 operands runs on a matrix unit that multiplies bfloat16: in 1, 3 or 6 passes.
enum class Precision : uint8_t { standard, high, highest };
int passes_of(Precision precision);
std::string_view name_of(Precision precision);  // "default", "high", "highest"
Precision precision_from_name(std::string_view name);

// Batch dimensions come first in the result, then the free ones of lhs, then those of rhs.
struct DotDims {
  Dims lhs_batch, rhs_batch, lhs_contracting, rhs_contracting;
  Precision precision = Precision::standard;
  bool operator==(const DotDims&) const = default;
};

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
struct Axis {  // concatenate, iota
  int64_t index = 0;
  bool operator==(const Axis&) const = default;
};
struct InputName {
  std::string name;
  bool operator==(const InputName&) const = default;
};

// transpose: the permutation; broadcast_in_dim: where each operand dimension goes; reverse: the axes;
// input: its name; constant: its value. Operations without attributes hold monostate.
using Attributes = std::variant<std::monostate, Dims, Direction, ReduceDims, SliceDims, PadDims, Axis, InputName, Array,
                                std::shared_ptr<const DotDims>, std::shared_ptr<const ConvDims>>;
bool same_attributes(const Attributes& a, const Attributes& b);

std::string_view name_of(Op op);
std::string_view name_of(Direction direction);
std::string_view name_of(Reduction reduction);
std::ostream& operator<<(std::ostream& out, Op op);

bool is_elementwise(Op op);      // output element i depends on element i of each operand (convert, compare, select too)
bool is_differentiable(Op op);   // false: piecewise constant or integer-valued, cotangents stop here

}  // namespace backbeat
