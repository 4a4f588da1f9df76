// The pages of sim/chips/, built into the library by embed.py.
#pragma once
#include <vector>

namespace backbeat::sim {

struct Preset {
  const char* name;
  const char* text;
};
extern const std::vector<Preset> presets;

}  // namespace backbeat::sim
