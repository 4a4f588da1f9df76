// What grad refuses, each in one line.
#include "tests/autodiff/derivatives.hpp"

using namespace backbeat;
using namespace backbeat::test;

namespace {

Tensor input(Tape& tape, const Shape& shape, DType dtype = DType::f32) {
  return {tape, tape.append(Op::input, {}, InputName{"x"}, shape, dtype)};
}

template <class Body>
std::string message_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace

TEST_SUITE_BEGIN("grad refuses");

TEST_CASE("y that is no scalar, without a cotangent") {
  Tape tape;
  Tensor x = input(tape, {2, 3});
  CHECK(message_of([&] { grad(exp(x), x); }) == "[grad] y is f32[2,3]: expected a scalar, or a cotangent of y's shape");
  CHECK(grad(exp(x), x, {.cotangent = ones_like(x)}).shape() == x.shape());
  CHECK(grad(reshape(sum(x), {1, 1}), x).shape() == x.shape());  // one element will do
}

TEST_CASE("a cotangent of another shape, dtype or tape") {
  Tape tape, other;
  Tensor x = input(tape, {2, 3}), y = exp(x);
  CHECK(message_of([&] { grad(y, x, {.cotangent = input(tape, {3, 2})}); }) ==
        "[grad] the cotangent is f32[3,2], y is f32[2,3]");
  CHECK(message_of([&] { grad(y, x, {.cotangent = input(tape, {2, 3}, DType::f64)}); }) ==
        "[grad] the cotangent is f64[2,3], y is f32[2,3]");
  CHECK(message_of([&] { grad(y, x, {.cotangent = input(other, {2, 3})}); }) ==
        "[grad] the cotangent comes from another tape than y");
}

TEST_CASE("an x that y does not depend on") {
  Tape tape;
  Tensor x = input(tape, {3}), unused = input(tape, {2});
  Tensor y = sum(x * x);
  CHECK(message_of([&] { grad(y, std::vector{x, unused}); }) ==
        "[grad] y (node 3, f32[]) does not depend on x number 1 (node 1, f32[2]): is it unused, detached or outside of "
        "the tape? Ask for zeros or none if that is meant");
  CHECK_FALSE(grad(y, unused, {.cotangent = {}, .unused = Unused::none}).defined());
  CHECK(grad(y, unused, {.cotangent = {}, .unused = Unused::zeros}).shape() == unused.shape());
}

TEST_CASE("a detached y, a detached penalty, an x recorded after y") {
  Tape tape;
  Tensor x = input(tape, {3}), w = input(tape, {3});
  const std::string refusal = "[grad] y (node ";
  CHECK(message_of([&] { grad(sum(stop_gradient(x * x)), x); }).rfind(refusal, 0) == 0);
  Tensor slope = stop_gradient(grad(sum(x * x * w), x));  // the penalty no longer knows w
  CHECK(message_of([&] { grad(sum(square(slope)), w); }).rfind(refusal, 0) == 0);
  Tensor y = sum(x);
  CHECK(message_of([&] { grad(y, input(tape, {3})); }).rfind(refusal, 0) == 0);
  CHECK(message_of([&] { grad(sum(sign(x)), x); }).rfind(refusal, 0) == 0);
}

TEST_CASE("tensors of another tape: an inner gradient taken outside") {
  Tape tape, other;
  Tensor x = input(tape, {3}), outside = input(other, {3});
  Tensor slope = grad(sum(outside * outside), outside);
  CHECK(message_of([&] { grad(sum(x * x), outside); }) ==
        "[grad] x is f32[3] on another tape than y: what was recorded outside has no history here");
  CHECK(message_of([&] { multiply(x, slope); }) ==
        "[multiply] operands come from two tapes (f32[3] and f32[3]): a gradient taken outside the tape cannot be "
        "differentiated on it");
}

TEST_CASE("integers, and tensors that are none") {
  Tape tape;
  Tensor x = input(tape, {3}), n = input(tape, {3}, DType::i32);
  CHECK(message_of([&] { grad(sum(n), x); }) == "[grad] y is i32[], only floating-point tensors have derivatives");
  CHECK(message_of([&] { grad(sum(x), n); }) == "[grad] x is i32[3], only floating-point tensors have derivatives");
  CHECK(message_of([&] { grad(Tensor(), x); }) == "[grad] y is no tensor");
  CHECK(message_of([&] { grad(sum(x), Tensor()); }) == "[grad] an x is no tensor");
}

TEST_CASE("check_grads says which order is wrong, by how much") {
  // The derivative of stop_gradient is not what differences of the function see.
  const std::string text = message_of(
      [] { check_grads([](const Tensors& t) { return t[0] * stop_gradient(t[0]); }, {any({3})}, 2, on_reference); });
  CHECK(text.rfind("[check_grads] tolerance 1e-06; order 1: analytic ", 0) == 0);
  CHECK(text.find("(FAILED)") != std::string::npos);
  CHECK(text.find('\n') == std::string::npos);
}

TEST_SUITE_END();

TEST_SUITE_BEGIN("grad");

TEST_CASE("of y by itself, by an intermediate, by several at once") {
  const Program p = record("several", [](Recorder& r) {
    Tensor x = r.input("x", DType::f64, {2}), h = x * x, y = sum(h * x);
    const auto grads = grad(y, std::vector{x, h, y});
    for (Tensor g : grads) r.output("g", g);
  });
  const auto out = run(p, {Array::from<double>({2}, {2, -1})});
  CHECK(same(out[0], {12, 3}));  // through h as well
  CHECK(same(out[1], {2, -1}));
  CHECK(same(out[2], {1}));
}

TEST_CASE("in bf16 every cotangent is bf16, and parameters in bf16 and f32 mix by convert") {
  Tape tape;
  Tensor x = input(tape, {2, 3}, DType::bf16), w = input(tape, {3, 2});
  Tensor y = sum(tanh(matmul(x, convert(w, DType::bf16))));
  const auto grads = grad(y, std::vector{x, w});
  CHECK(grads[0].dtype() == DType::bf16);
  CHECK(grads[1].dtype() == DType::f32);
}

TEST_SUITE_END();
