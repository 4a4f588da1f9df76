// What the recording functions of elementwise operations, shapes, reductions and products refuse, in which words.
#include "tests/engine/refusals.hpp"

using namespace backbeat;
using namespace backbeat::test;

TEST_SUITE_BEGIN("ops refuse");

TEST_CASE("elementwise operands that clash") {
  refuses({
      {[](Inputs& in) { in.f32({2, 3}) + in.f32({4, 3}); },
       "[add] shapes do not broadcast: f32[2,3] and f32[4,3] differ in dimension 0 (2 and 4)"},
      {[](Inputs& in) { in.f32({2, 3}) * in.f32({2}); },
       "[multiply] shapes do not broadcast: f32[2,3] and f32[2] differ in dimension 1 (3 and 2)"},
      {[](Inputs& in) { in.f32({2}) - in.of(DType::f64, {2}); },
       "[subtract] dtypes differ: f32[2] and f64[2]; convert one of them"},
      {[](Inputs& in) { in.of(DType::bf16, {2}) / in.f32({2}); }, "[divide] dtypes differ: bf16[2] and f32[2]"},
      {[](Inputs& in) { in.f32({2}) > in.of(DType::i32, {2}); }, "[compare] dtypes differ: f32[2] and i32[2]"},
      {[](Inputs& in) { in.of(DType::boolean, {2}) + in.of(DType::boolean, {2}); },
       "[add] expected numbers, got bool[2] and bool[2]"},
      {[](Inputs& in) { maximum(in.f32({2}), in.elsewhere({2})); },
       "[maximum] operands come from two tapes (f32[2] and f32[2]): a gradient taken outside the tape cannot be"},
      {[](Inputs& in) { minimum(in.f32({2}), Tensor()); },
       "[minimum] an operand is no tensor (an input without a cotangent?)"},
      {[](Inputs& in) { power(in.of(DType::i32, {2}), in.of(DType::i32, {2})); },
       "[power] expected floating-point operands, got i32[2] and i32[2]"},
      {[](Inputs& in) { shift_right_logical(in.f32({2}), in.f32({})); },
       "[shift_right_logical] the operands must be integers, got f32[2]"},
      {[](Inputs& in) { select(in.f32({2}), in.f32({2}), in.f32({2})); },
       "[select] the predicate must be bool, got f32[2]"},
      {[](Inputs& in) { select(in.of(DType::boolean, {3}), in.f32({2}), in.f32({2})); },
       "[select] shapes do not broadcast: bool[3] and f32[2] differ in dimension 0 (3 and 2)"},
      {[](Inputs& in) { in.of(DType::i32, {2}) * 0.5; }, "[constant] 0.5 is no i32"},
  });
}

TEST_CASE("elementwise operands of the wrong kind") {
  refuses({
      {[](Inputs& in) { exp(in.of(DType::i32, {2})); }, "[exp] expected a floating-point operand, got i32[2]"},
      {[](Inputs& in) { tanh(in.of(DType::boolean, {2})); }, "[tanh] expected a floating-point operand, got bool[2]"},
      {[](Inputs& in) { logical_not(in.f32({2})); }, "[logical_not] expected bool, got f32[2]"},
      {[](Inputs&) { exp(Tensor()); }, "[exp] an operand is no tensor (an input without a cotangent?)"},
      {[](Inputs&) { convert(Tensor(), DType::f32); }, "[convert] an operand is no tensor"},
      {[](Inputs&) { logical_not(Tensor()); }, "[logical_not] an operand is no tensor"},
  });
}

