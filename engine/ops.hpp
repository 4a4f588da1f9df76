// The functions that record. Each checks shapes and dtypes while recording; an Error starts with the operation's name in
// brackets and prints what clashed. Nothing is promoted except a C++ number beside a tensor, which takes its dtype.
#pragma once
#include <vector>

#include "engine/tape.hpp"

namespace backbeat {

// --- leaves
Tensor constant(Tape& tape, const Array& value);
Tensor full(Tape& tape, DType dtype, const Shape& shape, double value);  // a broadcast scalar
Tensor iota(Tape& tape, DType dtype, const Shape& shape, int64_t axis);
inline Tensor zeros_like(Tensor x) { return full(x.tape(), x.dtype(), x.shape(), 0); }
inline Tensor ones_like(Tensor x) { return full(x.tape(), x.dtype(), x.shape(), 1); }

// --- elementwise, one operand
Tensor negate(Tensor x);
Tensor abs(Tensor x);
Tensor sign(Tensor x);
Tensor exp(Tensor x);
Tensor log(Tensor x);
Tensor sqrt(Tensor x);
Tensor rsqrt(Tensor x);
Tensor tanh(Tensor x);
Tensor logistic(Tensor x);
Tensor sine(Tensor x);
Tensor cosine(Tensor x);
Tensor logical_not(Tensor x);
Tensor convert(Tensor x, DType dtype);
Tensor stop_gradient(Tensor x);  // the identity, through which no cotangent passes

// --- elementwise, two operands; operands of different shapes broadcast as in numpy, by recorded broadcast_in_dim
Tensor add(Tensor a, Tensor b);
Tensor subtract(Tensor a, Tensor b);
Tensor multiply(Tensor a, Tensor b);
Tensor divide(Tensor a, Tensor b);
Tensor maximum(Tensor a, Tensor b);  // a tie gives each side half of the cotangent; NaN propagates
Tensor minimum(Tensor a, Tensor b);
Tensor power(Tensor base, Tensor exponent);
Tensor shift_right_logical(Tensor x, Tensor bits);  // u32
Tensor compare(Tensor a, Tensor b, Direction direction);
Tensor select(Tensor predicate, Tensor on_true, Tensor on_false);

inline Tensor operator-(Tensor x) { return negate(x); }
inline Tensor operator+(Tensor a, Tensor b) { return add(a, b); }
inline Tensor operator-(Tensor a, Tensor b) { return subtract(a, b); }
inline Tensor operator*(Tensor a, Tensor b) { return multiply(a, b); }
inline Tensor operator/(Tensor a, Tensor b) { return divide(a, b); }
inline Tensor operator>(Tensor a, Tensor b) { return compare(a, b, Direction::gt); }
inline Tensor operator<(Tensor a, Tensor b) { return compare(a, b, Direction::lt); }

inline Tensor scalar_like(Tensor x, double value) { return full(x.tape(), x.dtype(), {}, value); }
inline Tensor operator+(Tensor a, double b) { return a + scalar_like(a, b); }
inline Tensor operator-(Tensor a, double b) { return a - scalar_like(a, b); }
inline Tensor operator*(Tensor a, double b) { return a * scalar_like(a, b); }
inline Tensor operator/(Tensor a, double b) { return a / scalar_like(a, b); }
inline Tensor operator>(Tensor a, double b) { return a > scalar_like(a, b); }
inline Tensor operator<(Tensor a, double b) { return a < scalar_like(a, b); }
inline Tensor operator+(double a, Tensor b) { return scalar_like(b, a) + b; }
inline Tensor operator-(double a, Tensor b) { return scalar_like(b, a) - b; }
inline Tensor operator*(double a, Tensor b) { return scalar_like(b, a) * b; }
inline Tensor operator/(double a, Tensor b) { return scalar_like(b, a) / b; }

// --- shape
Tensor reshape(Tensor x, const Shape& shape);
Tensor transpose(Tensor x, const Dims& permutation);  // out dimension i is x's dimension permutation[i]
Tensor broadcast_in_dim(Tensor x, const Shape& shape, const Dims& dims);  // x's dimension i becomes dims[i]; size 1 expands
Tensor broadcast_to(Tensor x, const Shape& shape);                       // numpy's rule
Tensor slice(Tensor x, const Dims& start, const Dims& limit, const Dims& stride);
Tensor pad(Tensor x, const PadDims& dims);  // with zeros
Tensor concatenate(const std::vector<Tensor>& parts, int64_t axis);
Tensor reverse(Tensor x, const Dims& axes);
Tensor flatten(Tensor x);  // [n, ...] -> [n, rest]

// --- contraction
Tensor reduce(Tensor x, Reduction kind, const Dims& axes);  // the axes disappear
inline Tensor reduce_sum(Tensor x, const Dims& axes) { return reduce(x, Reduction::sum, axes); }
Tensor dot_general(Tensor lhs, Tensor rhs, const DotDims& dims);
Tensor matmul(Tensor lhs, Tensor rhs, Precision precision = Precision::standard);  // [m,k] [k,n] -> [m,n]
Tensor convolution(Tensor lhs, Tensor kernel, const ConvDims& dims);

// --- random: uniform 32-bit words. key u32[5] = seed (low, high), stream, step, index of the first sample; the result is
// u32[n, ...], sample i of which is a function of the key and of first + i alone, so that shards agree.
Tensor rng_bit_generator(Tensor key, const Shape& shape);

// --- composed of the above
Tensor sum(Tensor x);  // over everything -> []
Tensor mean(Tensor x);
Tensor mean(Tensor x, const Dims& axes);
Tensor square(Tensor x);
// Euclidean norm over the axes. The root's input is masked where the sum of squares is 0, so the subgradient there is 0, to
// every order.
Tensor norm(Tensor x, const Dims& axes);
Tensor relu(Tensor x);                      // derivative 0 at 0
Tensor leaky_relu(Tensor x, double slope);  // derivative `slope` at 0
Tensor softplus(Tensor x);
Tensor uniform(Tensor key, const Shape& shape);  // f32 in [0, 1): 23 random bits
Tensor normal(Tensor key, const Shape& shape);   // f32, Box-Muller

// Sums of shape rules that devices and rules need as well.
Shape convolution_shape(const Shape& lhs, const Shape& kernel, const ConvDims& dims);  // Error "[convolution] ..."

}  // namespace backbeat
