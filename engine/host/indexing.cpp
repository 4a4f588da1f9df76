// Places that are computed: slices at a start that is data. Each is a box of elements that moves between two arrays.
#include <cstring>

#include "engine/host/array_kernels.hpp"

namespace backbeat::host {

namespace {

// Integers of any dtype; a start beyond all of int64 is as far outside.
int64_t index_at(DType dtype, const void* data, int64_t i) {
  switch (dtype) {
    case DType::i64: return static_cast<const int64_t*>(data)[i];
    case DType::i32: return static_cast<const int32_t*>(data)[i];
    case DType::i16: return static_cast<const int16_t*>(data)[i];
    case DType::i8: return static_cast<const int8_t*>(data)[i];
    case DType::u32: return static_cast<const uint32_t*>(data)[i];
    default: return static_cast<const uint8_t*>(data)[i];
  }
}

struct Loop {
  int64_t size, from, to;  // strides in elements
};

// Nested loops over a box, the innermost last. Dimensions of size one go, neighbours that continue each other are one.
struct Box {
  Loop loops[Dims::max_rank + 1];
  int count = 0;

  Box(const Shape& shape, const Dims& from, const Dims& to) {
    for (int64_t i = 0; i < shape.size(); ++i) {
      if (shape[i] == 1) continue;
      const Loop loop{shape[i], from[i], to[i]};
      if (count > 0 && loops[count - 1].from == loop.size * loop.from && loops[count - 1].to == loop.size * loop.to)
        loops[count - 1] = {loops[count - 1].size * loop.size, loop.from, loop.to};
      else
        loops[count++] = loop;
    }
    if (count == 0) loops[count++] = {1, 1, 1};
  }
  const Loop& outer() const { return loops[0]; }
};

// run(from, to, loop) for every innermost loop of the box, the outermost one limited to [first, last).
template <class From, class To, class Run>
void over_runs(const Box& box, int depth, int64_t first, int64_t last, From* from, To* to, Run& run) {
  Loop loop = box.loops[depth];
  from += first * loop.from, to += first * loop.to;
  loop.size = last - first;
  if (depth + 1 == box.count) return run(from, to, loop);
  for (int64_t i = 0; i < loop.size; ++i, from += loop.from, to += loop.to)
    over_runs(box, depth + 1, 0, box.loops[depth + 1].size, from, to, run);
}

template <class T>
void copy_run(const T* from, T* to, const Loop& loop) {
  if (loop.size == 1) {
    *to = *from;
  } else if (loop.from == 1 && loop.to == 1) {
    std::memcpy(to, from, static_cast<size_t>(loop.size) * sizeof(T));
  } else {
    for (int64_t i = 0; i < loop.size; ++i) to[i * loop.to] = from[i * loop.from];
  }
}

template <class T>
void copy(const Box& box, int64_t first, int64_t last, const T* from, T* to) {
  over_runs(box, 0, first, last, from, to, copy_run<T>);
}

// The whole box, its outermost loop shared among threads.
template <class T>
void copy_parallel(const Box& box, int64_t elements, const T* from, T* to) {
  const int64_t piece = box.count == 1 ? 65536 : 1, pieces = (box.outer().size + piece - 1) / piece;
  const int threads = threads_for(elements);
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
  for (int64_t p = 0; p < pieces; ++p) copy(box, p * piece, std::min(box.outer().size, (p + 1) * piece), from, to);
}

void copy_all(DType dtype, int64_t elements, const void* from, void* to) {
  if (from == to || elements == 0) return;
  visit_width(dtype, [&]<class T>() {
    copy_parallel(Box({elements}, {1}, {1}), elements, static_cast<const T*>(from), static_cast<T*>(to));
  });
}

// Where a slice of dynamic_slice starts in x: moved inside.
int64_t start_inside(const Shape& x, const Shape& sizes, DenseArray start) {
  const Dims strides = row_major_strides(x);
  int64_t offset = 0;
  for (int64_t i = 0; i < x.size(); ++i)
    offset += std::clamp<int64_t>(index_at(start.dtype, start.data, i), 0, x[i] - sizes[i]) * strides[i];
  return offset;
}

}  // namespace

void dynamic_slice(DenseArray x, DenseArray start, const Shape& sizes, void* out) {
  if (element_count(sizes) == 0) return;
  const Box box(sizes, row_major_strides(x.shape), row_major_strides(sizes));
  const int64_t offset = start_inside(x.shape, sizes, start);
  visit_width(x.dtype, [&]<class T>() {
    copy_parallel(box, element_count(sizes), static_cast<const T*>(x.data) + offset, static_cast<T*>(out));
  });
}

void dynamic_update_slice(DenseArray x, DenseArray update, DenseArray start, void* out) {
  copy_all(x.dtype, element_count(x.shape), x.data, out);
  if (element_count(update.shape) == 0) return;
  const Box box(update.shape, row_major_strides(update.shape), row_major_strides(x.shape));
  const int64_t offset = start_inside(x.shape, update.shape, start);
  visit_width(x.dtype, [&]<class T>() {
    copy_parallel(box, element_count(update.shape), static_cast<const T*>(update.data), static_cast<T*>(out) + offset);
  });
}

// --- gather and scatter: x's slices at the starts that the indices hold, and an array that has them side by side

namespace {

class Slices {
 public:
  Slices(const Shape& x, DenseArray indices, const GatherDims& dims, const Shape& beside)
      : indices_(indices),
        clips_(dims.bounds == Bounds::clip),
        x_strides(row_major_strides(x)),
        slice_strides(Dims::filled(x.size(), 0)) {
    const Dims strides = row_major_strides(beside);
    for (int64_t i = 0, kept = 0; i < x.size(); ++i)
      if (!dims.collapsed.contains(i)) slice_strides[i] = strides[dims.offset[kept++]];
    for (int64_t i = 0; i < beside.size(); ++i)
      if (!dims.offset.contains(i)) place_sizes_.push_back(beside[i]), place_strides_.push_back(strides[i]);
    for (int64_t i = 0; i < dims.index_map.size(); ++i) {
      const int64_t d = dims.index_map[i];
      limits_.push_back(x[d] - dims.slice_sizes[d]);
      start_strides_.push_back(x_strides[d]);
    }
    count_ = element_count(place_sizes_);
  }

