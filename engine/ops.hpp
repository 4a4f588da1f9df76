// The functions that record. Each checks shapes and dtypes while recording; an Error starts with the operation's name in
// brackets and prints what clashed. Nothing is promoted except a C++ number beside a tensor, which takes its dtype.
#pragma once
#include <vector>

#include "engine/tape.hpp"

namespace backbeat {

// --- leaves
Tensor constant(Tape& tape, const Array& value, SourceLine where = SourceLine::here());
Tensor full(Tape& tape, DType dtype, const Shape& shape, double value,
            SourceLine where = SourceLine::here());  // a broadcast scalar
Tensor iota(Tape& tape, DType dtype, const Shape& shape, int64_t axis,
            SourceLine where = SourceLine::here());
inline Tensor zeros_like(Operand x) { return full(x.tape(), x.dtype(), x.shape(), 0, x.where); }
inline Tensor ones_like(Operand x) { return full(x.tape(), x.dtype(), x.shape(), 1, x.where); }

// --- elementwise, one operand
Tensor negate(Operand x);
Tensor abs(Operand x);
Tensor sign(Operand x);    // -1, 0, 1; zeros keep their sign
Tensor exp(Operand x);
Tensor expm1(Operand x);   // exp(x) - 1
Tensor log(Operand x);
Tensor log1p(Operand x);   // log(1 + x)
Tensor sqrt(Operand x);
Tensor rsqrt(Operand x);
Tensor tanh(Operand x);
Tensor logistic(Operand x);
Tensor erf(Operand x);
Tensor sine(Operand x);
Tensor cosine(Operand x);
Tensor floor(Operand x);
Tensor ceil(Operand x);
Tensor round_nearest_even(Operand x);
Tensor is_finite(Operand x);    // bool: neither infinite nor NaN
Tensor logical_not(Operand x);  // bool
Tensor convert(Operand x, DType dtype);
// Rounded to so many bits of mantissa, to nearest even. If the exponent has fewer bits than x's, what lies above its range is then
// infinite, and 0 what lies below its normal numbers. Never folded away. Its derivative rounds the cotangent in the same way.
Tensor reduce_precision(Operand x, int exponent_bits, int mantissa_bits);
Tensor stop_gradient(Operand x);  // the identity, through which no cotangent passes

// --- elementwise, two operands; operands of different shapes broadcast as in numpy, by recorded broadcast_in_dim
Tensor add(Operand a, Operand b);
Tensor subtract(Operand a, Operand b);
Tensor multiply(Operand a, Operand b);
Tensor divide(Operand a, Operand b);     // integers: towards zero; x / 0 is all ones, the smallest / -1 is itself
Tensor remainder(Operand a, Operand b);  // of the quotient rounded towards zero; it has a's sign. Integers: x rem 0 = x
Tensor maximum(Operand a, Operand b);    // a tie gives each side half of the cotangent; NaN propagates
Tensor minimum(Operand a, Operand b);
Tensor power(Operand base, Operand exponent);  // derivative by the base 0 where the exponent is 0, by the exponent 0 where base <= 0
Tensor bitwise_and(Operand a, Operand b);      // integers and bool, as the next two
Tensor bitwise_or(Operand a, Operand b);
Tensor bitwise_xor(Operand a, Operand b);
Tensor shift_left(Operand x, Operand bits);  // integers; by the width or more, or by less than nothing: 0
Tensor shift_right_logical(Operand x, Operand bits);
Tensor shift_right_arithmetic(Operand x, Operand bits);  // beyond the width: all sign bits; the top bit is one in u32 and u8 too
Tensor compare(Operand a, Operand b, Direction direction);
Tensor select(Operand predicate, Operand on_true, Operand on_false);
Tensor clamp(Operand low, Operand x, Operand high);  // min(max(x, low), high); derivative 1 at the bounds; NaN stays
Tensor clamp(double low, Operand x, double high);

inline Tensor operator-(Operand x) { return negate(x); }
inline Tensor operator+(Operand a, Operand b) { return add(a, b); }
inline Tensor operator-(Operand a, Operand b) { return subtract(a, b); }
inline Tensor operator*(Operand a, Operand b) { return multiply(a, b); }
inline Tensor operator/(Operand a, Operand b) { return divide(a, b); }
inline Tensor operator>(Operand a, Operand b) { return compare(a, b, Direction::gt); }
inline Tensor operator<(Operand a, Operand b) { return compare(a, b, Direction::lt); }
inline Tensor operator>=(Operand a, Operand b) { return compare(a, b, Direction::ge); }
inline Tensor operator<=(Operand a, Operand b) { return compare(a, b, Direction::le); }

inline Tensor scalar_like(Operand x, double value) { return full(x.tape(), x.dtype(), {}, value, x.where); }
inline Tensor operator+(Operand a, double b) { return add(a, {scalar_like(a, b), a.where}); }
inline Tensor operator-(Operand a, double b) { return subtract(a, {scalar_like(a, b), a.where}); }
inline Tensor operator*(Operand a, double b) { return multiply(a, {scalar_like(a, b), a.where}); }
inline Tensor operator/(Operand a, double b) { return divide(a, {scalar_like(a, b), a.where}); }
inline Tensor operator>(Operand a, double b) { return compare(a, {scalar_like(a, b), a.where}, Direction::gt); }
inline Tensor operator<(Operand a, double b) { return compare(a, {scalar_like(a, b), a.where}, Direction::lt); }
inline Tensor operator>=(Operand a, double b) { return compare(a, {scalar_like(a, b), a.where}, Direction::ge); }
inline Tensor operator<=(Operand a, double b) { return compare(a, {scalar_like(a, b), a.where}, Direction::le); }
inline Tensor maximum(Operand a, double b) { return maximum(a, {scalar_like(a, b), a.where}); }
inline Tensor minimum(Operand a, double b) { return minimum(a, {scalar_like(a, b), a.where}); }
inline Tensor power(Operand base, double exponent) { return power(base, {scalar_like(base, exponent), base.where}); }
inline Tensor select(Operand predicate, Operand x, double y) { return select(predicate, x, {scalar_like(x, y), x.where}); }
inline Tensor select(Operand predicate, double x, Operand y) { return select(predicate, {scalar_like(y, x), y.where}, y); }
inline Tensor operator+(double a, Operand b) { return add({scalar_like(b, a), b.where}, b); }
inline Tensor operator-(double a, Operand b) { return subtract({scalar_like(b, a), b.where}, b); }
inline Tensor operator*(double a, Operand b) { return multiply({scalar_like(b, a), b.where}, b); }
inline Tensor operator/(double a, Operand b) { return divide({scalar_like(b, a), b.where}, b); }

// --- shape
Tensor reshape(Operand x, const Shape& shape);
Tensor transpose(Operand x, const Dims& permutation);  // out dimension i is x's dimension permutation[i]
Tensor broadcast_in_dim(Operand x, const Shape& shape, const Dims& dims);  // x's dimension i becomes dims[i]; size 1 expands
Tensor broadcast_to(Operand x, const Shape& shape);                       // numpy's rule
Tensor slice(Operand x, const Dims& start, const Dims& limit, const Dims& stride);
Tensor slice_in_dim(Operand x, int64_t start, int64_t limit, int64_t axis);  // along one axis, all of the others
Tensor pad(Operand x, const PadDims& dims);  // with zeros
Tensor concatenate(const std::vector<Tensor>& parts, int64_t axis,
                   SourceLine where = SourceLine::here());
Tensor reverse(Operand x, const Dims& axes);
// Neighbouring parts along an axis, which must add up to it; equal ones. Their cotangents are concatenated, not padded and added.
std::vector<Tensor> split(Operand x, const std::vector<int64_t>& sizes, int64_t axis);
std::vector<Tensor> split(Operand x, int64_t parts, int64_t axis);
Tensor flatten(Operand x);  // [n, ...] -> [n, rest]

// --- places that are computed. Indices and starts are integers; no cotangent passes through them.
Tensor dynamic_slice(Operand x, Operand start, const Dims& sizes);  // start [rank of x], moved so that the slice lies inside
Tensor dynamic_update_slice(Operand x, Operand update, Operand start);
Tensor gather(Operand x, Operand indices, const GatherDims& dims);
Tensor scatter(Operand x, Operand indices, Operand updates, const ScatterDims& dims);  // adds in the order of the indices
Tensor take(Operand x, Operand indices, int64_t axis);  // x's entries along an axis, as in numpy; outside of x: zeros
// Ascending along the axis, stable; -0 equals 0 and every NaN comes last. sort_by orders the values as the keys ask.
Tensor sort(Operand x, int64_t axis);
Tensor sort_by(Operand keys, Operand values, int64_t axis);
Tensor argsort(Operand x, int64_t axis);  // i32

// --- reductions and windows
// The axes disappear. max, min: all that reach the extreme share the cotangent equally; NaN propagates.
Tensor reduce(Operand x, Reduction kind, const Dims& axes);
inline Tensor reduce_sum(Operand x, const Dims& axes) { return reduce(x, Reduction::sum, axes); }
Tensor argmax(Operand x, int64_t axis);  // i32, of the first extreme; a NaN counts as one
Tensor argmin(Operand x, int64_t axis);
Tensor cumsum(Operand x, int64_t axis, bool reverse = false);  // added one after the other; halves carry f32
Tensor reduce_window(Operand x, const WindowDims& dims);       // sum, max, min; taps in row-major order
// The extreme of a window is its first in row-major order; a NaN counts as one. A window of padding alone has none.
Tensor select_and_scatter(Operand x, Operand source, const WindowDims& dims);  // in x's shape; sums in the order of the windows
Tensor select_and_gather(Operand x, Operand source, const WindowDims& dims);   // one element a window; 0 where there is none

// --- products. Those of integers wrap.
Tensor dot_general(Operand lhs, Operand rhs, const DotDims& dims);
Tensor matmul(Operand lhs, Operand rhs, Precision precision = Precision::standard);  // [m,k] [k,n] -> [m,n]
Tensor convolution(Operand lhs, Operand kernel, const ConvDims& dims);

// --- random: uniform 32-bit words. key u32[5] = seed (low, high), stream, step, index of the first sample; the result is
// u32[n, ...], sample i of which is a function of the key and of first + i alone, so that shards agree.
Tensor rng_bit_generator(Operand key, const Shape& shape);

// --- between replicas, which run one program in lockstep
Tensor all_reduce(Operand x, Reduction kind, int64_t replicas);
Tensor all_gather(Operand x, int64_t axis, int64_t replicas);      // axis becomes `replicas` times as long
Tensor reduce_scatter(Operand x, int64_t axis, int64_t replicas);  // the sum's part of this replica
Tensor all_to_all(Operand x, int64_t split_axis, int64_t concat_axis, int64_t replicas);
// Replica `to` gets what `from` holds; zeros where no pair names it.
Tensor collective_permute(Operand x, const std::vector<std::pair<int64_t, int64_t>>& pairs, int64_t replicas);
Tensor replica_id(Tape& tape, SourceLine where = SourceLine::here());  // u32[]

// x, computed again where it would be shared with an equal node, and not before all of `after` is there.
Tensor optimization_barrier(Operand x, const std::vector<Tensor>& after = {});

// --- composed of the above
Tensor sum(Operand x);  // over everything -> []
inline Tensor sum(Operand x, const Dims& axes) { return reduce(x, Reduction::sum, axes); }
Tensor mean(Operand x);
Tensor mean(Operand x, const Dims& axes);
Tensor square(Operand x);
// Euclidean norm over the axes. The root's input is masked where the sum of squares is 0, so the subgradient there is 0, to
// every order.
Tensor norm(Operand x, const Dims& axes);
Tensor relu(Operand x);                      // derivative 0 at 0
Tensor leaky_relu(Operand x, double slope);  // derivative `slope` at 0
Tensor softplus(Operand x);
Tensor uniform(Operand key, const Shape& shape);  // f32 in [0, 1): 23 random bits
Tensor normal(Operand key, const Shape& shape);   // f32, Box-Muller

// Sums of shape rules that devices and derivative rules need as well.
Shape convolution_shape(const Shape& lhs, const Shape& kernel, const ConvDims& dims);  // Error "[convolution] ..."
Shape window_shape(const Shape& x, const WindowDims& dims);                            // Error "[reduce_window] ..."

}  // namespace backbeat
