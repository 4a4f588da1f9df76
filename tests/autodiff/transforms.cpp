// What is built on the two walks: jvp, vjp, hvp, jacobian, hessian, value_and_grad; calls and checkpoints.
#include <cmath>

#include "engine/passes.hpp"
#include "engine/print.hpp"
#include "tests/autodiff/derivatives.hpp"

using namespace backbeat;
using namespace backbeat::test;

namespace {

std::vector<Array> outputs(const std::function<void(Recorder&)>& body, const std::vector<Array>& inputs) {
  return run(record("transforms", body), inputs);
}

void close(const Array& got, const Array& expected, double tolerance = 1e-13) {
  REQUIRE(got.shape() == expected.shape());
  for (int64_t i = 0; i < got.size(); ++i) CHECK(got.at(i) == doctest::Approx(expected.at(i)).epsilon(tolerance));
}

// A curved function of two tensors.
Tensor curved(Tensor x, Tensor w) { return tanh(matmul(x, w)); }

int count(const Program& program, Op op, Phase phase) {
  int n = 0;
  for (NodeId id = 0; id < program.tape.size(); ++id) n += program.tape[id].op == op && program.tape.phase_of(id) == phase;
  return n;
}

}  // namespace

TEST_SUITE_BEGIN("transforms");

TEST_CASE("jvp and vjp are each other's transposes: <w, J v> = <v, J^T w>") {
  const auto out = outputs(
      [](Recorder& r) {
        const Tensor x = r.input("x", DType::f64, {3, 2}), w = r.input("w", DType::f64, {2, 4});
        const Tensor v = r.input("v", DType::f64, {3, 2}), u = r.input("u", DType::f64, {3, 4}), y = curved(x, w);
        r.output("forward", sum(u * jvp(y, x, v)));
        r.output("reverse", sum(v * grad(y, x, {.cotangent = u, .unused = Unused::error})));
      },
      {any({3, 2}), any({2, 4}, 2), any({3, 2}, 3), any({3, 4}, 4)});
  close(out[0], out[1]);
}

TEST_CASE("several ys and xs; none for what does not depend") {
  const auto out = outputs(
      [](Recorder& r) {
        const Tensor a = r.input("a", DType::f64, {}), b = r.input("b", DType::f64, {});
        const Tensor ys[] = {a * b, exp(b)}, xs[] = {a, b}, seeds[] = {scalar_like(a, 2), scalar_like(a, 3)};
        const auto g = vjp(ys, seeds, xs);
        r.output("da", g[0]), r.output("db", g[1]);
        const Tensor none[] = {Tensor(), seeds[1]};
        CHECK_FALSE(vjp(ys, none, xs, Unused::none)[0].defined());
        const auto t = jvp(ys, std::span(xs, 1), std::span(seeds, 1), Unused::none);
        r.output("ta", t[0]);
        CHECK_FALSE(t[1].defined());
        CHECK_THROWS_WITH_AS(jvp(ys, std::span(xs, 1), std::span(seeds, 1), Unused::error), doctest::Contains("[jvp] y number 1"), Error);
      },
      {Array::scalar(1.5), Array::scalar(0.5)});
  CHECK(out[0].item() == 2 * 0.5);
  CHECK(out[1].item() == doctest::Approx(2 * 1.5 + 3 * std::exp(0.5)));
  CHECK(out[2].item() == 2 * 0.5);
}

TEST_CASE("xs that depend on each other: jvp and vjp stay transposes, and no tangent is a tangent of zero") {
  const auto out = outputs(
      [](Recorder& r) {
        const Tensor a = r.input("a", DType::f64, {}), b = a * 3.0, y = b * b + a, one = ones_like(a), two = one + one;
        const Tensor xs[] = {a, b}, both[] = {one, two}, zero[] = {one, zeros_like(a)}, none[] = {one, Tensor()};
        for (Tensor g : grad(y, xs)) r.output("g", g);
        for (const Tensor* tangents : {both, zero, none}) r.output("t", jvp(std::span(&y, 1), xs, std::span(tangents, 2))[0]);
        const auto parts = call("parts", [](const Tensors& t) { return Tensors{exp(t[0]), t[0] * t[0]}; }, {a});
        const Tensor z = parts[0] * parts[1], zs[] = {a, parts[1]};  // one result of a call is an x
        for (Tensor g : grad(z, zs)) r.output("g", g);
        r.output("t", jvp(std::span(&z, 1), zs, both)[0]);
      },
      {Array::scalar(2.0)});
  const double expected[] = {37, 12, 37 + 2 * 12, 37, 37};
  for (size_t i = 0; i < std::size(expected); ++i) CHECK(out[i].item() == expected[i]);
  close(out[7], Array::scalar(out[5].item() + 2 * out[6].item()));
}

