#include "models/random.hpp"

namespace backbeat {

Tensor random_key(Operand seed, uint32_t stream, Tensor step, Tensor first) {
  const RecordedAt at(seed.where);
  const auto word = [&](uint32_t value) { return constant(seed.tape(), Array::from(Shape{1}, std::vector<uint32_t>{value})); };
  const Tensor purpose = word(stream), sample = first.defined() ? reshape(first, {1}) : word(0);
  return concatenate({seed, purpose, reshape(step, {1}), sample}, 0);
}

Array seed_words(uint64_t seed) {
  return Array::from(Shape{2}, std::vector<uint32_t>{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
}

Tensor counted(Recorder& r, const std::string& name) {
  const Tensor count = r.state(name, DType::u32, {});
  r.update(name, count + scalar_like(count, 1));
  return count;
}

}  // namespace backbeat