TEST_CASE("shapes") {
  refuses({
      {[](Inputs& in) { reshape(in.f32({2, 3}), {4}); }, "[reshape] cannot turn f32[2,3] (6 elements) into [4] (4)"},
      {[](Inputs& in) { reshape(in.f32({2, 3}), {-2, -3}); }, "[reshape] negative dimension in shape [-2,-3]"},
      {[](Inputs& in) { transpose(in.f32({2, 3}), {0}); }, "[transpose] permutation [0] does not fit f32[2,3]"},
      {[](Inputs& in) { transpose(in.f32({2, 3}), {0, 2}); }, "[transpose] axis 2 is outside of f32[2,3]"},
      {[](Inputs& in) { transpose(in.f32({2, 3}), {1, 1}); },
       "[transpose] axis 1 is named twice in [1,1] for f32[2,3]"},
      {[](Inputs& in) { broadcast_in_dim(in.f32({2}), {2, 3}, {1}); },
       "[broadcast_in_dim] f32[2] dim 0 is 2, cannot become 3 in [2,3]"},
      {[](Inputs& in) { broadcast_in_dim(in.f32({2}), {2, 3}, {}); },
       "[broadcast_in_dim] expected one dimension of [2,3] for each of f32[2], got []"},
      {[](Inputs& in) { broadcast_in_dim(in.f32({2, 3}), {3, 2}, {1, 0}); },
       "[broadcast_in_dim] dimensions [1,0] must rise and lie in [3,2]"},
      {[](Inputs& in) { broadcast_in_dim(in.f32({1}), {-1}, {0}); },
       "[broadcast_in_dim] negative dimension in shape [-1]"},
      {[](Inputs& in) { broadcast_to(in.f32({2, 3}), {3}); }, "[broadcast_in_dim] f32[2,3] does not broadcast to [3]"},
      {[](Inputs& in) { slice(in.f32({4}), {1}, {5}, {1}); }, "[slice] f32[4] dim 0: cannot take 1:5:1 of 4"},
      {[](Inputs& in) { slice(in.f32({4}), {3}, {2}, {1}); }, "[slice] f32[4] dim 0: cannot take 3:2:1 of 4"},
      {[](Inputs& in) { slice(in.f32({4}), {0}, {2}, {0}); }, "[slice] f32[4] dim 0: cannot take 0:2:0 of 4"},
      {[](Inputs& in) { slice(in.f32({4, 2}), {0}, {2}, {1}); },
       "[slice] expected 2 starts, limits and strides for f32[4,2], got [0][2][1]"},
      {[](Inputs& in) { pad(in.f32({3}), {{-2}, {-2}, {0}}); },
       "[pad] f32[3] dim 0 would get -1 elements from low -2, high -2"},
      {[](Inputs& in) { pad(in.f32({3}), {{0}, {0}, {-1}}); },
       "[pad] interior padding of f32[3] dim 0 is negative: -1"},
      {[](Inputs& in) { pad(in.f32({3}), {{0, 0}, {0}, {0}}); },
       "[pad] expected 1 paddings for f32[3], got [0,0][0][0]"},
      {[](Inputs&) { concatenate({}, 0); }, "[concatenate] expected at least one tensor"},
      {[](Inputs& in) { concatenate({in.f32({2, 3})}, 2); }, "[concatenate] axis 2 is outside of f32[2,3]"},
      {[](Inputs& in) { concatenate({in.f32({2, 3}), in.f32({2, 4})}, 0); },
       "[concatenate] f32[2,4] does not fit to f32[2,3] along axis 0"},
      {[](Inputs& in) { concatenate({in.f32({2}), in.elsewhere({2})}, 0); },
       "[concatenate] operands come from two tapes (f32[2] and f32[2])"},
      {[](Inputs& in) { concatenate({in.f32({2}), Tensor()}, 0); }, "[concatenate] an operand is no tensor"},
      {[](Inputs& in) { reverse(in.f32({2}), {1}); }, "[reverse] axis 1 is outside of f32[2]"},
      {[](Inputs& in) { iota(in.tape, DType::i32, {2}, 1); }, "[iota] axis 1 is outside of shape [2]"},
      {[](Inputs& in) { flatten(in.f32({})); }, "[flatten] expected a batch dimension, got f32[]"},
      {[](Inputs&) { reshape(Tensor(), {}); }, "[reshape] an operand is no tensor"},
      {[](Inputs&) { transpose(Tensor(), {}); }, "[transpose] an operand is no tensor"},
      {[](Inputs&) { broadcast_to(Tensor(), {}); }, "[broadcast_in_dim] an operand is no tensor"},
      {[](Inputs&) { slice(Tensor(), {}, {}, {}); }, "[slice] an operand is no tensor"},
      {[](Inputs&) { pad(Tensor(), {}); }, "[pad] an operand is no tensor"},
      {[](Inputs&) { Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}; }, "[shape] more than 8 dimensions are not supported"},
  });
}

