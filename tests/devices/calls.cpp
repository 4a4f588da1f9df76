// Programs with calls compute what their bodies do, with the labels of call and body; and what barriers keep apart.
#include <doctest/doctest.h>

#include <algorithm>

#include "autodiff/grad.hpp"
#include "engine/composite.hpp"
#include "engine/fusion.hpp"
#include "engine/ops.hpp"
#include "engine/passes.hpp"
#include "tests/devices.hpp"

using namespace backbeat;

namespace {

using Tensors = std::vector<Tensor>;

Tensors cell(const Tensors& x) {  // two results
  const Tensor y = tanh(x[0] * x[1]);
  return {y, y - x[0]};
}

// The cell twice, the second time on what the first gives, and a tensor of the tape that is no operand.
Tensors twice(const Tensors& x, Tensor bias, bool calls) {
  const auto step = [&](const Tensors& in) { return calls ? call("cell", cell, in) : cell(in); };
  const Tensors first = step(x), second = step({first[1], x[1] + bias});
  return {second[0] + first[0], second[1]};
}

Program written(bool calls) {
  return record("calls", [&](Recorder& r) {
    const Tensor x = r.input("x", DType::f32, {3, 5}), w = r.input("w", DType::f32, {3, 5});
    const Tensor bias = r.input("bias", DType::f32, {5});
    const auto body = [&](const Tensors& in) { return twice(in, bias, calls); };
    const Tensors y = calls ? call("twice", body, {x, w}) : body({x, w});
    r.output("first", y[0]), r.output("second", y[1]);
    r.output("both", reduce_sum(y[0] * y[1], {1}));
  });
}

// Without calls, and without what recording a call leaves behind.
Program live(const Program& program) { return optimize(program, passes_from_text("dce")); }

const Node& only(const Program& program, Op op) {
  const Node* found = nullptr;
  for (NodeId id = 0; id < program.tape.size(); ++id)
    if (program.tape[id].op == op) {
      REQUIRE(found == nullptr);
      found = &program.tape[id];
    }
  REQUIRE(found != nullptr);
  return *found;
}

int count(const Program& program, Op op) {
  int n = 0;
  for (NodeId id = 0; id < program.tape.size(); ++id) n += program.tape[id].op == op;
  return n;
}

std::string scope_of(const Program& program, const Node& node) {
  return program.tape.scopes()[static_cast<size_t>(node.scope)];
}

}  // namespace

TEST_CASE("calls: the same values as without, nested, with two results and a captured tensor") {
  const Program plain = written(false), called = written(true);
  CHECK(count(plain, Op::call) == 0);
  for (const Program::Port& port : called.outputs)
    if (port.name != "both") CHECK(called.tape[port.node].op == Op::call);
  Array x(DType::f32, {3, 5}), w(DType::f32, {3, 5}), bias(DType::f32, {5});
  for (int64_t i = 0; i < 15; ++i)
    x.set(i, 0.1 * static_cast<double>(i) - 0.7), w.set(i, 0.9 - 0.05 * static_cast<double>(i));
  for (int64_t i = 0; i < 5; ++i) bias.set(i, 0.3 * static_cast<double>(i));
  for (const test::NamedDevice& device : test::all_devices())
    for (const Program& program : {called, optimize(called)}) {
      INFO(std::string(device.name));
      const auto expected = test::run(plain, {x, w, bias}, device), got = test::run(program, {x, w, bias}, device);
      for (size_t i = 0; i < got.size(); ++i) CHECK(bitwise_equal(got[i], expected[i]));
    }
  // Both results of a call run its body once; so do they after the passes, which see no call any more.
  for (const Program& flat : {live(called), optimize(called)}) {
    CHECK(count(flat, Op::call) == 0);
    CHECK(count(flat, Op::tanh) == 2);
  }
}

TEST_CASE("calls: a body called again on other operands") {
  const Program program = record("again", [&](Recorder& r) {
    const Tensor x = r.input("x", DType::f32, {2}), y = r.input("y", DType::f32, {2});
    const Tensor first = call("double", [](const Tensors& in) { return Tensors{in[0] + in[0]}; }, {x})[0];
    const auto composite = std::get<CallDims>(first.node().attributes).composite;
    r.output("x", first), r.output("y", call(composite, {y})[0]);
  });
  const Array x = Array::from<float>({2}, {1, 2}), y = Array::from<float>({2}, {3, 4});
  for (const test::NamedDevice& device : test::all_devices()) {
    const auto got = test::run(program, {x, y}, device);
    CHECK(bitwise_equal(got[0], Array::from<float>({2}, {2, 4})));
    CHECK(bitwise_equal(got[1], Array::from<float>({2}, {6, 8})));
  }
}

