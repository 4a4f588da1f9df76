// Dense layers, embeddings, attention and recurrent cells.
#include <set>

#include "tests/models/figures.hpp"

using namespace backbeat;
using namespace backbeat::test;

namespace {

using Step = LstmState (*)(const Parameters&, const std::string&, Tensor, const LstmState&, const Lstm&);

// A cell along x [length, n, ...]: all h, and the last c.
Build unrolled(Step step, const Lstm& options) {
  return [=](const Named& in) {
    const Parameters p = parameters(in);
    const Cell cell = [&](const Tensors& state, Tensor x) {
      const LstmState next = step(p, "l", x, {state[0], state[1]}, options);
      return Tensors{next.h, next.c};
    };
    Tensors h;
    Tensor c;
    for (const Tensors& state : unroll("cell", cell, {in.at("h"), in.at("c")}, unstack(in.at("x"), 0)))
      h.push_back(state[0]), c = state[1];
    return Named{{"y", stack(h, 0)}, {"c", c}};
  };
}

}  // namespace

TEST_CASE("layers: dense and embedding") {
  check_layers({
      {"dense", layer([](const Parameters& p, Tensor x) { return dense(p, "l", x); })},
      {"embedding", [](const Named& in) { return Named{{"y", embedding(parameters(in), "l", in.at("i"))}}; }},
  });
}

TEST_CASE("layers: multi-head attention") {
  check_layers({
      {"multi_head_attention",
       [](const Named& in) {
         return Named{{"y", multi_head_attention(parameters(in), "l", in.at("q"), in.at("k"), in.at("v"), {.heads = 2})}};
       }},
      {"multi_head_attention, causal", layer([](const Parameters& p, Tensor x) {
         return multi_head_attention(p, "l", x, x, x, {.heads = 2}, causal_mask(x.tape(), x.dim(1)));
       })},
  });
}

TEST_CASE("layers: LSTM cells along a sequence") {
  check_layers({
      {"lstm", unrolled(lstm, {})},
      {"lstm, peepholes", unrolled(lstm, {.forget_bias = 1})},
      {"conv_lstm, peepholes", unrolled(conv_lstm, {})},
      {"conv_lstm, hard gates", unrolled(conv_lstm, {.hard_gates = true})},
  });
}

TEST_CASE("layers: a sequence is calls of one cell, and computes what the cell in its place computes") {
  const std::vector<ParameterSpec> specs =
      lstm_parameters("l", 3, 2, true, initial::uniform(glorot_deviation(3, 8)), initial::normal(lecun_deviation(2)));
  const auto step = [&](bool called) {
    return record("sequence", [&](Recorder& r) {
      const Parameters p(r, "net", specs);
      const Tensor x = r.input("x", DType::f32, {4, 2, 3}), zero = full(r.tape(), DType::f32, {2, 2}, 0);
      const Cell cell = [&](const Tensors& state, Tensor input) {
        const LstmState next = lstm(p, "l", input, {state[0], state[1]}, {});
        return Tensors{next.h, next.c};
      };
      Tensors state{zero, zero};
      if (called) {
        state = unroll("lstm", cell, state, unstack(x, 0)).back();
      } else {
        for (Tensor input : unstack(x, 0)) state = cell(state, input);
      }
      r.output("h", state[0]);
      const Tensors slopes = grad(sum(square(state[0])), p.tensors());
      for (size_t i = 0; i < slopes.size(); ++i) r.output(concat("slope", i), slopes[i]);
    });
  };
  const Program calls = step(true), plain = step(false);

  std::set<const Composite*> composites;
  int results = 0;
  for (NodeId id = 0; id < calls.tape.size(); ++id)
    if (const CallDims* cell = std::get_if<CallDims>(&calls.tape[id].attributes); cell && cell->composite->name == "lstm")
      composites.insert(cell->composite.get()), ++results;
  CHECK(composites.size() == 1);
  CHECK(results == 4 * 2);  // h and c of each step
  std::ostringstream text;
  text << calls.tape;
  CHECK(text.str().find("lstm") != std::string::npos);

  const Array x = any({4, 2, 3}).converted(DType::f32);
  for (const NamedDevice& device : all_devices()) {
    StateStore state;
    initialize(state, "net", specs, 5);
    for (const char* name : {"input", "forget", "output"})
      state.set(concat("net/l/peephole_", name), any({2}, static_cast<uint32_t>(name[0])).converted(DType::f32));
    const auto one = device.make()->compile(calls)->run(std::vector<Array>{x}, state);
    const auto other = device.make()->compile(plain)->run(std::vector<Array>{x}, state);
    for (size_t i = 0; i < one.size(); ++i) CHECK(difference(one[i], other[i], {1e-6, 0, 1e-6}) == "");
    CHECK(bitwise_equal(one[0], other[0]));
  }
}