TEST_CASE("what has no derivative may be an x beside what it is made of") {
  for (Tensor (*f)(Operand) : {&stop_gradient, static_cast<Tensor (*)(Operand)>(&floor), &sign}) {
    const auto out = outputs(
        [&](Recorder& r) {
          const Tensor w = r.input("w", DType::f64, {}), x = f(w), y = x * w, xs[] = {x, w}, none[] = {Tensor(), ones_like(w)};
          for (Tensor g : grad(y, xs)) r.output("g", g);
          r.output("t", jvp(std::span(&y, 1), xs, none)[0]), r.output("x", x);
        },
        {Array::scalar(3.0)});
    CHECK(same(out[0], {3}));
    CHECK(out[1].item() == out[3].item());
    CHECK(out[2].item() == out[3].item());
  }
}

TEST_CASE("value_and_grad, hvp, jacobian and hessian agree with each other") {
  const auto out = outputs(
      [](Recorder& r) {
        const Tensor x = r.input("x", DType::f64, {2, 3}), w = r.input("w", DType::f64, {3, 2}), v = r.input("v", DType::f64, {2, 3});
        const auto [value, g] = value_and_grad([&](const Tensors& t) { return mean(square(curved(t[0], w))); }, {x});
        r.output("value", value), r.output("grad", g[0]);
        r.output("hv", hvp(value, x, v));
        r.output("Hv", reshape(matmul(reshape(hessian(value, x), {6, 6}), reshape(v, {6, 1})), {2, 3}));
        r.output("rows", jacobian(reshape(curved(x, w), {4}), x));    // 4 vjps
        r.output("columns", jacobian(sine(matmul(x, w)), reshape(x, {6})));  // x is no function of its reshape
      },
      {any({2, 3}), any({3, 2}, 2), any({2, 3}, 3)});
  close(out[2], out[3], 1e-12);
  CHECK(out[4].shape() == Shape{4, 2, 3});
}

TEST_CASE("jacobian takes the side with fewer elements, in either shape") {
  const auto out = outputs(
      [](Recorder& r) {
        const Tensor x = r.input("x", DType::f64, {2}), w = r.input("w", DType::f64, {2, 5});
        const Tensor wide = reshape(matmul(reshape(x, {1, 2}), w), {5});  // 5 of 2: by columns
        r.output("wide", jacobian(wide, x)), r.output("w", transpose(w, {1, 0}));
        const Tensor narrow = matmul(w, reshape(wide, {5, 1}));  // [2, 1] of 5 elements: by rows
        r.output("narrow", jacobian(narrow, wide)), r.output("w again", reshape(w, {2, 1, 5}));
      },
      {any({2}), any({2, 5}, 2)});
  close(out[0], out[1]);
  close(out[2], out[3]);
}

