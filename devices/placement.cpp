#include "devices/placement.hpp"

#include <algorithm>
#include <numeric>

namespace backbeat {

int64_t place(std::vector<Lifetime>& buffers, int64_t alignment) {
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return buffers[a].bytes > buffers[b].bytes; });
  struct Placed {
    int64_t offset, next;  // the first aligned place behind it
    int64_t first, last;
  };
  std::vector<Placed> placed;  // by offset; side by side in memory, for each is looked at by each
  int64_t total = 0;
  for (size_t i : order) {
    Lifetime& b = buffers[i];
    int64_t offset = 0;
    for (const Placed& other : placed) {
      if (other.last < b.first || b.last < other.first) continue;
      if (offset + b.bytes <= other.offset) break;
      offset = std::max(offset, other.next);
    }
    b.offset = offset;
    total = std::max(total, offset + b.bytes);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), offset,
                                   [](int64_t here, const Placed& other) { return here < other.offset; }),
                  {offset, (offset + b.bytes + alignment - 1) / alignment * alignment, b.first, b.last});
  }
  return total;
}

}  // namespace backbeat
