// What each node is labelled with: order, phase and scope; and how many products the critic's step holds of each order.
#include <algorithm>
#include <array>

#include "engine/passes.hpp"
#include "tests/autodiff/derivatives.hpp"

using namespace backbeat;
using namespace backbeat::test;

namespace {

int order_of(Tensor t) { return t.node().order; }
Phase phase_of(Tensor t) { return t.tape().phase_of(t.id()); }
std::string scope_of(Tensor t) { return t.tape().scope_of(t.id()); }

Tensor input(Tape& tape, const Shape& shape) {
  return {tape, tape.append(Op::input, {}, InputName{"x"}, shape, DType::f32)};
}

std::array<int, 4> products_by_order(const Program& program) {
  std::array<int, 4> counts{};
  for (NodeId id = 0; id < program.tape.size(); ++id)
    if (program.tape[id].op == Op::dot_general) ++counts[static_cast<size_t>(program.tape[id].order)];
  return counts;
}

// The step of the toy critic of WGAN-GP, 2-512-512-512-1, after dead-code elimination alone.
Program critic_step(Tensor (*activation)(Operand), bool penalize) {
  const std::vector<int64_t> sizes{2, 512, 512, 512, 1};
  const Program recorded = record("critic_step", [&](Recorder& r) {
    std::vector<Tensor> parameters;
    for (size_t i = 0; i + 1 < sizes.size(); ++i) {
      parameters.push_back(r.state(concat("w", i), DType::f32, {sizes[i], sizes[i + 1]}));
      parameters.push_back(r.state(concat("b", i), DType::f32, {sizes[i + 1]}));
    }
    const auto critic = [&](Tensor x) {
      for (size_t i = 0; i < parameters.size(); i += 2) {
        x = matmul(x, parameters[i]) + parameters[i + 1];
        if (i + 2 < parameters.size()) x = activation(x);
      }
      return x;
    };
    Tensor real = r.input("real", DType::f32, {256, 2}), fake = r.input("fake", DType::f32, {256, 2});
    Tensor eps = r.input("eps", DType::f32, {256, 1});
    Tensor loss = mean(critic(fake)) - mean(critic(real));
    if (penalize) {
      Tensor mixed = eps * real + (1 - eps) * fake;
      loss = loss + 0.1 * mean(square(norm(grad(sum(critic(mixed)), mixed), {1}) - 1));
    }
    const auto grads = grad(loss, parameters);
    for (size_t i = 0; i < grads.size(); ++i)
      r.update(concat(i % 2 ? "b" : "w", i / 2), parameters[i] - 1e-4 * grads[i]);
    r.output("loss", loss);
  });
  return optimize(recorded,
                  {.dead_code = true, .common_subexpressions = false, .constant_folding = false, .simplify = false});
}

}  // namespace

TEST_SUITE_BEGIN("labels");

TEST_CASE("order: forward 0, its gradient 1, the gradient of that 2, then 3") {
  Tape tape;
  Tensor x = input(tape, {3});
  Tensor y = sum(exp(x) * x);
  CHECK(order_of(y) == 0);
  for (int k = 1; k <= 4; ++k) {
    const NodeId before = tape.size();
    y = sum(grad(y, x) * x);
    CHECK(order_of(y) == k);  // user code has the largest order of its operands
    for (NodeId id = before; id < tape.size(); ++id) {
      const Node& node = tape[id];
      CHECK(node.order <= k);
      for (NodeId operand : node.operands) CHECK(tape[operand].order <= node.order);
    }
  }
}

TEST_CASE("order: the second pass is of order 2 where it runs back through forward nodes") {
  Tape tape;
  Tensor x = input(tape, {4, 3}), w = input(tape, {3, 5}), v = input(tape, {5, 1});
  Tensor y = sum(matmul(tanh(matmul(x, w)), v));
  Tensor slope = grad(y, x);
  CHECK(order_of(slope) == 1);
  const NodeId before = tape.size();
  Tensor g = grad(sum(square(slope)), w);
  CHECK(order_of(g) == 2);
  int products = 0;
  for (NodeId id = before; id < tape.size(); ++id) {
    if (tape[id].op != Op::dot_general) continue;
    ++products;
    CHECK(tape[id].order == 2);
  }
  // slope = (v' * tanh') w': its product gives a cotangent to each side; and, since tanh is curved, one more goes back
  // through the forward product into w.
  CHECK(products == 3);
}

TEST_CASE("order: a first gradient of something else stays of order 1 beside a second one") {
  Tape tape;
  Tensor x = input(tape, {3}), w = input(tape, {3});
  Tensor first = grad(sum(x * x * w), x);
  Tensor total = sum(w * w) + sum(square(first));
  Tensor g = grad(total, w);
  CHECK(order_of(g) == 2);
  bool found = false;
  for (NodeId operand : g.node().operands) found = found || tape[operand].order == 1;  // of sum(w * w)
  CHECK(found);
}

TEST_CASE("order: a constant cotangent through a derivative still makes the next order") {
  Tape tape;
  const Tensor x(tape, tape.append(Op::input, {}, InputName{"x"}, {3}, DType::f64));
  const Tensor first = grad(sum(exp(x)), x);
  CHECK(order_of(first) == 1);
  CHECK(order_of(grad(sum(first), x)) == 2);
}

