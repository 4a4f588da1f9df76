// Passes over a Program. Each keeps every bit of the result, and each can be left out.
#pragma once
#include "engine/program.hpp"

namespace backbeat {

struct PassOptions {
  bool dead_code = true;
  bool common_subexpressions = true;  // a shared node keeps its first scope and the lowest order of its copies
  bool constant_folding = true;
  bool simplify = true;  // only rewrites that are exact: x * 1, x - 0, a + (-b), double transposes, ...
};

// "all", "none", or a comma-separated choice of dce, cse, fold, simplify.
PassOptions passes_from_text(const std::string& text);

// By node: whether the outputs or the written state need it.
std::vector<char> live_nodes(const Program& program);

Program optimize(const Program& program, const PassOptions& options = {});

}  // namespace backbeat