TEST_CASE("reductions") {
  refuses({
      {[](Inputs& in) { reduce_sum(in.f32({2, 3}), {2}); }, "[reduce] axis 2 is outside of f32[2,3]"},
      {[](Inputs& in) { reduce_sum(in.f32({2, 3}), {-1}); }, "[reduce] axis -1 is outside of f32[2,3]"},
      {[](Inputs& in) { reduce_sum(in.f32({2, 3}), {1, 1}); }, "[reduce] axis 1 is named twice in [1,1] for f32[2,3]"},
      {[](Inputs& in) { reduce(in.f32({2, 0}), Reduction::max, {1}); },
       "[reduce] max of no elements in f32[2,0] over [1]"},
      {[](Inputs& in) { sum(in.of(DType::boolean, {2})); }, "[reduce] expected numbers, got bool[2]"},
      {[](Inputs&) { sum(Tensor()); }, "[reduce] an operand is no tensor"},
      {[](Inputs& in) { mean(in.f32({0, 2})); }, "[mean] no elements in f32[0,2]"},
      {[](Inputs& in) { mean(in.of(DType::i32, {2})); }, "[mean] expected a floating-point operand, got i32[2]"},
      {[](Inputs& in) { norm(in.of(DType::i32, {2}), {0}); }, "[sqrt] expected a floating-point operand, got i32[]"},
  });
}

TEST_CASE("products") {
  refuses({
      {[](Inputs& in) { dot_general(in.f32({256, 512}), in.f32({384, 512}), {{}, {}, {1}, {0}}); },
       "[dot_general] contracting dimensions differ: lhs f32[256,512] dim 1 is 512, rhs f32[384,512] dim 0 is 384"},
      {[](Inputs& in) { dot_general(in.f32({2, 3}), in.f32({4, 3}), {{0}, {0}, {1}, {1}}); },
       "[dot_general] batch dimensions differ: lhs f32[2,3] dim 0 is 2, rhs f32[4,3] dim 0 is 4"},
      {[](Inputs& in) { dot_general(in.f32({2, 3}), in.f32({3}), {{}, {}, {1}, {}}); },
       "[dot_general] contracting dimensions differ in number: lhs [1], rhs []"},
      {[](Inputs& in) { dot_general(in.f32({2, 3}), in.f32({3}), {{}, {}, {2}, {0}}); },
       "[dot_general] lhs f32[2,3] has no dim 2"},
      {[](Inputs& in) { dot_general(in.f32({2, 2}), in.f32({2, 2}), {{}, {}, {1, 1}, {0, 1}}); },
       "[dot_general] lhs f32[2,2] dim 1 is named twice in [1,1]"},
      {[](Inputs& in) { dot_general(in.f32({2, 2}), in.f32({2, 2}), {{0}, {0}, {0}, {1}}); },
       "[dot_general] lhs dim 0 is both batch and contracting"},
      {[](Inputs& in) { matmul(in.f32({2, 3}), in.of(DType::bf16, {3, 2})); },
       "[dot_general] expected two operands of one dtype of numbers, got f32[2,3] and bf16[3,2]"},
      {[](Inputs& in) { matmul(in.of(DType::boolean, {2, 3}), in.of(DType::boolean, {3, 2})); },
       "[dot_general] expected two operands of one dtype of numbers, got bool[2,3] and bool[3,2]"},
      {[](Inputs& in) { matmul(in.f32({2, 3}), in.elsewhere({3, 2})); },
       "[dot_general] operands come from two tapes (f32[2,3] and f32[3,2]"},
      {[](Inputs& in) { matmul(in.f32({2, 3}), in.f32({3})); },
       "[matmul] expected two matrices, got f32[2,3] and f32[3]"},
      {[](Inputs& in) { matmul(in.f32({2, 3}), Tensor()); }, "[matmul] an operand is no tensor"},
      {[](Inputs& in) { dot_general(Tensor(), in.f32({}), {}); }, "[dot_general] an operand is no tensor"},
  });
}