TEST_CASE("calls: inlined nodes have the scope of call and body, the larger order, the phase it serves") {
  const Program program = record("labels", [&](Recorder& r) {
    const Tensor x = r.input("x", DType::f32, {2});
    const Scope outer("critic");
    const auto body = [](const Tensors& in) {
      const Scope inner("dense");
      return Tensors{exp(in[0])};
    };
    r.output("y", call("cell", body, {x})[0]);
  });
  const Program flat = live(program);
  CHECK(scope_of(flat, only(flat, Op::exp)) == "critic/dense");
  CHECK(only(flat, Op::exp).order == 0);
  CHECK(flat.tape.phase_of(flat.outputs[0].node) == Phase::forward);

  // As the body of a call that a derivative holds, and of one that computes a checkpoint again.
  Program later = program;
  Node& node = later.tape.node(later.outputs[0].node);
  node.order = 2, node.derivative = true;
  const Program second = live(later);
  CHECK(only(second, Op::exp).order == 2);
  CHECK(only(second, Op::exp).derivative);
  CHECK(second.tape.phase_of(second.outputs[0].node) == Phase::second_backward);
  node.order = 0, node.derivative = false, node.serves = 1;
  const Program again = live(later);
  CHECK(only(again, Op::exp).serves == 1);
  CHECK(again.tape.phase_of(again.outputs[0].node) == Phase::recompute);
}

TEST_CASE("calls: a derivative in a body, and a call in a derivative, are labelled as without calls") {
  const auto labels = [](const std::function<void(Recorder&, bool)>& step, bool calls) {
    const Program flat = live(record("labels", [&](Recorder& r) { step(r, calls); }));
    std::vector<std::string> text;
    for (NodeId id = 0; id < flat.tape.size(); ++id) {
      const Node& node = flat.tape[id];
      if (node.op != Op::constant && node.op != Op::broadcast_in_dim)
        text.push_back(concat(node.op, " order ", node.order, " in '", flat.tape.scope_of(id), "'"));
    }
    return text;
  };
  const auto penalty = [](Recorder& r, bool calls) {  // the order of a result is that of the node that makes it
    const Tensor x = r.input("x", DType::f32, {2});
    const Scope scope("critic");
    const auto body = [](const Tensors& t) { return Tensors{grad(sum(tanh(t[0])), t[0])}; };
    r.output("y", square(calls ? call("slope", body, {x})[0] : body({x})[0]));
  };
  const auto own = [](Recorder& r, bool calls) {
    CallOptions options;
    options.vjp = [calls](const CompositeCall& c) {
      const auto slope = [](const Tensors& t) { return Tensors{exp(t[0])}; };
      return Tensors{c.seeds[0] * (calls ? call("slope", slope, c.operands)[0] : slope(c.operands)[0])};
    };
    const Tensor x = r.input("x", DType::f32, {2});
    const Scope scope("layer");
    r.output("dx", grad(sum(call("exp", [](const Tensors& t) { return Tensors{exp(t[0])}; }, {x}, options)[0]), x));
  };
  for (const auto& step : {+penalty, +own}) CHECK(labels(step, true) == labels(step, false));
  CHECK(labels(penalty, true).back() == "multiply order 1 in 'critic'");
  CHECK(labels(own, true).back() == "multiply order 1 in 'layer'");
}

TEST_CASE("passes: what a recomputation shares with a node that is no recomputation is none either") {
  const Program program = optimize(record("shared", [](Recorder& r) {
    const Tensor x = r.input("x", DType::f32, {4});
    const auto places = [&] { return convert(iota(r.tape(), DType::i32, {4}, 0), DType::f32); };
    const Tensor y = checkpoint([&](const Tensors& t) { return Tensors{tanh(t[0] * places())}; }, {x})[0];
    r.output("g", grad(sum(y), x)), r.output("later", x + places());
  }));
  CHECK(only(program, Op::iota).serves == -1);
  CHECK(only(program, Op::convert).serves == -1);
  CHECK(only(program, Op::tanh).serves == 1);
}

TEST_CASE("barriers are not merged, folded or simplified away, and nothing moves through them") {
  const Program program = record("barrier", [](Recorder& r) {
    const Tensor x = r.input("x", DType::f32, {4}), y = exp(x);
    r.output("y", y);
    r.output("a", exp(optimization_barrier(x)));       // not the same as y
    r.output("b", exp(optimization_barrier(x, {y})));  // nor as a
    r.output("c", exp(optimization_barrier(x, {y})));
    r.output("constant", optimization_barrier(full(r.tape(), DType::f32, {4}, 1)) * x);  // not x
    r.output("negated", -optimization_barrier(-x));
  });
  const Program optimized = optimize(program);
  CHECK(count(optimized, Op::optimization_barrier) == 5);
  CHECK(count(optimized, Op::exp) == 4);
  CHECK(count(optimized, Op::multiply) == 1);
  CHECK(count(optimized, Op::negate) == 2);
  const Array x = Array::from<float>({4}, {1, 2, 3, 4});
  for (const test::NamedDevice& device : test::all_devices()) {
    INFO(std::string(device.name));
    const auto expected = test::run(program, {x}, device), got = test::run(optimized, {x}, device);
    for (size_t i = 0; i < got.size(); ++i) CHECK(bitwise_equal(got[i], expected[i]));
    CHECK(bitwise_equal(got[5], x));
  }
}

