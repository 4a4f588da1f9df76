// rng_bit_generator: word w of sample i is a function of the key, of i and of w alone.
#include <omp.h>

#include <algorithm>

#include "devices/cpu/step.hpp"
#include "engine/philox.hpp"

namespace backbeat::cpu {

Step random_step(const Tape& tape, NodeId id) {
  const Node& node = tape[id];
  const NodeId key_node = node.operands[0];
  const int64_t samples = node.shape.empty() ? 1 : node.shape[0];
  const int64_t words = samples ? element_count(node.shape) / samples : 0, groups = (words + 3) / 4;
  Step step{{id}, {key_node}, {id}, {}, 0, {}};
  step.work = [=](const Memory& m) {
    const uint32_t* key = m.at<uint32_t>(key_node);  // seed low, seed high, stream, step, first sample
    uint32_t* out = m.at<uint32_t>(id);
#pragma omp parallel for schedule(static) if (samples * groups > 8192 && !omp_in_parallel())
    for (int64_t i = 0; i < samples * groups; ++i) {
      const int64_t sample = i / groups, group = i % groups;
      const auto bits = philox4x32({static_cast<uint32_t>(group), key[4] + static_cast<uint32_t>(sample), key[3], key[1]}, {key[0], key[2]});
      std::copy_n(bits.begin(), std::min<int64_t>(4, words - 4 * group), out + sample * words + 4 * group);
    }
  };
  return step;
}

}  // namespace backbeat::cpu
