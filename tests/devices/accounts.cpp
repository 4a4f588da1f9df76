// What devices owe their caller: state that stays apart, moves that are paid for, the same count of useful work.
#include <doctest/doctest.h>

#include <cmath>
#include <map>

#include "autodiff/grad.hpp"
#include "devices/nonfinite.hpp"
#include "devices/tpu/tpu.hpp"
#include "sim/chip.hpp"

using namespace backbeat;

TEST_CASE("two states that share a buffer stay two states") {
  const Program program = record("shared", [](Recorder& r) {
    r.update("a", r.state("a", DType::f32, {4}) + 1.0);
    r.update("b", r.state("b", DType::f32, {4}) * 10.0);
  });
  const auto reference = make_reference_device(), cpu = make_cpu_device(), tpu = make_tpu_device(sim::load_chip("tpu-v3"));
  for (const auto* device : {&reference, &cpu, &tpu}) {
    StateStore state;
    const Array both = Array::full(DType::f32, {4}, 2);
    state.set("a", both), state.set("b", both);
    (*device)->compile(program)->run({}, state);
    CHECK(state.at("a").at(0) == 3);
    CHECK(state.at("b").at(0) == 20);
  }
}

TEST_CASE("each reshape that moves registers is paid for, whatever was reshaped before") {
  const Shape shapes[] = {{16, 64}, {128, 8}, {32, 32}};
  const auto device = make_tpu_device(sim::load_chip("tpu-v3"));
  CompileOptions options;
  options.timing_only = true;
  // What the first `count` reshapes add to the same elementwise work without them.
  const auto price = [&](int count) {
    const auto cycles = [&](bool moved) {
      const Program program = record("reshapes", [&](Recorder& r) {
        const Tensor y = tanh(r.input("x", DType::f32, {64, 16}));
        for (int i = 0; i < count; ++i) r.output(concat(i), exp((moved ? reshape(y, shapes[i]) : y) * (2.0 + i)));
      });
      return device->compile(program, options)->cost().cycles;
    };
    return cycles(true) - cycles(false);
  };
  CHECK(price(1) > 0);
  CHECK(price(2) > price(1));
  CHECK(price(3) > price(2));
}

TEST_CASE("useful flops are the same on every device, and those of a convolution and its gradients are equal") {
  const Program program = record("convolution", [](Recorder& r) {
    const Tensor x = r.input("x", DType::f32, {2, 9, 9, 3}), w = r.input("w", DType::f32, {5, 5, 3, 4});
    ConvDims dims;
    dims.lhs = dims.out = {0, 3, {1, 2}}, dims.kernel = {3, 2, {0, 1}};
    dims.strides = {2, 2}, dims.pad_low = {1, 1}, dims.pad_high = {2, 2};
    const Tensor y = convolution(x, w, dims), loss = sum(square(y));
    r.output("dx", grad(loss, x));
    r.output("dw", grad(loss, w));
  });
  const std::vector<Array> inputs{Array::full(DType::f32, {2, 9, 9, 3}, 0.5), Array::full(DType::f32, {5, 5, 3, 4}, 0.25)};
  const auto reference = make_reference_device(), cpu = make_cpu_device(), tpu = make_tpu_device(sim::load_chip("tpu-v3"));
  std::vector<int64_t> products;
  std::map<NodeId, int64_t> expected;
  for (const auto* device : {&reference, &cpu, &tpu}) {
    const auto executable = (*device)->compile(program);
    StateStore state;
    executable->run(inputs, state);
    for (const NodeCost& n : executable->cost().nodes) {
      if (n.id < 0) continue;
      if (n.op == Op::convolution) products.push_back(n.flops);
      CHECK(expected.try_emplace(n.id, n.flops).first->second == n.flops);
    }
  }
  REQUIRE(products.size() == 9);
  for (int64_t flops : products) CHECK(flops == products[0]);
}

TEST_CASE("an i64 constant that no double holds keeps its last bit in a chain") {
  constexpr int64_t large = (int64_t{1} << 53) + 1;
  const Program program = record("large", [&](Recorder& r) {
    r.output("y", r.input("x", DType::i64, {3}) + constant(r.tape(), Array::scalar<int64_t>(large)));
  });
  const auto reference = make_reference_device(), cpu = make_cpu_device(), tpu = make_tpu_device(sim::load_chip("edu-8x8"));
  for (const auto* device : {&reference, &cpu, &tpu}) {
    StateStore state;
    const Array y = (*device)->compile(program)->run(std::vector<Array>{Array::zeros(DType::i64, {3})}, state)[0];
    for (int64_t i = 0; i < 3; ++i) CHECK(y.data<int64_t>()[i] == large);
  }
}

TEST_CASE("what is not finite: a mask of infinities is not the culprit, until it makes NaN") {
  const auto culprit = [](const std::function<Tensor(Tensor, Tensor)>& f) {
    const Program program = record("masked", [&](Recorder& r) {
      const Tensor x = r.input("x", DType::f32, {2}), none = full(r.tape(), DType::f32, {2}, -INFINITY);
      r.output("y", f(select(x > 0.0, x, none), none));
    });
    StateStore state;
    const auto device = make_cpu_device();
    const auto found = find_nonfinite(*device, program, std::vector<Array>{Array::from<float>({2}, {-1, 1})}, state);
    return found ? concat(program.tape[found->node].op, found->nan ? " NaN" : "", found->of_constants ? " of constants" : "") : "";
  };
  CHECK(culprit([](Tensor masked, Tensor) { return exp(masked); }) == "");
  CHECK(culprit([](Tensor masked, Tensor) { return log(exp(masked) - 10.0); }) == "log NaN");
  CHECK(culprit([](Tensor masked, Tensor) { return exp((exp(masked) + 1.0) * 1000.0); }) == "exp");
  CHECK(culprit([](Tensor masked, Tensor none) { return masked - none; }) == "subtract NaN of constants");
}
