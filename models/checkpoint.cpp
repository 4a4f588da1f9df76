#include "models/checkpoint.hpp"

#include <charconv>

#include "engine/io/safetensors.hpp"
#include "engine/io/sha256.hpp"

namespace backbeat {

void save_checkpoint(const std::string& path, const Checkpoint& checkpoint) {
  NamedArrays arrays(checkpoint.state.arrays().begin(), checkpoint.state.arrays().end());
  write_safetensors(path, arrays, {{"iteration", std::to_string(checkpoint.iteration)}, {"recipe", checkpoint.recipe}});
}

Checkpoint load_checkpoint(const std::string& path) {
  SafetensorsFile file = read_safetensors(path);
  Checkpoint checkpoint;
  const std::string& iteration = file.metadata["iteration"];
  const auto [end, error] =
      std::from_chars(iteration.data(), iteration.data() + iteration.size(), checkpoint.iteration);
  if (error != std::errc() || end != iteration.data() + iteration.size() || checkpoint.iteration < 0 ||
      !file.metadata.count("recipe"))
    fail("checkpoint", path, ": expected the metadata 'iteration' and 'recipe' of a Backbeat checkpoint");
  checkpoint.recipe = file.metadata["recipe"];
  for (auto& [name, value] : file.arrays) checkpoint.state.set(name, std::move(value));
  return checkpoint;
}

std::string exact(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

std::string sha256_of(const StateStore& state, const std::vector<std::string>& names) {
  NamedArrays arrays;
  for (const std::string& name : names) arrays.emplace_back(name, state.at(name));
  return sha256_of(arrays);
}

}  // namespace backbeat
