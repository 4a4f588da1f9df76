// Every primitive but convolution: its derivatives to third order, against differences of the next lower one.
#include "tests/autodiff/derivatives.hpp"

using namespace backbeat;
using namespace backbeat::test;

namespace {

void unary(Tensor (*f)(Operand), const Array& x) {
  third_order([f](const Tensors& t) { return f(t[0]); }, {x});
}
void binary(Tensor (*f)(Operand, Operand), const Array& x, const Array& y) {
  third_order([f](const Tensors& t) { return f(t[0], t[1]); }, {x, y});
}
// A shape operation is linear: between two curved functions its rule meets every order.
void moved(const std::function<Tensor(Tensor)>& f, const Shape& shape) {
  third_order([&](const Tensors& t) { return exp(f(sine(t[0]))); }, {any(shape)});
}
void product(const Shape& lhs, const Shape& rhs, const DotDims& dims) {
  third_order([&](const Tensors& t) { return dot_general(t[0], t[1], dims); }, {any(lhs, 1), any(rhs, 2)});
  third_order([&](const Tensors& t) { return sine(dot_general(exp(t[0]), t[1], dims)); }, {any(lhs, 1), any(rhs, 2)});
}

}  // namespace

TEST_SUITE_BEGIN("derivatives");

TEST_CASE("negate") { unary(negate, any({3, 4})); }
TEST_CASE("abs") { unary(abs, not_zero({3, 4})); }
TEST_CASE("sign") {
  third_order([](const Tensors& t) { return t[0] * sign(t[0]); }, {not_zero({3, 4})});
}
TEST_CASE("exp") { unary(exp, any({3, 4})); }
TEST_CASE("log") { unary(log, positive({3, 4})); }
TEST_CASE("sqrt") { unary(sqrt, positive({3, 4})); }
TEST_CASE("rsqrt") { unary(rsqrt, positive({3, 4})); }
TEST_CASE("tanh") { unary(tanh, any({3, 4})); }
TEST_CASE("logistic") { unary(logistic, any({3, 4})); }
TEST_CASE("sine") { unary(sine, any({3, 4})); }
TEST_CASE("cosine") { unary(cosine, any({3, 4})); }
TEST_CASE("stop_gradient") {
  // The factor behind stop_gradient counts as a constant, so the differences must be taken of x * constant.
  third_order([](const Tensors& t) { return t[0] * stop_gradient(ones_like(t[0]) * 3); }, {any({3})});
}
TEST_CASE("convert to f32 and back has the derivative of the identity") {
  const Program p = record("convert", [](Recorder& r) {
    Tensor x = r.input("x", DType::f64, {2});
    Tensor y = convert(convert(x, DType::f32), DType::f64);
    Tensor g = grad(sum(y * y * y), x);
    r.output("g", g), r.output("h", grad(sum(g), x));
  });
  const auto out = run(p, {Array::from<double>({2}, {2, -0.5})});
  CHECK(out[0].dtype() == DType::f64);
  CHECK(same(out[0], {12, 0.75}));
  CHECK(same(out[1], {12, -3}));
}

TEST_CASE("add") { binary(add, any({3, 4}, 1), any({3, 4}, 2)); }
TEST_CASE("add, broadcast on both sides") { binary(add, any({3, 1}, 1), any({4}, 2)); }
TEST_CASE("subtract") { binary(subtract, any({3, 4}, 1), any({3, 4}, 2)); }
TEST_CASE("multiply") { binary(multiply, any({3, 4}, 1), any({3, 4}, 2)); }
TEST_CASE("multiply, broadcast on both sides") { binary(multiply, any({2, 1, 4}, 1), any({3, 1}, 2)); }
TEST_CASE("multiply by itself") {
  third_order([](const Tensors& t) { return t[0] * t[0] * t[0]; }, {any({3})});
}
TEST_CASE("divide") { binary(divide, any({3, 4}, 1), not_zero({3, 4}, 2)); }
TEST_CASE("maximum") { binary(maximum, any({3, 4}, 1), any({3, 4}, 2)); }
TEST_CASE("minimum") { binary(minimum, any({3, 4}, 1), any({3, 4}, 2)); }
TEST_CASE("power") { binary(power, positive({3, 4}, 1), any({3, 4}, 2)); }
TEST_CASE("power, negative base") {
  third_order([](const Tensors& t) { return power(t[0], scalar_like(t[0], 5)); }, {not_zero({3, 4})});
}
TEST_CASE("select") {
  third_order([](const Tensors& t) { return select(t[0] > t[1], exp(t[0]), sine(t[1]) * t[0]); },
              {any({3, 4}, 1), any({3, 4}, 2)});
}