  int64_t count() const { return count_; }
  bool interleaved(int64_t stride) const { return !place_strides_.empty() && place_strides_.back() < stride; }

  // Where slice n starts in x; -1 where it does not lie inside and counts for nothing.
  int64_t in_x(int64_t n) const {
    const int64_t length = limits_.size();
    int64_t offset = 0;
    for (int64_t i = 0; i < length; ++i) {
      int64_t start = index_at(indices_.dtype, indices_.data, n * length + i);
      if (clips_) start = std::clamp<int64_t>(start, 0, limits_[i]);
      else if (start < 0 || start > limits_[i]) return -1;
      offset += start * start_strides_[i];
    }
    return offset;
  }

  // Where slice n starts in the other array.
  int64_t beside(int64_t n) const {
    if (place_sizes_.empty()) return 0;
    int64_t offset = 0;
    for (int64_t i = place_sizes_.size() - 1; i > 0; --i) {
      offset += n % place_sizes_[i] * place_strides_[i];
      n /= place_sizes_[i];
    }
    return offset + n * place_strides_[0];
  }

 private:
  DenseArray indices_;
  const bool clips_;
  Dims place_sizes_, place_strides_, limits_, start_strides_;
  int64_t count_ = 0;

 public:
  const Dims x_strides;
  Dims slice_strides;  // in the other array, of x's dimensions; 0 where collapsed
};

}  // namespace

void gather(DenseArray x, DenseArray indices, const GatherDims& dims, const Shape& shape, void* out) {
  const int64_t elements = element_count(shape);
  if (elements == 0) return;
  const Slices slices(x.shape, indices, dims, shape);
  const Box box(dims.slice_sizes, slices.x_strides, slices.slice_strides);
  // Where slices lie side by side within their outermost loop, or are few, that loop comes first.
  const int threads = threads_for(elements);
  const bool cut = slices.interleaved(box.outer().to) || (box.count > 1 && slices.count() < 4 * threads);
  const int64_t pieces = cut ? box.outer().size : 1, run = cut ? 1 : box.outer().size;
  visit_width(x.dtype, [&]<class T>() {
    const T nothing[1] = {0};
#pragma omp parallel for collapse(2) schedule(static) num_threads(threads) if (threads > 1)
    for (int64_t piece = 0; piece < pieces; ++piece)
      for (int64_t n = 0; n < slices.count(); ++n) {
        const int64_t first = piece * run, from = slices.in_x(n);
        T* to = static_cast<T*>(out) + slices.beside(n);
        if (from >= 0) {
          copy(box, first, first + run, static_cast<const T*>(x.data) + from, to);
        } else {
          Box zeros = box;
          for (int d = 0; d < zeros.count; ++d) zeros.loops[d].from = 0;
          copy(zeros, first, first + run, nothing, to);
        }
      }
  });
}

namespace {

// x's dimension along which threads may share the slices: none of the starts moves along it, so that each element of x
// belongs to one thread, which adds to it in the order of the indices.
int64_t shared_dimension(const GatherDims& dims) {
  int64_t best = -1;
  for (int64_t i = 0; i < dims.slice_sizes.size(); ++i)
    if (!dims.index_map.contains(i) && dims.slice_sizes[i] > (best < 0 ? 1 : dims.slice_sizes[best])) best = i;
  return best;
}

// run(update, target, loop) over all slices, in the order of the indices for every element of the target.
template <class T, class Target, class Run>
void over_slices(const Shape& x, DenseArray indices, DenseArray updates, const GatherDims& dims, Target* target, Run run) {
  const Slices slices(x, indices, dims, updates.shape);
  const int64_t elements = element_count(updates.shape), d = shared_dimension(dims), size = d < 0 ? 1 : dims.slice_sizes[d];
  const int64_t threads = d < 0 ? 1 : std::min<int64_t>(threads_for(elements * 2), size);
#pragma omp parallel for schedule(static) num_threads(static_cast<int>(threads)) if (threads > 1)
  for (int64_t part = 0; part < threads; ++part) {
    Shape sizes = dims.slice_sizes;
    int64_t from = 0, to = 0;
    if (d >= 0) {
      const int64_t first = size * part / threads;
      sizes[d] = size * (part + 1) / threads - first;
      from = first * slices.slice_strides[d], to = first * slices.x_strides[d];
    }
    const Box box(sizes, slices.slice_strides, slices.x_strides);
    const T* update = static_cast<const T*>(updates.data) + from;
    for (int64_t n = 0; n < slices.count(); ++n)
      if (const int64_t place = slices.in_x(n); place >= 0)
        over_runs(box, 0, 0, box.outer().size, update + slices.beside(n), target + place + to, run);
  }
}

template <class T>
void add_run(const T* update, Sum<T>* target, const Loop& loop) {
  if (loop.from == 1 && loop.to == 1) {
    for (int64_t i = 0; i < loop.size; ++i) target[i] = plus(target[i], static_cast<Sum<T>>(update[i]));
  } else {
    for (int64_t i = 0; i < loop.size; ++i)
      target[i * loop.to] = plus(target[i * loop.to], static_cast<Sum<T>>(update[i * loop.from]));
  }
}

}  // namespace

int64_t scatter_scratch(const Shape& x, DType dtype, bool add) { return add && is_half(dtype) ? element_count(x) * 4 : 0; }

void scatter(DenseArray x, DenseArray indices, DenseArray updates, const ScatterDims& dims, void* out, void* scratch) {
  const int64_t n = element_count(x.shape);
  if (!dims.add || !is_half(x.dtype)) copy_all(x.dtype, n, x.data, out);
  const bool nothing = element_count(updates.shape) == 0;
  if (!dims.add) {
    if (!nothing)
      visit_width(x.dtype, [&]<class T>() {
        over_slices<T>(x.shape, indices, updates, dims.where, static_cast<T*>(out), copy_run<T>);
      });
    return;
  }
  visit_number(x.dtype, [&]<class T>() {
    if constexpr (half<T>) {
      float* sums = static_cast<float*>(scratch);
      const int threads = threads_for(n);
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
      for (int64_t i = 0; i < n; ++i) sums[i] = static_cast<float>(static_cast<const T*>(x.data)[i]);
      if (!nothing) over_slices<T>(x.shape, indices, updates, dims.where, sums, add_run<T>);
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
      for (int64_t i = 0; i < n; ++i) static_cast<T*>(out)[i] = T(sums[i]);
    } else if (!nothing) {
      over_slices<T>(x.shape, indices, updates, dims.where, static_cast<T*>(out), add_run<T>);
    }
  });
}

}  // namespace backbeat::host