TEST_CASE("barriers: a group of their own, after all of their operands") {
  const Program program = record("groups", [](Recorder& r) {
    const Tensor x = r.input("x", DType::f32, {4}), late = exp(r.input("z", DType::f32, {4}));
    const Tensor held = optimization_barrier(x * 2.0, {late});
    r.output("y", held + 1.0), r.output("late", late);
  });
  const Fusion fusion = fusion_groups(program);
  const auto group_of = [&](NodeId id) {
    return std::find_if(fusion.groups.begin(), fusion.groups.end(), [&](const FusionGroup& g) {
             const auto nodes = g.nodes();
             return std::find(nodes.begin(), nodes.end(), id) != nodes.end();
           }) - fusion.groups.begin();
  };
  NodeId barrier = -1;
  for (NodeId id = 0; id < program.tape.size(); ++id)
    if (program.tape[id].op == Op::optimization_barrier) barrier = id;
  const FusionGroup& alone = fusion.groups[static_cast<size_t>(group_of(barrier))];
  CHECK(alone.nodes() == std::vector<NodeId>{barrier});
  CHECK(alone.operands == std::vector<NodeId>{program.tape[barrier].operands[1], program.tape[barrier].operands[0]});
  for (NodeId operand : program.tape[barrier].operands) CHECK(group_of(operand) < group_of(barrier));
  CHECK(group_of(program.outputs[0].node) > group_of(barrier));
}

TEST_CASE("passes: nodes that differ in an attribute alone stay apart, equal ones become one") {
  const auto window = [](Reduction kind, int64_t low) { return WindowDims{kind, {2}, {1}, {low}, {1 - low}, {1}, {1}}; };
  const Program program = record("attributes", [&](Recorder& r) {
    const Tensor x = r.input("x", DType::f32, {4}), u = r.input("u", DType::f32, {2});
    const Tensor at = r.input("at", DType::i32, {2, 1});
    int n = 0;
    const auto out = [&](Tensor t) { r.output(concat("y", n++), t); };
    for (int copies = 0; copies < 2; ++copies) {
      for (Reduction kind : {Reduction::sum, Reduction::max})
        for (int64_t low : {0, 1}) out(reduce_window(x, window(kind, low)));
      for (bool reverse : {false, true}) out(cumsum(x, 0, reverse));
      out(argmax(x, 0)), out(argmin(x, 0));
      for (Bounds bounds : {Bounds::clip, Bounds::fill_or_drop}) {
        const GatherDims dims{{}, {0}, {0}, {1}, bounds};
        out(gather(x, at, dims));
        for (bool add : {false, true}) out(scatter(x, at, u, {dims, add}));
      }
    }
  });
  const Program optimized = optimize(program);
  CHECK(count(optimized, Op::reduce_window) == 4);
  CHECK(count(optimized, Op::cumsum) == 2);
  CHECK(count(optimized, Op::argmax) == 2);
  CHECK(count(optimized, Op::gather) == 2);
  CHECK(count(optimized, Op::scatter) == 4);
}

TEST_CASE("useful operations of windows, scans and scatters") {
  Tape tape;
  const auto in = [&](DType dtype, const Shape& shape) {
    return Tensor(tape, tape.append(Op::input, {}, InputName{"x"}, shape, dtype));
  };
  const auto flops = [](Tensor t) { return useful_flops(t.tape(), t.id()); };
  const Tensor x = in(DType::f32, {4, 6}), at = in(DType::i32, {3, 1}), start = in(DType::i32, {2});
  const WindowDims dims{Reduction::max, {2, 3}, {2, 3}, {0, 0}, {0, 0}, {1, 1}, {1, 1}};  // 2 x 2 windows of 6
  const GatherDims rows{{1}, {0}, {0}, {1, 6}, Bounds::clip};
  CHECK(flops(reduce_window(x, dims)) == 24);
  CHECK(flops(select_and_scatter(x, in(DType::f32, {2, 2}), dims)) == 24);
  CHECK(flops(select_and_gather(x, x, dims)) == 24);
  CHECK(flops(cumsum(x, 0)) == 24);
  CHECK(flops(argmax(x, 1)) == 24);
  CHECK(flops(sort(x, 1)) == 0);
  CHECK(flops(gather(x, at, rows)) == 0);
  CHECK(flops(scatter(x, at, in(DType::f32, {3, 6}), {rows, true})) == 18);
  CHECK(flops(scatter(x, at, in(DType::f32, {3, 6}), {rows, false})) == 0);
  CHECK(flops(dynamic_slice(x, start, {1, 2})) == 0);
}