TEST_CASE("convolutions") {
  const auto with = [](auto change) {
    ConvDims d;
    change(d);
    return [d](Inputs& in) { convolution(in.f32({4, 6, 5, 5}), in.f32({4, 6, 3, 3}), d); };
  };
  refuses({
      {[](Inputs& in) { convolution(in.f32({4, 6, 5, 5}), in.f32({4, 3, 3, 3}), {}); },
       "[convolution] lhs [4,6,5,5] has 6 features, the kernel [4,3,3,3] expects 3 x 1 groups"},
      {with([](ConvDims& d) { d.feature_groups = 0; }),
       "[convolution] feature groups 0 and batch groups 1 must be at least 1"},
      {with([](ConvDims& d) { d.feature_groups = 2, d.batch_groups = 2; }),
       "[convolution] feature groups 2 and batch groups 2 must be at least 1, and one of them 1"},
      {with([](ConvDims& d) { d.batch_groups = 3; }),
       "[convolution] kernel [4,6,3,3] with 4 output features and lhs [4,6,5,5] "
                                                      "with batch 4 cannot be split into 1 feature and 3 batch groups"},
      {with([](ConvDims& d) { d.strides = {1, 0}; }),
       "[convolution] strides [1,0] and dilations [1,1][1,1] must be at least 1"},
      {with([](ConvDims& d) { d.strides = {1}; }),
       "[convolution] expected 1 values for each spatial attribute, got [0,0]"},
      {with([](ConvDims& d) { d.lhs.feature = 0; }),
       "[convolution] lhs [4,6,5,5] does not fit the layout batch 0, feature 0, spatial [2,3]"},
      {with([](ConvDims& d) { d.out.spatial = {1, 2}; }), "[convolution] result"},
      {with([](ConvDims& d) { d.out.batch = 4; }), "[convolution] the result has no dim 4"},
      {[](Inputs& in) { convolution(in.f32({4, 6, 5}), in.f32({4, 6, 3}), {}); },
       "[convolution] lhs [4,6,5] does not fit the layout"},
      {[](Inputs& in) { convolution(in.f32({1, 1, 3, 3}), in.of(DType::f64, {1, 1, 3, 3}), {}); },
       "[convolution] expected two operands of one floating-point dtype, got f32[1,1,3,3] and f64[1,1,3,3]"},
      {[](Inputs& in) { convolution(in.f32({1, 1, 3, 3}), in.elsewhere({1, 1, 3, 3}), {}); },
       "[convolution] operands come from two tapes (f32[1,1,3,3] and f32[1,1,3,3]"},
      {[](Inputs& in) { convolution(Tensor(), in.f32({1, 1, 3, 3}), {}); }, "[convolution] an operand is no tensor"},
  });
}

TEST_CASE("random keys") {
  refuses({
      {[](Inputs& in) { rng_bit_generator(in.f32({5}), {2}); },
       "[rng_bit_generator] expected a key u32[5], got f32[5]"},
      {[](Inputs& in) { uniform(in.of(DType::u32, {4}), {2}); },
       "[rng_bit_generator] expected a key u32[5], got u32[4]"},
      {[](Inputs& in) { rng_bit_generator(in.of(DType::u32, {5}), {}); },
       "[rng_bit_generator] the result needs a first dimension, the sample"},
      {[](Inputs& in) { normal(in.of(DType::u32, {5}), {}); },
       "[normal] the result needs a first dimension, the sample"},
  });
}

TEST_SUITE_END();