TEST_CASE("phase follows the order, and update the scope optimizer") {
  Tape tape;
  Tensor x = input(tape, {3});
  Tensor w = input(tape, {3});
  Tensor y = sum(w * exp(x)), first = grad(y, x), second = grad(sum(w * first), x), third = grad(sum(w * second), x);
  CHECK(phase_of(y) == Phase::forward);
  CHECK(phase_of(first) == Phase::backward);
  CHECK(phase_of(second) == Phase::second_backward);
  CHECK(phase_of(third) == Phase::higher);
  CHECK(phase_of(grad(sum(w * third), x)) == Phase::higher);
  {
    Scope scope("optimizer");
    CHECK(phase_of(x - first) == Phase::update);
    Scope inner("adam");
    CHECK(phase_of(x - second) == Phase::update);
  }
  {
    Scope scope("optimizers");
    CHECK(phase_of(x - first) == Phase::backward);
  }
  CHECK(name_of(Phase::second_backward) == "second_backward");
}

TEST_CASE("scope: nested paths; a derivative has the scope of what it differentiates") {
  Tape tape;
  Tensor x = input(tape, {3});
  CHECK(scope_of(x).empty());
  Tensor h, y;
  {
    Scope critic("critic");
    {
      Scope layer("dense_1");
      h = exp(x);
    }
    {
      Scope layer("dense_2");
      y = sum(sine(h));
    }
  }
  CHECK(scope_of(h) == "critic/dense_1");
  CHECK(scope_of(y) == "critic/dense_2");
  Tensor g;
  {
    Scope penalty("penalty");
    g = grad(y, x);
    CHECK(scope_of(x * g) == "penalty");
  }
  CHECK(scope_of(g) == "critic/dense_1");
  CHECK(scope_of(grad(sum(g), x)) == "critic/dense_1");
  CHECK(scope_of(x * x).empty());
}

TEST_CASE("measured costs carry the labels and add up in every view") {
  const Program p = record("labelled", [](Recorder& r) {
    Tensor x = r.input("x", DType::f32, {64, 32}), w = r.input("w", DType::f32, {32, 16});
    Tensor y;
    {
      Scope scope("layer");
      y = sum(tanh(matmul(x, w)));
    }
    Tensor g = grad(sum(square(grad(y, x))), w);
    Scope scope("optimizer");
    r.output("w", w - 0.1 * g);
  });
  for (const NamedDevice& device : all_devices()) {
    INFO(std::string(device.name));
    const auto executable = device.make()->compile(p);
    CHECK_THROWS_AS(executable->cost(), RunError);  // nothing was measured yet
    StateStore state;
    executable->run(std::vector{any({64, 32}).converted(DType::f32), any({32, 16}).converted(DType::f32)}, state);
    const Cost cost = executable->cost();
    CHECK(cost.program == "labelled");
    CHECK(cost.device == device.name);
    for (const auto* view : {&cost.by_phase, &cost.by_order, &cost.by_scope, &cost.by_op}) {
      Cycles total = 0;
      for (const CostRow& row : *view) {
        total += row.cycles;
        CHECK((0 <= row.removal_cycles && row.removal_cycles <= cost.cycles));
      }
      CHECK(total == cost.cycles);
    }
    for (const EngineCost& engine : cost.engines) CHECK(engine.busy + engine.stalled + engine.idle == cost.cycles);
    for (const char* phase : {"forward", "backward", "second_backward", "update"})
      CHECK(std::any_of(cost.by_phase.begin(), cost.by_phase.end(), [&](const CostRow& row) { return row.key == phase; }));
  }
}

TEST_CASE("nothing is recorded for what has no cotangent") {
  Tape tape;
  Tensor x = input(tape, {3}), w = input(tape, {3});
  Tensor y = sum(x * stop_gradient(w) + sign(w));
  const NodeId before = tape.size();
  const auto grads = grad(y, std::vector{x, w}, {.cotangent = {}, .unused = Unused::none});
  CHECK(grads[0].defined());
  CHECK_FALSE(grads[1].defined());
  for (NodeId id = before; id < tape.size(); ++id) CHECK(tape[id].op != Op::sign);
  CHECK(depends_on(y, x));
  CHECK_FALSE(depends_on(y, w));
}

TEST_CASE("the critic's step holds 11, 18 and 7 products of order 0, 1 and 2 with relu and leaky_relu") {
  CHECK(products_by_order(critic_step(relu, true)) == std::array{11, 18, 7, 0});
  CHECK(products_by_order(critic_step([](Operand x) { return leaky_relu(x, 0.2); }, true)) == std::array{11, 18, 7, 0});
}

TEST_CASE("with tanh it holds 12 of order 2") {
  CHECK(products_by_order(critic_step(tanh, true)) == std::array{11, 18, 12, 0});
}

TEST_CASE("without the penalty none is of order 2") {
  for (auto activation : {relu, tanh})
    CHECK(products_by_order(critic_step(activation, false)) == std::array{8, 14, 0, 0});
}

TEST_SUITE_END();
