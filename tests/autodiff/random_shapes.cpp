// Every differentiable primitive over random shapes: to third order, against differences of the next lower order, in
// reverse, forward and mixed mode.
#include "tests/autodiff/derivatives.hpp"
#include "tests/samples.hpp"

using namespace backbeat;
using namespace backbeat::test;

TEST_SUITE_BEGIN("derivatives over random shapes");

TEST_CASE("every differentiable primitive, to third order") {
  constexpr uint32_t seeds = 6;
  for (const PrimitiveSamples& row : all_samples()) {
    if (!is_differentiable(row.op)) continue;
    CAPTURE(row.label);
    for (uint32_t seed = 1; seed <= seeds; ++seed) {
      CAPTURE(seed);
      Draw draw(seed);
      const Sample sample = row.draw(draw);
      third_order(sample.record, sample.operands);
      // Linear operations have derivatives of order 2 and 3 only between two curved functions.
      third_order(
          [&](const Tensors& t) {
            Tensors curved = t;
            curved.back() = t.back() + 0.05 * sine(t.back());
            return sine(sample.record(curved));
          },
          sample.operands);
    }
  }
}

TEST_CASE("there is a sample of every primitive but the leaves") {
  for (int i = 0; i < static_cast<int>(Op::count_); ++i) {
    const Op op = static_cast<Op>(i);
    const bool leaf = op == Op::input || op == Op::constant || op == Op::iota || op == Op::replica_id || op == Op::rng_bit_generator;
    bool found = false;
    for (const PrimitiveSamples& row : all_samples()) found = found || row.op == op;
    CAPTURE(name_of(op));
    CHECK(found != leaf);
  }
}

TEST_SUITE_END();
