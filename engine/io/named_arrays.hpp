// Arrays with names, in an order: what an archive of arrays holds.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "engine/array.hpp"

namespace backbeat {

using NamedArrays = std::vector<std::pair<std::string, Array>>;

}  // namespace backbeat