TEST_CASE("layers: a repeated body tells operands apart that were one tensor at its first use") {
  const Program p = record("repeated", [](Recorder& r) {
    const Tensor x = r.input("x", DType::f64, {2}), y = r.input("y", DType::f64, {2}), bias = r.input("bias", DType::f64, {2});
    Repeated f("f", [&](const Tensors& t) { return Tensors{t[0] - 2.0 * t[1] + bias}; });
    r.output("first", f({x, x})[0]);
    r.output("second", f({x, y})[0]);
    r.output("slope", grad(sum(f({y, x})[0]), x));
  });
  for (const NamedDevice& device : all_devices()) {
    const auto pair = [](double a, double b) { return Array::from<double>({2}, {a, b}); };
    const auto out = run(p, {pair(1, 2), pair(5, 7), pair(10, 20)}, device);
    CHECK(same(out[0], {9, 18}));
    CHECK(same(out[1], {1, 8}));
    CHECK(same(out[2], {-2, -2}));
  }
}

TEST_CASE("layers: stack is the inverse of unstack") {
  const Program p = record("stack", [](Recorder& r) {
    const Tensor x = r.input("x", DType::f32, {2, 3, 4});
    for (int64_t axis : {0, 1, 2}) r.output(concat("y", axis), stack(unstack(x, axis), axis));
  });
  const Array x = any({2, 3, 4}).converted(DType::f32);
  for (const Array& y : run(p, {x})) CHECK(bitwise_equal(x, y));
}

TEST_CASE("layers: what sequences refuse") {
  record("refused", [](Recorder& r) {
    const std::vector<ParameterSpec> specs = lstm_parameters("l", 3, 2, false, {}, {});
    const Parameters p(r, "net", specs);
    const Tensor x = r.input("x", DType::f32, {5, 3}), h = r.input("h", DType::f32, {5, 2}), c = r.input("c", DType::f32, {2});
    CHECK_THROWS_WITH(lstm(p, "l", x, {h, c}), doctest::Contains("[lstm] l: expected h and c of shape [5,2], got f32[5,2] and f32[2]"));
    const Cell grows = [](const Tensors& state, Tensor) { return Tensors{state[0], state[0]}; };
    CHECK_THROWS_WITH(unroll("grows", grows, {h}, {x}), doctest::Contains("[unroll] grows: a state of 1 tensors became 2"));
    CHECK_THROWS_WITH(unstack(x, 2), doctest::Contains("[unstack] axis 2 is outside of f32[5,3]"));
    CHECK_THROWS_WITH(stack({}, 0), doctest::Contains("[stack]"));
    CHECK_THROWS_WITH(dense(p, "l", x), doctest::Contains("net has no parameter 'l/weight'"));
    const Parameters q("net", {"l/weight"}, {r.input("w", DType::f32, {4, 2})});
    CHECK_THROWS_WITH(dense(q, "l", x), doctest::Contains("[dense] net/l: f32[5,3] has no last dimension of the rows of f32[4,2]"));
    CHECK_THROWS_WITH(multi_head_attention(q, "l", x, x, x, {}), doctest::Contains("[attention] expected query [n, q, width]"));
  });
}
