// The finder of the first operation that makes NaN or infinity.
#include <doctest/doctest.h>

#include <limits>

#include "autodiff/grad.hpp"
#include "devices/nonfinite.hpp"
#include "devices/tpu/tpu.hpp"
#include "engine/passes.hpp"
#include "sim/chip.hpp"
#include "tests/devices.hpp"

using namespace backbeat;
using namespace backbeat::test;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// On every device, and the same on all of them.
std::string found(const std::function<void(Recorder&)>& body, const std::vector<Array>& inputs, StateStore state = {}) {
  const Program program = optimize(record("p", body));
  std::vector<std::unique_ptr<Device>> devices;
  for (const NamedDevice& d : all_devices()) devices.push_back(d.make());
  devices.push_back(make_tpu_device(sim::load_chip("edu-8x8")));
  std::string text;
  for (const auto& device : devices) {
    const auto answer = find_nonfinite(*device, program, inputs, state);
    const std::string here = answer ? answer->text : "";
    if (device != devices.front()) CHECK(here == text);
    text = here;
  }
  return text;
}

Array f32(const Shape& shape, std::vector<float> values) { return Array::from<float>(shape, values); }

}  // namespace

TEST_SUITE_BEGIN("nonfinite");

TEST_CASE("it names operation, shapes, count, order, phase, scope and line") {
  uint32_t line = 0;
  const std::string text = found(
      [&](Recorder& r) {
        const Tensor x = r.input("x", DType::f32, {4});
        const Scope scope("critic");
        line = __LINE__ + 1;
        r.output("y", sum(exp(log(x) * 2.0)));
      },
      {f32({4}, {1, 0, -1, 2})});
  CHECK(text.rfind("log f32[4] of f32[4] makes 2 of 4 elements NaN of finite operands (node ", 0) == 0);
  CHECK(text.find(", order 0, forward, scope critic, ") != std::string::npos);
  CHECK(text.find(concat("nonfinite.cpp:", line, ')')) != std::string::npos);
}

TEST_CASE("of a derivative: the order that makes it") {
  const std::string text = found(
      [](Recorder& r) {
        const Tensor x = r.input("x", DType::f32, {2}), y = sqrt(x);
        r.output("y", y), r.output("g", grad(sum(y), x));
      },
      {f32({2}, {1, 0})});
  CHECK(text.rfind("divide f32[2] of f32[2], f32[2] makes 1 of 2 elements infinite of finite operands", 0) == 0);
  CHECK(text.find(", order 1, backward") != std::string::npos);
}

TEST_CASE("infinite constants are meant, an input is named, a finite program has none; calls and state") {
  const auto masked = [](Recorder& r) {
    const Tensor x = r.input("x", DType::f32, {2});
    const Tensor mask = constant(r.tape(), f32({2}, {0, -std::numeric_limits<float>::infinity()}));
    r.output("y", exp(x + mask));
  };
  CHECK(found(masked, {f32({2}, {1, 2})}) == "");  // exp of minus infinity is 0, and the sum comes of what is infinite already
  CHECK(found(masked, {f32({2}, {1, static_cast<float>(infinity)})}).rfind("'x' comes with 1 of 2 elements infinite", 0) == 0);
  const auto lost = [](Recorder& r) {
    const Tensor x = r.input("x", DType::f32, {2});
    const Tensor mask = constant(r.tape(), f32({2}, {0, -std::numeric_limits<float>::infinity()}));
    r.output("y", (x + mask) * 0.0);
  };
  CHECK(found(lost, {f32({2}, {1, 2})}).rfind("multiply f32[2] of f32[2], f32[2] makes 1 of 2 elements NaN of constants that are not finite", 0) == 0);
  StateStore state;
  state.set("w", f32({}, {3}));
  const auto updates = [](Recorder& r) {
    const Tensor w = r.state("w", DType::f32, {});
    const Tensor y = call("inverse", [](const std::vector<Tensor>& t) { return std::vector{1.0 / (t[0] - 3.0)}; }, {w})[0];
    r.update("w", y);
  };
  CHECK(found(updates, {}, state).rfind("divide f32[] of f32[], f32[] makes 1 of 1 elements infinite", 0) == 0);
  CHECK(state.at("w").item() == 3);
}

TEST_SUITE_END();
