// Fusion groups: which are made where operands meet again, that they can run in their order, and what they cost to find.
#include "engine/fusion.hpp"

#include <algorithm>
#include <ctime>
#include <functional>
#include <random>

#include "doctest/doctest.h"
#include "engine/ops.hpp"

using namespace backbeat;

namespace {

Program program_of(const std::function<Tensor(Tensor x, Tensor w)>& step) {
  return record("step", [&](Recorder& r) {
    const Tensor x = r.input("x", DType::f32, {4, 4}), w = r.input("w", DType::f32, {4, 4});
    r.output("y", step(x, w));
  });
}

Tensor turned(Tensor x) { return transpose(x, {1, 0}); }

// A node of a group of its own and one that may join others, so often that what lies between the ends is long.
Tensor detour(Tensor x, int times) {
  for (int i = 0; i < times; ++i) x = tanh(turned(x));
  return x;
}

Tensor random_step(Tensor x, Tensor w, uint32_t seed) {
  std::mt19937 draw(seed);
  std::vector<Tensor> all{x, w};
  const size_t reach = seed % 2 ? 12 : 1000;
  const auto some = [&] { return all[all.size() - 1 - draw() % std::min(all.size(), reach)]; };
  while (all.size() < 300) {
    const Tensor a = some(), b = some();
    switch (draw() % 9) {
      case 0: all.push_back(matmul(a, b)); break;
      case 1: all.push_back(turned(a)); break;
      case 2: all.push_back(a * broadcast_in_dim(reduce_sum(b, {static_cast<int64_t>(draw() % 2)}), {4, 4}, {1})); break;
      case 3: all.push_back(tanh(a)); break;
      default: all.push_back(a + b);
    }
  }
  return concatenate(all, 0);
}

// A recurrence and what its derivative computes: far-apart groups that read each other's nodes.
Program recurrence(int steps) {
  return program_of([&](Tensor x, Tensor w) {
    std::vector<Tensor> h{x};
    for (int i = 0; i < steps; ++i) h.push_back(tanh(matmul(h.back(), w)) * 0.5 + h.back());
    Tensor g = h.back(), total = x;
    for (int i = steps; i > 0; --i) {
      g = matmul(g * (1.0 - h[static_cast<size_t>(i)] * h[static_cast<size_t>(i)]), w);
      total = total + matmul(h[static_cast<size_t>(i) - 1], g);
    }
    return total;
  });
}

}  // namespace

TEST_CASE("fusion: what may share a group where operands meet again") {
  struct Row {
    const char* what;
    size_t groups;
    std::function<Tensor(Tensor x, Tensor w)> step;
  };
  const std::vector<Row> rows{
      {"two chains that meet are one", 1, [](Tensor x, Tensor w) { return exp(x) + tanh(w); }},
      {"a diamond of elementwise nodes", 1, [](Tensor x, Tensor) { const Tensor e = exp(x); return e * tanh(e) + e; }},
      {"softmax: maximum; exponential and sum; quotient", 3, [](Tensor x, Tensor) {
         const auto wide = [](Tensor t) { return broadcast_in_dim(t, {4, 4}, {0}); };
         const Tensor e = exp(x - wide(reduce(x, Reduction::max, {1})));
         return e / wide(reduce_sum(e, {1}));
       }},
      {"not with what the other side waits for", 3, [](Tensor x, Tensor) { const Tensor e = exp(x); return e + turned(e); }},
      {"with the later side only", 3, [](Tensor x, Tensor) { const Tensor e = exp(x); return e + tanh(turned(e)); }},
      {"a later reader joins early, its product takes the rest", 2, [](Tensor x, Tensor w) {
         const Tensor e = exp(x), product = matmul(e, w);
         return product * (1.0 - e * e);
       }},
      {"chains side by side of one length", 401, [](Tensor x, Tensor w) { return detour(exp(x), 100) + detour(exp(w), 100); }},
      {"a chain that waits for nothing goes to the later end", 200, [](Tensor x, Tensor w) { return exp(w) + detour(x, 100); }},
      {"the ends of a long way stay apart", 201, [](Tensor x, Tensor) { const Tensor e = exp(x); return e + detour(e, 100); }},
      {"and those of a way through a group that joined its end later", 203, [](Tensor x, Tensor w) {
         const Tensor early = exp(x), side = turned(early), e = exp(w);
         const Tensor held = early * detour(e, 100);
         return tanh(side) * e + held;
       }},
  };
  for (const Row& row : rows) {
    INFO(std::string(row.what));
    CHECK(fusion_groups(program_of(row.step)).groups.size() == row.groups);
  }
}

TEST_CASE("fusion: every node once, after what it reads") {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const Program program = program_of([&](Tensor x, Tensor w) { return random_step(x, w, seed); });
    const Tape& tape = program.tape;
    const Fusion fusion = fusion_groups(program);
    std::vector<bool> computed(static_cast<size_t>(tape.size()), false);
    size_t nodes = 0;
    for (const FusionGroup& group : fusion.groups) {
      for (NodeId id : group.operands) CHECK((computed[static_cast<size_t>(id)] || tape[id].operands.empty()));
      for (NodeId id : group.nodes()) {
        CHECK_FALSE(computed[static_cast<size_t>(id)]);
        computed[static_cast<size_t>(id)] = true;
        ++nodes;
      }
    }
    size_t expected = 0;
    for (NodeId id = 0; id < tape.size(); ++id)
      expected += fusion.live[static_cast<size_t>(id)] && !tape[id].operands.empty() && !is_folded(fusion, id);
    CHECK(nodes == expected);
  }
}

TEST_CASE("fusion: eight times the program takes about eight times the time") {
  const auto seconds = [](const Program& program) {
    double best = 1e9;
    for (int i = 0; i < 5; ++i) {
      const std::clock_t start = std::clock();
      const Fusion fusion = fusion_groups(program);
      best = std::min(best, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
    }
    return best;
  };
  const double one = seconds(recurrence(1000)), eight = seconds(recurrence(8000));
  CHECK(eight <= 24 * one);  // linear: 8, and what caches cost; quadratic: 64
}
