// y = f(x): g is the cotangent of y; the answer is the cotangent of operand i.
#include "autodiff/rules.hpp"

namespace backbeat::rules {

namespace {

Tensor zero(Tensor like) { return scalar_like(like, 0); }

// 1 where operand i is the chosen one, 1/2 at a tie: the subgradient that treats both sides alike.
Tensor chosen(const Call& c, size_t i, Direction wins) {
  const Tensor mine = c.x(i), other = c.x(1 - i);
  const Tensor tie = select(compare(mine, other, Direction::eq), scalar_like(mine, 0.5), zero(mine));
  return select(compare(mine, other, wins), scalar_like(mine, 1), tie);
}

Tensor power_rule(const Call& c, size_t i, Tensor g) {
  const Tensor base = c.x(0), exponent = c.x(1);
  if (i == 0) {
    // A zero exponent has derivative 0 even at base 0, where the general formula gives 0 * inf.
    const Tensor zero_exponent = compare(exponent, zero(exponent), Direction::eq);
    const Tensor lowered = select(zero_exponent, scalar_like(exponent, 1), exponent - 1.0);
    return g * exponent * power(base, lowered);
  }
  const Tensor positive = base > 0.0;
  return g * c.y * select(positive, log(select(positive, base, scalar_like(base, 1))), zero(base));
}

constexpr Row rows[] = {
    {Op::negate, [](const Call&, size_t, Tensor g) { return -g; }},
    {Op::abs, [](const Call& c, size_t, Tensor g) { return g * sign(c.x(0)); }},
    {Op::exp, [](const Call& c, size_t, Tensor g) { return g * c.y; }},
    {Op::log, [](const Call& c, size_t, Tensor g) { return g / c.x(0); }},
    {Op::sqrt, [](const Call& c, size_t, Tensor g) { return g * 0.5 / c.y; }},
    {Op::rsqrt, [](const Call& c, size_t, Tensor g) { return g * -0.5 * c.y / c.x(0); }},
    {Op::tanh, [](const Call& c, size_t, Tensor g) { return g * (1.0 - c.y * c.y); }},
    {Op::logistic, [](const Call& c, size_t, Tensor g) { return g * (c.y * (1.0 - c.y)); }},
    {Op::sine, [](const Call& c, size_t, Tensor g) { return g * cosine(c.x(0)); }},
    {Op::cosine, [](const Call& c, size_t, Tensor g) { return -(g * sine(c.x(0))); }},
    {Op::convert, [](const Call& c, size_t, Tensor g) { return convert(g, c.x(0).dtype()); }},
    {Op::add, [](const Call&, size_t, Tensor g) { return g; }},
    {Op::subtract, [](const Call&, size_t i, Tensor g) { return i == 0 ? g : -g; }},
    {Op::multiply, [](const Call& c, size_t i, Tensor g) { return g * c.x(1 - i); }},
    {Op::divide, [](const Call& c, size_t i, Tensor g) { return i == 0 ? g / c.x(1) : -(g * c.y / c.x(1)); }},
    {Op::maximum, [](const Call& c, size_t i, Tensor g) { return g * chosen(c, i, Direction::gt); }},
    {Op::minimum, [](const Call& c, size_t i, Tensor g) { return g * chosen(c, i, Direction::lt); }},
    {Op::power, power_rule},
    {Op::select,
     [](const Call& c, size_t i, Tensor g) {
       return i == 1 ? select(c.x(0), g, zero(g)) : select(c.x(0), zero(g), g);
     }},
};

}  // namespace

std::span<const Row> elementwise() { return rows; }

}  // namespace backbeat::rules
