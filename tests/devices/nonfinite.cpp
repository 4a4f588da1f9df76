// find_nonfinite names the operation to blame.
#include <doctest/doctest.h>

#include <cmath>

#include "devices/nonfinite.hpp"
#include "engine/composite.hpp"
#include "engine/ops.hpp"
#include "tests/devices.hpp"

using namespace backbeat;

namespace {

using Tensors = std::vector<Tensor>;

std::string blamed(const std::function<Tensor(Tensor)>& f, const std::vector<float>& x, Op op) {
  std::string text;
  const Program program = record("nonfinite", [&](Recorder& r) {
    const Scope scope("layer");
    r.output("y", f(r.input("x", DType::f32, {2})));
  });
  for (const test::NamedDevice& device : test::all_devices()) {
    const Array in = Array::from<float>({2}, x);
    const auto found = find_nonfinite(*device.make(), program, std::span(&in, 1), {});
    text = found ? found->text : "";
    if (found) CHECK(inline_calls(program).tape[found->node].op == op);
  }
  return text;
}

}  // namespace

TEST_CASE("find_nonfinite names the first operation that makes NaN or infinity of finite operands") {
  const auto f = [](Tensor x) { return tanh(log(x) * 2.0) + 1.0; };
  CHECK(blamed(f, {1, 2}, Op::log).empty());
  CHECK(blamed(f, {0, 2}, Op::log).starts_with("log f32[2] of f32[2] makes 1 of 2 elements infinite of finite operands"));
  CHECK(blamed(f, {-1, -2}, Op::log).starts_with("log f32[2] of f32[2] makes 2 of 2 elements NaN of finite operands"));
  CHECK(blamed(f, {NAN, 2}, Op::input) == "'x' comes with 1 of 2 elements NaN");
}

TEST_CASE("find_nonfinite looks into calls, where the node and the scope are those of the inlined program") {
  const auto body = [](const Tensors& t) {
    const Scope scope("cell");
    return Tensors{sqrt(tanh(exp(t[0])) - 2.0)};
  };
  CHECK(blamed([&](Tensor x) { return call("cell", body, {x})[0]; }, {1, 2}, Op::sqrt).find("scope layer/cell") != std::string::npos);
}

TEST_CASE("find_nonfinite does not blame an infinite mask, but what makes NaN of it") {
  const auto masked = [](Tensor x) { return select(x > 5.0, full(x.tape(), DType::f32, {2}, -INFINITY), x); };
  CHECK(blamed([&](Tensor x) { return exp(masked(x)); }, {1, 9}, Op::select).empty());
  CHECK(blamed([&](Tensor x) { return log(exp(masked(x)) - 3.0); }, {1, 9}, Op::log).starts_with("log f32[2]"));
  CHECK(blamed([&](Tensor x) { return masked(x) * 0.0; }, {1, 9}, Op::multiply)
            .starts_with("multiply f32[2] of f32[2], f32[2] makes 1 of 2 elements NaN of infinite operands"));
}
