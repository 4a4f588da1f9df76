// check_grads: every derivative up to an order, against central differences of the next lower one, in f64.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/ops.hpp"
#include "engine/program.hpp"

namespace backbeat {

// Runs a Program that has no state; tests pass a device.
using Evaluate = std::function<std::vector<Array>(const Program& program, std::span<const Array> inputs)>;

// One row an order: a derivative of that order in one random direction.
struct GradCheck {
  int order = 0;
  double analytic = 0, numeric = 0;
  double relative_error = 0;           // of the two
  double forward = 0, mixed = 0;       // by jvp alone; by jvp of the reverse mode
};

// With z the inputs of f and a random cotangent w: s0 = sum(w * f), s1 = <v1, grad s0>, s2 = <v2, grad s1>, ..., each a
// function of z. The check of order k compares s_k with the fourth-order central difference of s_(k-1) in the direction
// v_k; and with t_k = jvp of t_(k-1) along v_k (t_0 = s_0), the same derivative in forward mode, and the jvp of s_(k-1), the
// two modes mixed, both to 1e-12 of the largest that the sum could be. Throws an Error that prints every row if one is off
// by more than the tolerance. The directions are the same in every run. A call that states a vjp of its own and no jvp can
// only be checked with Modes::reverse. `evaluate` is, for example,
//   [](const Program& p, std::span<const Array> in) { StateStore s; return make_reference_device()->compile(p)->run(in, s); }
enum class Modes : uint8_t { both, reverse };
std::vector<GradCheck> check_grads(const std::function<Tensor(const std::vector<Tensor>&)>& f,
                                   const std::vector<Array>& values, int order, const Evaluate& evaluate,
                                   double tolerance = 1e-6, Modes modes = Modes::both);

}  // namespace backbeat
