#include "models/schedules.hpp"

#include <numbers>

#include "models/checkpoint.hpp"

namespace backbeat {

namespace {

template <class T>
std::string listed(const std::vector<T>& values) {
  std::string text;
  for (T value : values) text += concat(text.empty() ? "" : ",", exact(static_cast<double>(value)));
  return text;
}

// step / steps, at most 1.
Tensor progress(Tensor step, int64_t steps) {
  return minimum(step / static_cast<double>(steps), scalar_like(step, 1));
}

Tensor rate_of(double rate, Tensor step) { return scalar_like(step, rate); }

Tensor rate_of(const PiecewiseRate& s, Tensor step) {
  Tensor rate = scalar_like(step, s.rates[0]);
  for (size_t i = 0; i < s.boundaries.size(); ++i) {
    const Tensor reached = compare(step, scalar_like(step, static_cast<double>(s.boundaries[i])), Direction::ge);
    rate = select(reached, scalar_like(step, s.rates[i + 1]), rate);
  }
  return rate;
}

Tensor rate_of(const ExponentialRate& s, Tensor step) {
  Tensor exponent = step / static_cast<double>(s.period);
  if (s.staircase) exponent = floor(exponent);
  return s.rate * power(scalar_like(step, s.factor), exponent);
}

Tensor rate_of(const CosineRate& s, Tensor step) {
  const Tensor height = 0.5 + 0.5 * cosine(progress(step, s.steps) * std::numbers::pi);
  return s.rate * (s.floor + (1 - s.floor) * height);
}

Tensor rate_of(const LinearRate& s, Tensor step) { return s.rate * (1.0 - (1 - s.floor) * progress(step, s.steps)); }

std::string text_of(double rate) { return exact(rate); }
std::string text_of(const PiecewiseRate& s) { return concat("piecewise ", listed(s.rates), " from ", listed(s.boundaries)); }
std::string text_of(const ExponentialRate& s) {
  return concat(s.staircase ? "staircase " : "exponential ", exact(s.rate), " * ", exact(s.factor), " every ", s.period);
}
std::string text_of(const CosineRate& s) { return concat("cosine ", exact(s.rate), " over ", s.steps, " to ", exact(s.floor)); }
std::string text_of(const LinearRate& s) { return concat("linear ", exact(s.rate), " over ", s.steps, " to ", exact(s.floor)); }

void check_steps(const char* what, int64_t steps) {
  if (steps < 1) fail("schedule", what, " must be at least 1 step, got ", steps);
}

}  // namespace

Schedule::Schedule(double constant) : form(std::make_shared<Form>(constant)) {}
Schedule::Schedule(PiecewiseRate s) : form(std::make_shared<Form>(s)) {
  bool ascending = s.rates.size() == s.boundaries.size() + 1;
  for (size_t i = 1; i < s.boundaries.size(); ++i) ascending = ascending && s.boundaries[i] > s.boundaries[i - 1];
  if (!ascending)
    fail("schedule", "expected ascending boundaries and one rate more, got rates ", listed(s.rates), " from ",
         listed(s.boundaries));
}
Schedule::Schedule(ExponentialRate rate) : form(std::make_shared<Form>(rate)) {
  check_steps("the period", rate.period);
  if (!(rate.factor > 0)) fail("schedule", "the factor must be above 0, got ", rate.factor);
}
Schedule::Schedule(CosineRate rate) : form(std::make_shared<Form>(rate)) { check_steps("a decay", rate.steps); }
Schedule::Schedule(LinearRate rate) : form(std::make_shared<Form>(rate)) { check_steps("a decay", rate.steps); }

Schedule Schedule::warmed_up(int64_t steps) const {
  check_steps("a warm-up", steps);
  Schedule result = *this;
  result.warmup = steps;
  return result;
}

Tensor rate_at(const Schedule& schedule, Operand step) {
  const RecordedAt at(step.where);
  if (step.rank() != 0 || !is_float(step.dtype()) || is_half(step.dtype()))
    fail("schedule", "expected a step f32[] or f64[], got ", step);
  const Tensor rate = std::visit([&](const auto& form) { return rate_of(form, step); }, *schedule.form);
  return schedule.warmup == 0 ? rate : rate * progress(step + 1.0, schedule.warmup);
}

std::string describe(const Schedule& schedule) {
  const std::string text = std::visit([](const auto& form) { return text_of(form); }, *schedule.form);
  return schedule.warmup == 0 ? text : concat(text, " after ", schedule.warmup, " of warm-up");
}

}  // namespace backbeat
