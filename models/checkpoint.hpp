// A run's state on disk: one safetensors file, written atomically, from which training goes on bit for bit. Other frameworks
// read it by name: safetensors 0.8.0 gives PyTorch 1.13 all but the counters, which are u32 and need PyTorch 2.3, and numpy
// all of it.
#pragma once
#include <string>

#include "engine/program.hpp"

namespace backbeat {

struct Checkpoint {
  int64_t iteration = 0;  // outer iterations done
  std::string recipe;     // everything that decides the numbers: model, data, batch, optimizer, seed, device, ...
  StateStore state;
};

void save_checkpoint(const std::string& path, const Checkpoint& checkpoint);
Checkpoint load_checkpoint(const std::string& path);

// The shortest text that reads back as the same number, for recipes.
std::string exact(double value);

// The hash of these entries of the store, names and shapes included.
std::string sha256_of(const StateStore& state, const std::vector<std::string>& names);

}  // namespace backbeat
