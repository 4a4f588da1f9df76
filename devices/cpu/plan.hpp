// Where the values between the steps lie: one arena, in which buffers that are never alive together share memory.
#pragma once
#include <cstdint>
#include <vector>

namespace backbeat::cpu {

// Alive from the step that writes it to the last one that reads it, both included.
struct Lifetime {
  int64_t bytes = 0;
  int64_t first = 0, last = 0;
  int64_t offset = -1;  // the answer, a multiple of 64
};

// Sets the offsets, the largest buffers first, each at the lowest place that is free throughout its life. Returns the size.
int64_t place(std::vector<Lifetime>& buffers);

}  // namespace backbeat::cpu
