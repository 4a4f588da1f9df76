// Dropout, Srivastava et al. 2014.
#pragma once
#include "engine/ops.hpp"

namespace backbeat {

// x [n, ...]: each element 0 with probability `rate`, else over 1 - rate. The mask is a function of the key (models/random.hpp)
// and of the sample's index: the same tensor x with the same key is masked alike wherever it is computed, so the mask of a
// forward pass is that of its derivatives. 0 <= rate < 1; at 0 nothing is recorded.
Tensor dropout(Operand x, double rate, Operand key);

}  // namespace backbeat