TEST_CASE("refusals") {
  Program program;
  Recorder r(program);
  const Tensor x = r.input("x", DType::f64, {2}), i = r.input("i", DType::i32, {2});
  const Tensor many = r.input("many", DType::f64, {1, 1, 1, 1, 1});
  CHECK_THROWS_WITH_AS(jvp(x, i, i), "[jvp] x is i32[2], only floating-point tensors have derivatives", Error);
  CHECK_THROWS_WITH_AS(jvp(x, x, many), "[jvp] the tangent is f64[1,1,1,1,1], x is f64[2]", Error);
  CHECK_THROWS_WITH_AS(hessian(x, x), "[hessian] y is f64[2], expected a scalar", Error);
  CHECK_THROWS_WITH_AS(jacobian(many, many), "[jacobian] of f64[1,1,1,1,1] by f64[1,1,1,1,1] would have 10 dimensions, at most 8 are supported", Error);
  CHECK_THROWS_WITH_AS(vjp(std::vector<Tensor>{x}, std::vector<Tensor>{}, std::vector{x}), "[vjp] 1 ys have 0 cotangents, expected one each", Error);
  const Tensor most = reduce(all_reduce(x, Reduction::max, 1), Reduction::sum, {0});
  CHECK_THROWS_WITH_AS(grad(most, x), "[all_reduce] only a sum over replicas has a derivative, not the max of f64[2]", Error);
  CallOptions own;
  own.vjp = [](const CompositeCall& c) { return std::vector{c.seeds[0], c.seeds[0]}; };
  const Tensor y = call("twice", [](const Tensors& t) { return Tensors{t[0] + t[0]}; }, {x}, own)[0];
  CHECK_THROWS_WITH_AS(grad(sum(y), x), "[call] twice: its own vjp gives 2 tensors, expected 1", Error);
  Program elsewhere;
  const Tensor z = exp(Recorder(elsewhere).input("z", DType::f64, {2}));
  CHECK_THROWS_WITH_AS(vjp(std::vector{y, z}, std::vector{y, z}, std::vector{x}), "[vjp] y is f64[2] on another tape than the first y", Error);
  CHECK_THROWS_WITH_AS(jvp(std::vector{y, z}, std::vector{x}, std::vector{x}), "[jvp] y is f64[2] on another tape than the first y", Error);
  CallOptions strange;
  strange.vjp = [&](const CompositeCall&) { return std::vector{z}; };
  const Tensor odd = call("strange", [](const Tensors& t) { return Tensors{exp(t[0])}; }, {x}, strange)[0];
  CHECK_THROWS_WITH_AS(grad(sum(odd), x), "[call] strange: its own vjp number 0, f64[2], is on another tape than the call", Error);
  CHECK_THROWS_WITH_AS(jvp(y, x, x), doctest::Contains("[jvp] call twice states its own vjp but no jvp"), Error);
  CHECK_THROWS_WITH_AS(call("captures", [&](const Tensors& t) { return Tensors{t[0] * x}; }, {exp(x)}, own), doctest::Contains("all that the body uses must be an operand"), Error);
}

TEST_CASE("calls: two results, a captured tensor, a nested call, an operand twice; to third order") {
  third_order(
      [](const Tensors& t) {
        const Tensor w = tanh(t[1]);
        const auto inner = [](const Tensors& s) { return Tensors{exp(s[0]) * s[1]}; };
        const auto body = [&](const Tensors& s) {
          const Tensor y = call("inner", inner, {s[0], s[0]})[0];
          return Tensors{y * w, sine(s[0])};
        };
        const Tensors results = call("body", body, {t[0]});
        return results[0] * results[1] + results[0];
      },
      {any({2, 3}), any({2, 3}, 2)});
}

TEST_CASE("calls: a body that uses only the second result of a call in it") {
  third_order(
      [](const Tensors& t) {
        const auto inner = [](const Tensors& s) { return Tensors{exp(s[0]), sine(s[0])}; };
        return call("body", [&](const Tensors& s) { return Tensors{call("inner", inner, {s[0] * s[1]})[1]}; }, t)[0];
      },
      {any({2, 3}), any({2, 3}, 2)});
}

TEST_CASE("a repeated cell is recorded once and called often") {
  std::shared_ptr<const Composite> cell;
  const auto unrolled = [&](Recorder& r, bool calls) {
    const Tensor w = r.input("w", DType::f64, {3, 3});
    Tensor h = r.input("h", DType::f64, {2, 3});
    const auto body = [](const Tensors& t) { return Tensors{tanh(matmul(t[0], t[1]))}; };
    for (int i = 0; i < 4; ++i) {
      if (!calls) h = body({h, w})[0];
      else if (i == 0) {
        h = call("cell", body, {h, w})[0];
        cell = std::get<CallDims>(h.node().attributes).composite;
      } else h = call(cell, {h, w})[0];
    }
    r.output("dw", grad(sum(square(h)), w));
  };
  const std::vector<Array> inputs{any({3, 3}), any({2, 3}, 2)};
  const auto plain = outputs([&](Recorder& r) { unrolled(r, false); }, inputs);
  close(outputs([&](Recorder& r) { unrolled(r, true); }, inputs)[0], plain[0]);
  // The forward pass that the derivative appends once more is shared with the first.
  const Program flat = optimize(record("cells", [&](Recorder& r) { unrolled(r, true); }));
  CHECK(count(flat, Op::dot_general, Phase::forward) == 4);
  CHECK(count(flat, Op::dot_general, Phase::backward) == 7);
  CHECK(count(flat, Op::call, Phase::forward) == 0);
}

