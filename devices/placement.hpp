// Where values that come and go lie in one stretch of memory: those that are never alive together share it.
#pragma once
#include <cstdint>
#include <vector>

namespace backbeat {

// Alive from the step that writes it to the last one that reads it, both included.
struct Lifetime {
  int64_t bytes = 0;
  int64_t first = 0, last = 0;
  int64_t offset = -1;  // the answer, a multiple of the alignment
};

// Sets the offsets, the largest buffers first, each at the lowest place that is free throughout its life. Returns where the
// last byte ends.
int64_t place(std::vector<Lifetime>& buffers, int64_t alignment);

}  // namespace backbeat
