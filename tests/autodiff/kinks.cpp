// Derivatives at the points where there is a choice: kinks, ties, the norm of nothing.
#include <cmath>

#include "tests/autodiff/derivatives.hpp"

using namespace backbeat;
using namespace backbeat::test;

namespace {

// f and its first derivatives, elementwise.
std::vector<Array> derivatives(const std::function<Tensor(Tensor)>& f, const std::vector<double>& x, int order,
                               DType dtype = DType::f64) {
  const Array values = Array::from<double>({static_cast<int64_t>(x.size())}, x).converted(dtype);
  const Program p = record("derivatives", [&](Recorder& r) {
    Tensor input = r.input("x", dtype, values.shape()), y = f(input);
    r.output("0", y);
    for (int k = 1; k <= order; ++k) {
      y = grad(sum(y), input, {.cotangent = {}, .unused = Unused::zeros});
      r.output(std::to_string(k), y);
    }
  });
  return run(p, {values});
}

bool all_zero(const Array& a) {
  for (int64_t i = 0; i < a.size(); ++i)
    if (a.at(i) != 0) return false;
  return true;
}

}  // namespace

TEST_SUITE_BEGIN("kinks");

TEST_CASE("relu has derivative 0 at 0") {
  const auto d = derivatives(relu, {-1, 0, 2}, 3);
  CHECK(same(d[0], {0, 0, 2}));
  CHECK(same(d[1], {0, 0, 1}));
  CHECK(same(d[2], {0, 0, 0}));
  CHECK(same(d[3], {0, 0, 0}));
}

TEST_CASE("leaky_relu has its slope at 0") {
  const auto d = derivatives([](Tensor x) { return leaky_relu(x, 0.2); }, {-1, 0, 2}, 2);
  CHECK(same(d[0], {-0.2, 0, 2}));
  CHECK(same(d[1], {0.2, 0.2, 1}));
  CHECK(same(d[2], {0, 0, 0}));
}

TEST_CASE("abs has derivative 0 at 0, sign is 0 there") {
  const auto d = derivatives([](Tensor x) { return abs(x); }, {-1, 0, 2}, 2);
  CHECK(same(d[0], {1, 0, 2}));
  CHECK(same(d[1], {-1, 0, 1}));
  CHECK(same(d[2], {0, 0, 0}));
}

TEST_CASE("a tie of maximum or minimum gives each side half") {
  using Binary = Tensor (*)(Operand, Operand);
  for (Binary f : {Binary(maximum), Binary(minimum)}) {
    const Program p = record("tie", [&](Recorder& r) {
      Tensor a = r.input("a", DType::f64, {3}), b = r.input("b", DType::f64, {3}), y = f(a, b);
      for (Tensor g : grad(sum(y), std::vector{a, b})) r.output("g", g);
      r.output("y", y);
    });
    const auto out = run(p, {Array::from<double>({3}, {1, 2, -1}), Array::from<double>({3}, {2, 2, -2})});
    const bool larger = f == static_cast<Tensor (*)(Operand, Operand)>(maximum);
    CHECK(same(out[0], larger ? std::vector<double>{0, 0.5, 1} : std::vector<double>{1, 0.5, 0}));
    CHECK(same(out[1], larger ? std::vector<double>{1, 0.5, 0} : std::vector<double>{0, 0.5, 1}));
  }
}

TEST_CASE("a tie of reduce max or min is shared equally") {
  const Array x = Array::from<double>({2, 4}, {1, 3, 3, 2, -1, -1, -1, 0});
  const Program p = record("tie", [&](Recorder& r) {
    Tensor t = r.input("x", DType::f64, {2, 4});
    r.output("max", grad(sum(reduce(t, Reduction::max, {1})), t));
    r.output("min", grad(sum(reduce(t, Reduction::min, {1})), t));
  });
  const auto out = run(p, {x});
  CHECK(same(out[0], {0, 0.5, 0.5, 0, 0, 0, 0, 1}));
  CHECK(same(out[1], {1, 0, 0, 0, 1 / 3.0, 1 / 3.0, 1 / 3.0, 0}));
}

TEST_CASE("a power at exponent 0: the mixed derivative in either order; no elements under a product") {
  const Program p = record("power", [](Recorder& r) {
    const Tensor x = r.input("x", DType::f64, {}), e = r.input("e", DType::f64, {}), y = power(x, e);
    r.output("x then e", grad(grad(y, x), e)), r.output("e then x", grad(grad(y, e), x));
    const Tensor none = r.input("none", DType::f64, {0});
    r.output("empty", grad(reduce(none, Reduction::product, {0}), none));
  });
  const auto out = run(p, {Array::scalar(2.0), Array::scalar(0.0), Array::zeros(DType::f64, {0})});
  CHECK(out[0].item() == 0.5);
  CHECK(out[1].item() == 0.5);
  CHECK(out[2].shape() == Shape{0});
}

