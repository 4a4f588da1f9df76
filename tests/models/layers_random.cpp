// Dropout, keys and initial values.
#include <algorithm>

#include "models/random.hpp"
#include "tests/models/figures.hpp"

using namespace backbeat;
using namespace backbeat::test;

namespace {

// Dropout of ones [n, 50], of which the first is sample `first` of the batch.
Array dropped(int64_t n, uint32_t first, uint32_t step, const NamedDevice& device, double rate = 0.3, uint64_t seed = 9) {
  const Program p = record("dropout", [&](Recorder& r) {
    const Tensor seeds = r.input("seed", DType::u32, {2}), at = r.input("step", DType::u32, {});
    const Tensor from = r.input("first", DType::u32, {});
    r.output("y", dropout(r.input("x", DType::f32, {n, 50}), rate, random_key(seeds, 7, at, from)));
  });
  return run(p, {seed_words(seed), Array::scalar(step), Array::scalar(first), Array::full(DType::f32, {n, 50}, 1)}, device)[0];
}

Array rows(const Array& a, int64_t first, int64_t count) {
  Array part(a.dtype(), {count, a.shape()[1]});
  for (int64_t i = 0; i < part.size(); ++i) part.set(i, a.at(first * a.shape()[1] + i));
  return part;
}

}  // namespace

TEST_CASE("dropout: a share of zeros, the others grown, the same on every device") {
  const Array y = dropped(400, 0, 3, all_devices()[0]);
  int64_t zeros = 0;
  for (int64_t i = 0; i < y.size(); ++i) {
    if (y.at(i) == 0) ++zeros;
    else CHECK(y.at(i) == static_cast<double>(static_cast<float>(1 / (1 - 0.3))));
  }
  // 20000 draws: the share's deviation is 0.0032.
  CHECK(std::abs(static_cast<double>(zeros) / 20000 - 0.3) < 5 * 0.0032);
  for (const NamedDevice& device : all_devices()) CHECK(bitwise_equal(y, dropped(400, 0, 3, device)));
}

TEST_CASE("dropout: a mask is that of its samples, however the batch is cut, and of its step and seed") {
  for (const NamedDevice& device : all_devices()) {
    const Array whole = dropped(12, 0, 3, device);
    for (int64_t cut : {1, 5, 8}) {
      CHECK(bitwise_equal(rows(whole, 0, cut), dropped(cut, 0, 3, device)));
      CHECK(bitwise_equal(rows(whole, cut, 12 - cut), dropped(12 - cut, static_cast<uint32_t>(cut), 3, device)));
    }
    CHECK(!bitwise_equal(whole, dropped(12, 0, 4, device)));
    CHECK(!bitwise_equal(whole, dropped(12, 0, 3, device, 0.3, 10)));
    CHECK(!bitwise_equal(whole, dropped(12, 0, 3, device, 0.3, 9 + (uint64_t{1} << 32))));
  }
}

TEST_CASE("dropout: derivatives of every order see the mask of the forward pass") {
  third_order(
      [](const Tensors& t) {
        Tape& tape = t[0].tape();
        const Tensor key = random_key(constant(tape, seed_words(1)), 2, full(tape, DType::u32, {}, 3));
        return exp(dropout(sine(t[0]), 0.4, key));
      },
      {any({4, 5})});
  record("rates", [](Recorder& r) {
    const Tensor x = r.input("x", DType::f32, {2, 2}), key = r.input("key", DType::u32, {5});
    CHECK(dropout(x, 0, key) == x);
    CHECK_THROWS_WITH(dropout(x, 1, key), doctest::Contains("[dropout] the rate must be at least 0 and below 1, got 1"));
  });
}

TEST_CASE("a counter in the state moves on by one a run") {
  const Program p = record("count", [](Recorder& r) { r.output("n", counted(r, "n")); });
  StateStore state;
  state.set("n", Array::scalar<uint32_t>(4));
  const auto executable = all_devices()[0].make()->compile(p);
  CHECK(executable->run({}, state)[0].item() == 4);
  CHECK(executable->run({}, state)[0].item() == 5);
  CHECK(state.at("n").item() == 6);
}

TEST_CASE("initial values: mean, deviation and range of each law") {
  struct Row {
    const char* name;
    Initial initial;
    double deviation, limit;
  };
  const double d = 0.3;
  const Row law[] = {{"uniform", initial::uniform(d), d, d * std::sqrt(3.0)},
                     {"normal", initial::normal(d), d, 6 * d},
                     {"truncated normal", initial::truncated_normal(d), 0.87962566103423978 * d, 2 * d}};
  for (const Row& row : law) {
    CAPTURE(std::string(row.name));
    StateStore state;
    const std::vector<ParameterSpec> specs{{"w", {200, 200}, row.initial}};
    initialize(state, "net", specs, 1);
    const Array& w = state.at("net/w");
    double sum = 0, squares = 0, largest = 0;
    for (int64_t i = 0; i < w.size(); ++i)
      sum += w.at(i), squares += w.at(i) * w.at(i), largest = std::max(largest, std::abs(w.at(i)));
    const double n = static_cast<double>(w.size());
    CHECK(std::abs(sum / n) < 5 * row.deviation / std::sqrt(n));
    CHECK(std::sqrt(squares / n) == doctest::Approx(row.deviation).epsilon(5 / std::sqrt(2 * n)));
    CHECK(largest <= row.limit * (1 + 1e-6));
    CHECK(largest > 0.98 * std::min(row.limit, 3.5 * d));
  }
}

TEST_CASE("initial values: a function of seed and name; a wider dtype has the same, rounded later") {
  const std::vector<ParameterSpec> one{{"a", {50}, initial::normal(1)}};
  std::vector<ParameterSpec> two{{"first", {3}, initial::constant(0.5)}};
  append(two, one);
  StateStore x, y, z, wide;
  initialize(x, "net", one, 1), initialize(y, "net", two, 1), initialize(z, "net", one, 2);
  initialize(wide, "net", one, 1, DType::f64);
  CHECK(bitwise_equal(x.at("net/a"), y.at("net/a")));
  CHECK(!bitwise_equal(x.at("net/a"), z.at("net/a")));
  CHECK(bitwise_equal(x.at("net/a"), wide.at("net/a").converted(DType::f32)));
  CHECK(same(y.at("net/first"), {0.5, 0.5, 0.5}));
  CHECK(he_deviation(8) == 0.5);
  CHECK(lecun_deviation(4) == 0.5);
  CHECK(glorot_deviation(3, 5) == 0.5);
  CHECK(he_glorot_deviation(7, 9) == 0.5);
}
