// Every primitive on operands drawn at random: what the derivative checks, the devices' agreement and the table in
// docs/primitives.md are made of.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "engine/composite.hpp"
#include "engine/ops.hpp"

namespace backbeat::test {

// Numbers and shapes, a function of the seed alone.
class Draw {
 public:
  explicit Draw(uint32_t seed) : seed_(seed) {}
  int64_t integer(int64_t low, int64_t high);  // both included
  bool coin() { return integer(0, 1) == 1; }
  Shape shape(int64_t least_rank, int64_t most_rank, int64_t least = 1, int64_t most = 4);
  int64_t axis(const Shape& shape) { return integer(0, shape.size() - 1); }
  Array between(double low, double high, const Shape& shape);  // f64
  Array any(const Shape& shape) { return between(-1.5, 1.5, shape); }
  Array positive(const Shape& shape) { return between(0.5, 2.5, shape); }
  Array not_zero(const Shape& shape);  // at least 0.2 away from it
  Array distinct(const Shape& shape);  // no two closer than 0.1, in random order
  Array indices(const Shape& shape, int64_t low, int64_t high);  // i32

 private:
  uint32_t word();
  uint32_t seed_, count_ = 0;
};

// One use of a primitive. `record` takes the operands that carry derivatives; indices and predicates are constants inside.
struct Sample {
  std::vector<Array> operands;  // f64; converted for other dtypes, where they are scaled to small whole numbers
  std::function<Tensor(const std::vector<Tensor>&)> record;
};

struct PrimitiveSamples {
  Op op;
  std::string label;  // the primitive's name, and which of its kinds
  std::function<Sample(Draw&)> draw;
  // What a device may differ from the reference by, in units of the last place; 0: to the bit. Sums and products are of
  // numbers that do not cancel. Halves round once from f32, so that they differ by one at most where f32 differs at all.
  double ulps_f64 = 0, ulps_f32 = 0;
};

const std::vector<PrimitiveSamples>& all_samples();

}  // namespace backbeat::test