TEST_CASE("powers of 0 with a constant exponent") {
  const auto f = [](double exponent) { return [exponent](Tensor x) { return power(x, scalar_like(x, exponent)); }; };
  const auto constant = derivatives(f(0), {0, 2}, 2), identity = derivatives(f(1), {0, 2}, 3),
             cube = derivatives(f(3), {0, 2}, 4);
  CHECK(same(constant[0], {1, 1}));
  CHECK(same(constant[1], {0, 0}));
  CHECK(same(identity[1], {1, 1}));
  CHECK(same(identity[2], {0, 0}));
  CHECK(same(identity[3], {0, 0}));
  CHECK(same(cube[1], {0, 12}));
  CHECK(same(cube[2], {0, 12}));
  CHECK(same(cube[3], {6, 6}));
  CHECK(same(cube[4], {0, 0}));
}

TEST_CASE("x^5 at 2, every order: 32, 80, 160, 240, 240, 120, 0") {
  const auto d = derivatives([](Tensor x) { return power(x, scalar_like(x, 5)); }, {2}, 6);
  const double expected[] = {32, 80, 160, 240, 240, 120, 0};
  for (size_t k = 0; k <= 6; ++k) CHECK(same(d[k], {expected[k]}));
}

TEST_CASE("softplus is smooth where its branches meet, and finite far out") {
  for (DType dtype : {DType::f64, DType::f32}) {
    const double meets = dtype == DType::f64 ? 37 : 17;
    const auto d = derivatives(softplus, {-1000, meets, std::nextafter(meets, 100), 1000}, 3, dtype);
    CHECK(d[0].at(0) == 0);
    for (int64_t i = 1; i < 4; ++i) CHECK(d[1].at(i) == doctest::Approx(1).epsilon(1e-7));
    for (int64_t i = 0; i < 4; ++i) {
      CHECK(std::abs(d[2].at(i)) < 1e-7);
      CHECK(std::abs(d[3].at(i)) < 1e-7);
    }
    CHECK(d[0].at(3) == 1000);
    CHECK(d[1].at(0) == 0);
  }
}

TEST_CASE("the norm of zeros has derivative 0, to third order, beside one that is not zero") {
  for (DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    const Program p = record("norm", [&](Recorder& r) {
      Tensor x = r.input("x", dtype, {2, 3}), y = norm(x, {1});
      r.output("0", y);
      for (int k = 1; k <= 3; ++k) {
        Tensor g = grad(sum(y), x);
        r.output(std::to_string(k), g);
        y = g * exp(x * 0.5);  // the derivative of the next order in some direction
      }
    });
    const auto out = run(p, {Array::from<double>({2, 3}, {0, 0, 0, 3, 0, 4}).converted(dtype)});
    CHECK(same(out[0], {0, 5}));
    for (size_t k = 1; k <= 3; ++k)
      for (int64_t i = 0; i < 6; ++i) {
        CHECK(std::isfinite(out[k].at(i)));
        if (i < 3) CHECK(out[k].at(i) == 0);
      }
    CHECK(out[1].at(3) == doctest::Approx(0.6).epsilon(dtype == DType::bf16 ? 0.01 : 1e-6));
  }
}

TEST_CASE("a gradient penalty whose every input gradient is zero: penalty 1, parameter gradients 0") {
  const Program p = record("penalty", [&](Recorder& r) {
    Tensor x = r.input("x", DType::f64, {4, 3}), w = r.input("w", DType::f64, {3, 5}),
           v = r.input("v", DType::f64, {5, 1});
    Tensor slope = grad(sum(matmul(relu(matmul(x, w)), v)), x);
    Tensor penalty = mean(square(norm(slope, {1}) - 1));
    r.output("penalty", penalty);
    for (Tensor g : grad(penalty, std::vector{w, v})) r.output("g", g);
  });
  const auto out = run(p, {any({4, 3}), Array::zeros(DType::f64, {3, 5}), any({5, 1})});
  CHECK(out[0].item() == 1);
  CHECK(all_zero(out[1]));
  CHECK(all_zero(out[2]));
}

TEST_CASE("NaN goes through maximum, minimum, reduce and relu's argument") {
  const Program p = record("nan", [&](Recorder& r) {
    Tensor x = r.input("x", DType::f32, {2}), y = r.input("y", DType::f32, {2});
    r.output("max", maximum(x, y)), r.output("min", minimum(x, y));
    r.output("reduce max", reduce(x, Reduction::max, {0})), r.output("reduce min", reduce(x, Reduction::min, {0}));
    r.output("sum", sum(x));
  });
  const float nan = std::nanf("");
  for (const Array& a : run(p, {Array::from<float>({2}, {nan, nan}), Array::from<float>({2}, {1, -1})}))
    for (int64_t i = 0; i < a.size(); ++i) CHECK(std::isnan(a.at(i)));
  for (const Array& a : run(p, {Array::from<float>({2}, {1, nan}), Array::from<float>({2}, {nan, 0})}))
    for (int64_t i = 0; i < a.size(); ++i) CHECK(std::isnan(a.at(i)));
}

TEST_SUITE_END();