TEST_CASE("a checkpoint computes again, in a phase of its own; also under double backward") {
  const auto network = [](Recorder& r, bool again, bool penalize) {
    const Tensor x = r.input("x", DType::f64, {4, 3}), w = r.input("w", DType::f64, {3, 3}), v = r.input("v", DType::f64, {3, 3});
    const auto block = [](const Tensors& t) { return Tensors{tanh(matmul(tanh(matmul(t[0], t[1])), t[2]))}; };
    const Tensor y = again ? checkpoint(block, {x, w, v})[0] : block({x, w, v})[0];
    const Tensor loss = penalize ? mean(square(norm(grad(sum(y), x), {1}) - 1.0)) : mean(square(y));
    const Tensor xs[] = {w, v};
    for (Tensor g : grad(loss, xs)) r.output("g", g);
  };
  const std::vector<Array> inputs{any({4, 3}), any({3, 3}, 2), any({3, 3}, 3)};
  for (const bool penalize : {false, true}) {
    CAPTURE(penalize);
    const auto plain = outputs([&](Recorder& r) { network(r, false, penalize); }, inputs);
    const Program program = optimize(record("checkpoint", [&](Recorder& r) { network(r, true, penalize); }));
    for (const NamedDevice& device : all_devices()) {
      const auto got = run(program, inputs, device);
      for (size_t i = 0; i < plain.size(); ++i) close(got[i], plain[i], 1e-12);
    }
    CHECK(count(program, Op::tanh, Phase::forward) == (penalize ? 0 : 2));  // nothing needs y itself
    // The second backward pass computes the first one again, which computes the forward pass again.
    CHECK(count(program, Op::tanh, Phase::recompute) == (penalize ? 4 : 2));
    for (NodeId id = 0; id < program.tape.size(); ++id) {
      const Node& node = program.tape[id];
      if (program.tape.phase_of(id) != Phase::recompute) continue;
      CHECK(node.order < node.serves);
      CHECK((node.serves == 1 || (node.serves == 2 && penalize)));
      const char* served = node.serves == 1 ? "# recompute for backward" : "# recompute for second_backward";
      CHECK(describe(program.tape, id).find(served) != std::string::npos);
    }
  }
}

TEST_CASE("checkpoints keep memory small, under one backward pass and under two") {
  const auto arena_bytes = [](bool again, bool penalize) {
    const Program program = optimize(record("deep", [&](Recorder& r) {
      const Tensor x = r.input("x", DType::f32, {64, 16}), w = r.input("w", DType::f32, {16, 16});
      const auto block = [&](const Tensors& t) {
        Tensor y = t[0];
        for (int i = 0; i < 4; ++i) y = tanh(matmul(y, t[1]));
        return Tensors{y};
      };
      Tensor y = x;
      for (int i = 0; i < 8; ++i) y = again ? checkpoint(block, {y, w})[0] : block({y, w})[0];
      const Tensor loss = penalize ? mean(square(norm(grad(sum(y), x), {1}) - 1.0)) : mean(square(y));
      r.output("dw", grad(loss, w));
    }));
    const auto executable = make_cpu_device()->compile(program);
    StateStore state;
    executable->run(std::vector{Array::full(DType::f32, {64, 16}, 0.1), Array::full(DType::f32, {16, 16}, 0.1)}, state);
    return executable->cost().memory.by_origin.at("arena");
  };
  CHECK(arena_bytes(true, false) * 2 < arena_bytes(false, false));
  CHECK(arena_bytes(true, true) * 2 < arena_bytes(false, true));
}

TEST_CASE("the labels of a derivative in forward mode are those of the reverse mode") {
  const Program program = record("labels", [](Recorder& r) {
    const Tensor x = r.input("x", DType::f64, {2}), v = r.input("v", DType::f64, {2});
    Tensor y;
    {
      const Scope scope("layer");
      y = exp(x);
    }
    const Tensor t = jvp(y, x, v), tt = jvp(t, x, v);
    CHECK(t.node().order == 1);
    CHECK(tt.node().order == 2);
    CHECK(r.tape().scope_of(t.id()) == "layer");
    CHECK(t.node().line.line == y.node().line.line);
    r.output("tt", tt);
  });
}

TEST_SUITE_END();
