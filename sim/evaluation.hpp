// Runs a kernel's body for its values. Refs are views of host arrays: nothing is copied.
#pragma once
#include <span>
#include <vector>

#include "sim/kernel.hpp"

namespace backbeat::sim {

class Evaluation {
 public:
  // One row-major array a ref, in the order of the kernel's refs; those of scratch are ignored.
  // `scratch` serves the plans of collapsed kernels: scratch_bytes of the largest.
  void run(const Kernel& kernel, std::span<void* const> arrays, const Chip& chip, void* scratch = nullptr);

 private:
  friend class Step;
  struct Block {
    std::byte* base;
    Layout layout;
    DType dtype;
  };
  Block block(const Step& step, Ref ref);
  void* whole(Ref ref) const { return arrays_[static_cast<size_t>(ref.index)]; }

  void fill(const Step& step, Ref out, double value);
  void matmul(const Step& step, Ref c, Ref a, Ref b, const Product& product);
  void convolve(const Step& step, Ref c, Ref x, Ref w, const Convolution& convolution);
  void vector(const Step& step, const VectorPlan& plan, const std::vector<Ref>& inputs,
              const std::vector<Ref>& outputs);
  void vector(const Step& step, const host::VectorProgram& program, const std::vector<Ref>& inputs,
              const std::vector<Ref>& outputs);
  void reduce(const Step& step, Ref out, Ref in, const ReducePlan& plan);
  void reduce(const Step& step, Ref out, Ref in, Reduction kind, int64_t axis);
  void transpose(const Step& step, Ref out, Ref in);
  void copy(const Step& step, Ref out, const std::vector<Ref>& parts, const CopyWork& work);
  void array(Ref out, const std::vector<Ref>& operands, const host::ArrayOperation& operation);
  void random(const Step& step, Ref out, Ref key, const RandomPlan* plan);

  const Kernel* kernel_ = nullptr;
  std::span<void* const> arrays_;
  std::vector<std::vector<std::byte>> scratch_arrays_;  // of scratch refs, where blocks are computed one by one
  std::vector<std::byte> plan_scratch_;
  std::vector<const void*> in_;
  std::vector<void*> out_;
  int64_t array_rows_ = 1;
  void* scratch_ = nullptr;
};

}  // namespace backbeat::sim