TEST_CASE("reshape") {
  moved([](Tensor x) { return reshape(x, {4, 3}); }, {2, 3, 2});
}
TEST_CASE("transpose") {
  moved([](Tensor x) { return transpose(x, {2, 0, 1}); }, {2, 3, 4});
}
TEST_CASE("broadcast_in_dim") {
  moved([](Tensor x) { return broadcast_in_dim(x, {2, 3, 2}, {0, 1}); }, {2, 3});
  moved([](Tensor x) { return broadcast_in_dim(x, {2, 4, 3}, {1, 2}); }, {1, 3});
  moved([](Tensor x) { return broadcast_in_dim(x, {5}, {}); }, {});
  moved([](Tensor x) { return broadcast_in_dim(x, {1, 3, 1}, {1}); }, {3});
}
TEST_CASE("slice") {
  moved([](Tensor x) { return slice(x, {1, 0}, {4, 5}, {1, 2}); }, {4, 6});
  moved([](Tensor x) { return slice(x, {0, 1}, {5, 6}, {3, 4}); }, {5, 6});
  moved([](Tensor x) { return slice(x, {2}, {2}, {1}); }, {4});
}
TEST_CASE("pad") {
  moved([](Tensor x) { return pad(x, {{1, 0}, {2, 3}, {0, 2}}); }, {2, 3});
  moved([](Tensor x) { return pad(x, {{-1, 2}, {1, -3}, {0, 0}}); }, {3, 4});
  moved([](Tensor x) { return pad(x, {{-2}, {-3}, {2}}); }, {5});
  moved([](Tensor x) { return pad(x, {{-1}, {-1}, {1}}); }, {2});
  moved([](Tensor x) { return pad(x, {{-4}, {1}, {0}}); }, {3});
}
TEST_CASE("concatenate") {
  third_order(
      [](const Tensors& t) {
        return sine(concatenate({t[0], t[1], t[0]}, 1));
      },
      {any({2, 3}, 1), any({2, 1}, 2)});
  third_order([](const Tensors& t) { return sine(concatenate({t[0], t[1]}, 0)); }, {any({2, 3}, 1), any({0, 3}, 2)});
}
TEST_CASE("reverse") {
  moved([](Tensor x) { return reverse(x, {0, 2}); }, {2, 3, 2});
  moved([](Tensor x) { return reverse(x, {1}); }, {2, 3});
}

TEST_CASE("reduce sum") {
  moved([](Tensor x) { return reduce_sum(x, {1}); }, {2, 3, 2});
  moved([](Tensor x) { return reduce_sum(x, {2, 0}); }, {2, 3, 2});
  moved([](Tensor x) { return sum(x); }, {2, 3});
  moved([](Tensor x) { return reduce_sum(x, {0}); }, {0, 3});
}
TEST_CASE("reduce max and min") {
  moved([](Tensor x) { return reduce(x, Reduction::max, {1}); }, {3, 5});
  moved([](Tensor x) { return reduce(x, Reduction::max, {2, 0}); }, {3, 2, 4});
  moved([](Tensor x) { return reduce(x, Reduction::min, {0}); }, {3, 5});
  moved([](Tensor x) { return reduce(x, Reduction::min, {0, 1}); }, {3, 5});
}

