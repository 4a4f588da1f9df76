#include "models/data/dataset.hpp"

#include <cmath>
#include <filesystem>
#include <memory>
#include <numbers>
#include <numeric>

#include "engine/io/idx.hpp"
#include "models/data/metrics.hpp"
#include "models/data/rng.hpp"

namespace backbeat {

namespace {

namespace fs = std::filesystem;

constexpr const char* fashion_mnist_directory = "/usr/share/datasets/fashion-mnist";

// Streams of HostRandom, one for each purpose.
enum Stream : uint32_t { gaussians_8_stream = 0x64300001, gaussians_25_stream, swiss_roll_stream };

void check_batch(int64_t batch) {
  if (batch < 1) fail("data", "expected a batch of at least 1, got ", batch);
}

// The constants of the three toys are those of gan_toy.py in igul222/improved_wgan_training.

Array eight_gaussians(int64_t batch, uint64_t seed, uint64_t step) {
  check_batch(batch);
  static const std::vector<Point> centres = mode_centres("8gaussians");
  Array out(DType::f32, {batch, 2});
  float* to = out.data<float>();
  HostRandom random(seed, gaussians_8_stream, step);
  for (int64_t i = 0; i < batch; ++i) {
    const Point& centre = centres[static_cast<size_t>(random.below(8))];
    for (double x : centre) *to++ = static_cast<float>(x + 0.02 * random.normal() / 1.414);
  }
  return out;
}

Array swiss_roll(int64_t batch, uint64_t seed, uint64_t step) {
  check_batch(batch);
  Array out(DType::f32, {batch, 2});
  float* to = out.data<float>();
  HostRandom random(seed, swiss_roll_stream, step);
  for (int64_t i = 0; i < batch; ++i) {
    const double t = 1.5 * std::numbers::pi * (1 + 2 * random.uniform());
    const double x = t * portable_cos(t) + 0.25 * random.normal();
    const double z = t * portable_sin(t) + 0.25 * random.normal();
    *to++ = static_cast<float>(x / 7.5);
    *to++ = static_cast<float>(z / 7.5);
  }
  return out;
}

// Which samples of a counted set a step sees.
std::vector<int64_t> shuffled(const std::string& name, int64_t size, int64_t batch, uint64_t seed, uint64_t step) {
  check_batch(batch);
  if (batch > size) fail("data", name, " has ", size, " samples, got a batch of ", batch);
  const uint64_t steps = static_cast<uint64_t>(size / batch);
  const int64_t first = static_cast<int64_t>(step % steps) * batch;
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < batch; ++i) indices.push_back(shuffled_index(first + i, size, seed, step / steps));
  return indices;
}

std::vector<int64_t> in_order(const std::string& name, int64_t size, int64_t first, int64_t count) {
  if (first < 0 || count < 0 || first > size - count)
    fail("data", name, " has ", size, " samples, got a request for ", count, " from ", first);
  std::vector<int64_t> indices(static_cast<size_t>(count));
  std::iota(indices.begin(), indices.end(), first);
  return indices;
}

// 100,000 fixed points, 4,000 to a mode. The original shuffles them once; here each epoch has its own order.
Dataset twenty_five_gaussians(const std::string& name) {
  constexpr int64_t size = 100'000, modes = 25;
  const auto points = [centres = mode_centres("25gaussians")](const std::vector<int64_t>& indices) {
    Array out(DType::f32, {static_cast<int64_t>(indices.size()), 2});
    float* to = out.data<float>();
    for (int64_t index : indices) {
      HostRandom random(0, gaussians_25_stream, static_cast<uint64_t>(index));
      for (double centre : centres[static_cast<size_t>(index % modes)])
        *to++ = static_cast<float>(centre + 0.05 * random.normal() / 2.828);
    }
    return out;
  };
  Dataset set{name, {2}, size, {}, {}, {}, {}};
  set.batch = [=](int64_t batch, uint64_t seed, uint64_t step) {
    return points(shuffled(name, size, batch, seed, step));
  };
  set.samples = [=](int64_t first, int64_t count) { return points(in_order(name, size, first, count)); };
  return set;
}

// Pixels stay bytes; a batch is scaled when it is made.
struct Images {
  IdxFile pixels, classes;
};

IdxFile read_member(const fs::path& directory, const std::string& file, int64_t rank) {
  for (const char* ending : {"", ".gz"}) {
    const fs::path path = directory / (file + ending);
    std::error_code ignored;
    if (!fs::exists(path, ignored)) continue;
    IdxFile idx = read_idx_file(path.string());
    if (idx.type != IdxType::u8 || idx.shape.size() != rank)
      fail("data", path.string(), ": expected u8 of rank ", rank, ", got IDX type ",
           int{static_cast<uint8_t>(idx.type)}, " of shape ", idx.shape);
    return idx;
  }
  fail("data", directory.string(), ": expected the IDX file ", file, " or ", file, ".gz, found neither");
}

Dataset images_in(const std::string& name, const fs::path& directory, Split split) {
  const std::string prefix = split == Split::train ? "train" : "t10k";
  const auto images = std::make_shared<const Images>(Images{read_member(directory, prefix + "-images-idx3-ubyte", 3),
                                                            read_member(directory, prefix + "-labels-idx1-ubyte", 1)});
  const Shape shape = images->pixels.shape;
  const int64_t size = shape[0], height = shape[1], width = shape[2];
  if (images->classes.shape[0] != size)
    fail("data", directory.string(), ": expected one label for each of ", size, " images, got ",
         images->classes.shape[0]);
  if (size == 0 || height == 0 || width == 0) fail("data", directory.string(), ": expected images, got shape ", shape);

  const auto scaled = [=](const std::vector<int64_t>& indices) {
    Array out(DType::f32, {static_cast<int64_t>(indices.size()), 1, height, width});
    float* to = out.data<float>();
    for (int64_t index : indices) {
      const uint8_t* from = images->pixels.values.data() + index * height * width;
      for (int64_t k = 0; k < height * width; ++k) *to++ = static_cast<float>(from[k]) / 255.0f;
    }
    return out;
  };
  const auto classes = [=](const std::vector<int64_t>& indices) {
    Array out(DType::i32, {static_cast<int64_t>(indices.size())});
    int32_t* to = out.data<int32_t>();
    for (int64_t index : indices) *to++ = images->classes.values[static_cast<size_t>(index)];
    return out;
  };
  Dataset set{name, {1, height, width}, size, {}, {}, {}, {}};
  set.batch = [=](int64_t batch, uint64_t seed, uint64_t step) {
    return scaled(shuffled(name, size, batch, seed, step));
  };
  set.labels = [=](int64_t batch, uint64_t seed, uint64_t step) {
    return classes(shuffled(name, size, batch, seed, step));
  };
  set.samples = [=](int64_t first, int64_t count) { return scaled(in_order(name, size, first, count)); };
  set.sample_labels = [=](int64_t first, int64_t count) { return classes(in_order(name, size, first, count)); };
  return set;
}

}  // namespace

Dataset open_dataset(const std::string& name, Split split) {
  if (name == "8gaussians") return {name, {2}, 0, eight_gaussians, {}, {}, {}};
  if (name == "25gaussians") return twenty_five_gaussians(name);
  if (name == "swissroll") return {name, {2}, 0, swiss_roll, {}, {}, {}};
  if (name == "fashion-mnist") {
    std::error_code ignored;
    if (!fs::is_directory(fashion_mnist_directory, ignored))
      fail("data", "fashion-mnist is not installed: expected ", fashion_mnist_directory,
           "; apt-get install dataset-fashion-mnist, or give a directory with --data DIR");
    return images_in(name, fashion_mnist_directory, split);
  }
  std::error_code ignored;
  if (fs::is_directory(name, ignored)) return images_in(name, name, split);
  fail("data", "unknown data set '", name,
       "', expected 8gaussians, 25gaussians, swissroll, fashion-mnist or a directory of IDX files");
}

}  // namespace backbeat
