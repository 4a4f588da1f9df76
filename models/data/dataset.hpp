// Data sets: real batches as a pure function of (seed, step), without a position to save or lose.
#pragma once
#include <functional>
#include <string>

#include "engine/array.hpp"

namespace backbeat {

enum class Split { train, test };

struct Dataset {
  std::string name;
  Shape sample_shape;        // {2} for the toys, {1, height, width} for images
  int64_t sample_count = 0;  // 0: every batch is drawn anew from the distribution

  // f32 [batch, sample...], images scaled to 0 ... 1. A counted set is shuffled anew for each epoch; an epoch is
  // sample_count / batch steps, and what is left over at its end is dropped.
  std::function<Array(int64_t batch, uint64_t seed, uint64_t step)> batch;
  // i32 [batch], the classes of the samples of the same call of `batch`. Null where there are none (the toys).
  std::function<Array(int64_t batch, uint64_t seed, uint64_t step)> labels;
  // The same unshuffled: `count` samples from the first asked for. Null where sample_count is 0.
  std::function<Array(int64_t first, int64_t count)> samples;
  std::function<Array(int64_t first, int64_t count)> sample_labels;
};

// "8gaussians", "25gaussians", "swissroll" (the toys of the WGAN-GP paper), "fashion-mnist" (Debian's
// dataset-fashion-mnist), or a directory with IDX files under MNIST's names, plain or .gz.
Dataset open_dataset(const std::string& name_or_directory, Split split = Split::train);

}  // namespace backbeat
