#include <algorithm>

#include "devices/tpu/compile.hpp"

namespace backbeat::tpu {

std::pair<int32_t, int32_t> lifetime(const Lowering& lowering, int32_t tensor) {
  const Tensor& t = lowering.tensors[static_cast<size_t>(tensor)];
  if (t.consumers.empty()) return {t.producer, t.producer};
  const auto [first, last] = std::minmax_element(t.consumers.begin(), t.consumers.end());
  return {t.leaf ? *first : t.producer, *last};
}

Residency choose_residents(const Lowering& lowering, int64_t vmem_bytes, int64_t reserve) {
  Residency r;
  r.resident.assign(lowering.tensors.size(), false);
  r.used_bytes.assign(lowering.works.size(), 0);
  struct Candidate {
    int32_t tensor, first, last;
    double saved_per_byte_and_work;
  };
  std::vector<Candidate> candidates;
  for (size_t i = 0; i < lowering.tensors.size(); ++i) {
    const Tensor& t = lowering.tensors[i];
    if (t.consumers.empty() || t.bytes > vmem_bytes - reserve) continue;
    // Reads saved, and for what is not kept the write as well; a leaf has to be read once.
    const double saved = static_cast<double>(t.consumers.size()) - (t.leaf ? 1 : 0) + (!t.leaf && !t.kept ? 1 : 0);
    if (saved <= 0) continue;
    const auto [first, last] = lifetime(lowering, static_cast<int32_t>(i));
    candidates.push_back({static_cast<int32_t>(i), first, last, saved / static_cast<double>(last - first + 1)});
  }
  std::stable_sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return a.saved_per_byte_and_work > b.saved_per_byte_and_work;
  });
  for (const Candidate& c : candidates) {
    const int64_t bytes = lowering.tensors[static_cast<size_t>(c.tensor)].bytes;
    const auto begin = r.used_bytes.begin() + c.first, end = r.used_bytes.begin() + c.last + 1;
    if (*std::max_element(begin, end) + bytes > vmem_bytes - reserve) continue;
    for (auto used = begin; used != end; ++used) *used += bytes;
    r.resident[static_cast<size_t>(c.tensor)] = true;
  }
  return r;
}

void drop_largest_resident(Residency& r, const Lowering& lowering, size_t work) {
  int32_t largest = -1;
  for (size_t i = 0; i < lowering.tensors.size(); ++i) {
    if (!r.resident[i]) continue;
    const auto [first, last] = lifetime(lowering, static_cast<int32_t>(i));
    if (first > static_cast<int32_t>(work) || last < static_cast<int32_t>(work)) continue;
    if (largest < 0 || lowering.tensors[i].bytes > lowering.tensors[static_cast<size_t>(largest)].bytes)
      largest = static_cast<int32_t>(i);
  }
  if (largest < 0) return;
  r.resident[static_cast<size_t>(largest)] = false;
  const auto [first, last] = lifetime(lowering, largest);
  for (int32_t w = first; w <= last; ++w)
    r.used_bytes[static_cast<size_t>(w)] -= lowering.tensors[static_cast<size_t>(largest)].bytes;
}

}  // namespace backbeat::tpu
