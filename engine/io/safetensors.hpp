// safetensors: named arrays and a little text in one file, readable by every framework.
// Eight bytes of length (little-endian), a JSON header of that length, then the arrays' bytes without gaps.
// Every dtype here has its own there; F8_*, U16, U64 and complex numbers have none here and are refused.
#pragma once
#include <map>
#include <string>

#include "engine/io/named_arrays.hpp"

namespace backbeat {

struct SafetensorsFile {
  NamedArrays arrays;  // in the order of the header, which is the writer's order
  std::map<std::string, std::string> metadata;
};

// Atomic: after a kill or a full disk (RunError), `path` is what it was before.
void write_safetensors(const std::string& path, const NamedArrays& arrays,
                       const std::map<std::string, std::string>& metadata = {});

// Everything is checked against the size of the file before anything is allocated.
SafetensorsFile read_safetensors(const std::string& path);

}  // namespace backbeat
