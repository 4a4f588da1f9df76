// y = f(x): g is the cotangent of y; the answer is the cotangent of operand i. Tangents go the same way: see diagonal.
#include <numbers>

#include "autodiff/rules.hpp"

namespace backbeat::rules {

namespace {

Tensor zero(Tensor like) { return scalar_like(like, 0); }

// 1 where operand i is the chosen one, 1/2 at a tie: the subgradient that treats both sides alike.
Tensor chosen(const Applied& a, size_t i, Direction wins) {
  const Tensor mine = a.x(i), other = a.x(1 - i);
  const Tensor tie = select(compare(mine, other, Direction::eq), scalar_like(mine, 0.5), zero(mine));
  return select(compare(mine, other, wins), scalar_like(mine, 1), tie);
}

Tensor power_rule(const Applied& a, size_t i, Tensor g) {
  const Tensor base = a.x(0), exponent = a.x(1);
  if (i == 0) {
    // A zero exponent has derivative 0 even at base 0, where the general formula gives 0 * inf. A constant exponent reaches 0
    // in the high orders of x^n, and there small bases would overflow too; one that varies needs the formula for its own sake.
    Tensor safe = compare(exponent, zero(exponent), Direction::eq);
    if (!exponent.node().from_constants) safe = bitwise_and(safe, compare(base, zero(base), Direction::eq));
    const Tensor lowered = select(safe, scalar_like(exponent, 1), exponent - 1.0);
    return g * exponent * power(base, lowered);
  }
  const Tensor positive = base > 0.0;
  return g * a.y * select(positive, log(select(positive, base, scalar_like(base, 1))), zero(base));
}

Tensor remainder_rule(const Applied& a, size_t i, Tensor g) {
  if (i == 0) return g;
  const Tensor quotient = a.x(0) / a.x(1);
  return -(g * (sign(quotient) * floor(abs(quotient))));
}

// 1 from bound to bound, the bounds included; outside, the bound that holds has it.
Tensor clamp_rule(const Applied& a, size_t i, Tensor g) {
  const Tensor low = a.x(0), x = a.x(1), high = a.x(2);
  const Tensor below = compare(x, low, Direction::lt), above = compare(x, high, Direction::gt);
  const Tensor apart = compare(low, high, Direction::lt);  // else the answer is `high` wherever x lies
  const Tensor chosen = i == 0   ? bitwise_and(below, apart)
                        : i == 1 ? logical_not(bitwise_or(below, above))
                                 : bitwise_or(above, bitwise_and(below, logical_not(apart)));
  return select(chosen, g, zero(g));
}

Tensor select_tangent(const Applied& a, std::span<const Tensor> t) {
  const auto or_zero = [&](size_t i) { return t[i].defined() ? t[i] : zero(a.y); };
  return select(a.x(0), or_zero(1), or_zero(2));
}

constexpr Row rows[] = {
    {Op::negate, [](const Applied&, size_t, Tensor g) { return -g; }, diagonal},
    {Op::abs, [](const Applied& a, size_t, Tensor g) { return g * sign(a.x(0)); }, diagonal},
    {Op::exp, [](const Applied& a, size_t, Tensor g) { return g * a.y; }, diagonal},
    {Op::expm1, [](const Applied& a, size_t, Tensor g) { return g * (a.y + 1.0); }, diagonal},
    {Op::log, [](const Applied& a, size_t, Tensor g) { return g / a.x(0); }, diagonal},
    {Op::log1p, [](const Applied& a, size_t, Tensor g) { return g / (a.x(0) + 1.0); }, diagonal},
    {Op::sqrt, [](const Applied& a, size_t, Tensor g) { return g * 0.5 / a.y; }, diagonal},
    {Op::rsqrt, [](const Applied& a, size_t, Tensor g) { return g * -0.5 * a.y / a.x(0); }, diagonal},
    {Op::tanh, [](const Applied& a, size_t, Tensor g) { return g * (1.0 - a.y * a.y); }, diagonal},
    {Op::logistic, [](const Applied& a, size_t, Tensor g) { return g * (a.y * (1.0 - a.y)); }, diagonal},
    {Op::erf,
     [](const Applied& a, size_t, Tensor g) { return g * (exp(-square(a.x(0))) * (2 * std::numbers::inv_sqrtpi)); }, diagonal},
    {Op::sine, [](const Applied& a, size_t, Tensor g) { return g * cosine(a.x(0)); }, diagonal},
    {Op::cosine, [](const Applied& a, size_t, Tensor g) { return -(g * sine(a.x(0))); }, diagonal},
    {Op::convert, [](const Applied& a, size_t, Tensor g) { return convert(g, a.x(0).dtype()); },
     [](const Applied& a, std::span<const Tensor> t) { return convert(t[0], a.y.dtype()); }},
    {Op::reduce_precision,
     [](const Applied& a, size_t, Tensor g) {
       const FloatFormat& format = a.attributes<FloatFormat>();
       return reduce_precision(g, format.exponent_bits, format.mantissa_bits);
     },
     diagonal},
    {Op::add, [](const Applied&, size_t, Tensor g) { return g; }, diagonal},
    {Op::subtract, [](const Applied&, size_t i, Tensor g) { return i == 0 ? g : -g; }, diagonal},
    {Op::multiply, [](const Applied& a, size_t i, Tensor g) { return g * a.x(1 - i); }, diagonal},
    {Op::divide, [](const Applied& a, size_t i, Tensor g) { return i == 0 ? g / a.x(1) : -(g * a.y / a.x(1)); }, diagonal},
    {Op::remainder, remainder_rule, diagonal},
    {Op::maximum, [](const Applied& a, size_t i, Tensor g) { return g * chosen(a, i, Direction::gt); }, diagonal},
    {Op::minimum, [](const Applied& a, size_t i, Tensor g) { return g * chosen(a, i, Direction::lt); }, diagonal},
    {Op::power, power_rule, diagonal},
    {Op::select,
     [](const Applied& a, size_t i, Tensor g) {
       return i == 1 ? select(a.x(0), g, zero(g)) : select(a.x(0), zero(g), g);
     },
     select_tangent},
    {Op::clamp, clamp_rule, diagonal},
};

}  // namespace

std::span<const Row> elementwise() { return rows; }

}  // namespace backbeat::rules
