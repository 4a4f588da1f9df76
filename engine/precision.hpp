// Precision of products, changed after recording: by scope and by order, so that one can ask which pass needs more.
#pragma once
#include <span>
#include <string>

#include "engine/program.hpp"

namespace backbeat {

struct PrecisionRule {
  std::string scope;  // a path and all below it; empty: everywhere
  int order = -1;     // -1: every order
  Precision precision = Precision::standard;
};

// "critic/dense_1=high", "order:2=highest", or both as "critic,order:2=highest".
PrecisionRule precision_rule_from_text(const std::string& text);

// Inlines calls, then sets the precision of every dot_general and convolution that a rule names; later rules win. The number
// of products changed.
int64_t override_precision(Program& program, std::span<const PrecisionRule> rules);

}  // namespace backbeat