TEST_CASE("dot_general: a matrix product") { product({3, 4}, {4, 5}, {{}, {}, {1}, {0}}); }
TEST_CASE("dot_general: transposed operands") {
  product({4, 3}, {4, 5}, {{}, {}, {0}, {0}});
  product({3, 4}, {5, 4}, {{}, {}, {1}, {1}});
  product({4, 3}, {5, 4}, {{}, {}, {0}, {1}});
}
TEST_CASE("dot_general: batch dimensions") {
  product({2, 3, 4}, {2, 4, 2}, {{0}, {0}, {2}, {1}});
  product({3, 4, 2}, {4, 2, 3}, {{2}, {1}, {1}, {0}});
  product({2, 3, 4, 2}, {3, 4, 2, 2}, {{0, 1}, {2, 0}, {2}, {1}});
  product({3, 2, 2}, {2, 2, 3}, {{2, 1}, {0, 1}, {0}, {2}});
}
TEST_CASE("dot_general: several contracting dimensions in any order") {
  product({2, 3, 4}, {4, 2, 3}, {{}, {}, {0, 2}, {1, 0}});
  product({2, 3, 4}, {3, 4, 5}, {{}, {}, {2, 1}, {1, 0}});
  product({2, 3, 2, 2}, {2, 2, 3, 2}, {{3}, {1}, {1, 0}, {2, 3}});
}
TEST_CASE("dot_general: nothing free, nothing contracted, no dimensions") {
  product({4}, {4}, {{}, {}, {0}, {0}});
  product({3, 4}, {4, 3}, {{}, {}, {0, 1}, {1, 0}});
  product({3}, {2}, {});
  product({2, 3}, {2, 2}, {{0}, {0}, {}, {}});
  product({2, 3}, {2, 3}, {{0, 1}, {0, 1}, {}, {}});
  product({}, {2, 3}, {});
}
TEST_CASE("dot_general: empty and single dimensions") {
  product({3, 0}, {0, 2}, {{}, {}, {1}, {0}});
  product({0, 3}, {3, 2}, {{}, {}, {1}, {0}});
  product({1, 1, 3}, {1, 3, 1}, {{0}, {0}, {2}, {1}});
}
TEST_CASE("dot_general with itself") {
  third_order([](const Tensors& t) { return matmul(t[0], t[0]); }, {any({3, 3})});
}

TEST_SUITE_END();

TEST_SUITE_BEGIN("derivatives of composed functions");

TEST_CASE("square, mean") {
  third_order([](const Tensors& t) { return mean(square(t[0]), {1}); }, {any({2, 3})});
}
TEST_CASE("norm") {
  third_order([](const Tensors& t) { return norm(t[0], {1, 2}); }, {any({2, 3, 2})});
}
TEST_CASE("relu, leaky_relu") {
  third_order([](const Tensors& t) { return exp(relu(t[0])) * leaky_relu(t[0], 0.2); }, {not_zero({3, 4})});
}
TEST_CASE("softplus") {
  unary(softplus, any({3, 4}));
  unary(softplus, Array::from<double>({6}, {-30, -8, 0, 8, 30, 40}));
}
TEST_CASE("layer norm") {
  third_order(
      [](const Tensors& t) {
        Tensor x = t[0], centred = x - reshape(mean(x, {1}), {3, 1});
        Tensor variance = reshape(mean(square(centred), {1}), {3, 1});
        return centred * rsqrt(variance + 1e-5) * t[1] + t[2];
      },
      {any({3, 5}, 1), positive({5}, 2), any({5}, 3)});
}
TEST_CASE("a gradient penalty, to third order in everything") {
  third_order(
      [](const Tensors& t) {
        Tensor y = matmul(tanh(matmul(t[0], t[1]) + t[2]), t[3]);
        return mean(square(norm(grad(sum(y), t[0]), {1}) - 1));
      },
      {any({3, 2}, 1), any({2, 4}, 2), any({4}, 3), any({4, 1}, 4)});
}

TEST_SUITE_END();
