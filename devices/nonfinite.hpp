// Where a number stopped being finite: the first operation of a Program that makes NaN or infinity of finite operands.
#pragma once
#include <optional>
#include <span>
#include <string>

#include "devices/device.hpp"

namespace backbeat {

struct NonFinite {
  NodeId node = -1;        // of inline_calls(the Program given)
  int64_t count = 0, size = 0;  // elements that are not finite, of how many
  bool nan = false;        // some of them are NaN
  bool of_constants = false;  // NaN of operands that are not finite because of constants
  std::string text;        // one line: operation, order, phase, scope, source line, operands
};

// Runs the Program once more with a count beside every floating-point node, on copies: `state` is not changed. Constants may
// be infinite (masks are), and what is infinite because of them passes, until it makes NaN; an input or state that is not
// finite is named as itself. None: every node is finite, infinite constants and what they make infinite apart.
std::optional<NonFinite> find_nonfinite(Device& device, const Program& program, std::span<const Array> inputs, const StateStore& state,
                                        const CompileOptions& options = {});

bool all_finite(const Array& array);  // true for integers and bool

}  // namespace backbeat
