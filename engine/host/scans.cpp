// Along one axis: sort, argmax, cumsum. An array is seen as [before, axis, after].
#include <bit>

#include "engine/host/array_kernels.hpp"

namespace backbeat::host {

namespace {

struct Lines {
  int64_t before = 1, length = 1, after = 1;
  Lines(const Shape& shape, int64_t axis) : length(shape[axis]) {
    for (int64_t i = 0; i < shape.size(); ++i) (i < axis ? before : after) *= i == axis ? 1 : shape[i];
  }
  int64_t count() const { return before * after; }
};

constexpr int64_t strip = 1024;  // neighbouring lines that are walked together, for contiguous loops

// body(first element's number, lines side by side) for strips of lines, on several threads where the work is worth it.
template <class Body>
void over_strips(const Lines& lines, Body&& body) {
  const int64_t strips = (lines.after + strip - 1) / strip, items = lines.before * strips;
  const int threads = threads_for(lines.count() * lines.length * 4);
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
  for (int64_t item = 0; item < items; ++item) {
    const int64_t first = item % strips * strip;
    body(item / strips, first, std::min(strip, lines.after - first));
  }
}

// --- sort

// A key as an unsigned number of the same order: -0 is 0, every NaN the largest.
template <class T>
auto ordered(T x) {
  if constexpr (half<T>) {
    return ordered(static_cast<float>(x));
  } else if constexpr (std::is_floating_point_v<T>) {
    using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
    if (x != x) return std::numeric_limits<Bits>::max();
    const Bits u = std::bit_cast<Bits>(x == 0 ? T(0) : x), sign = Bits(1) << (8 * sizeof(T) - 1);
    return u & sign ? static_cast<Bits>(~u) : static_cast<Bits>(u | sign);
  } else if constexpr (sizeof(T) == 8) {
    return static_cast<uint64_t>(x) ^ (uint64_t{1} << 63);
  } else {
    return static_cast<uint32_t>(static_cast<int64_t>(x) - std::numeric_limits<T>::min());
  }
}

// What is sorted is unique, so that any sort is stable: the key above the place, in one word where that fits.
struct Wide {
  uint64_t key;
  int64_t place;
  bool operator<(const Wide& other) const { return key != other.key ? key < other.key : place < other.place; }
};

bool fits_a_word(DType keys, int64_t length) { return size_of(keys) <= 4 && length <= int64_t{1} << 32; }
int64_t slot_bytes(DType keys, int64_t length) { return length * (fits_a_word(keys, length) ? 8 : 16); }

constexpr int64_t most_workers = 16;  // each sorts lines in a slot of its own
int64_t workers_for(const Lines& lines) { return std::min(most_workers, lines.count()); }

template <class Key, class Value, class Entry>
void sort_line(const Key* keys, const Value* values, Value* out, int64_t length, int64_t stride, Entry* slot) {
  constexpr bool packed = std::is_same_v<Entry, uint64_t>;
  for (int64_t i = 0; i < length; ++i) {
    if constexpr (packed) slot[i] = static_cast<uint64_t>(ordered(keys[i * stride])) << 32 | static_cast<uint64_t>(i);
    else slot[i] = {static_cast<uint64_t>(ordered(keys[i * stride])), i};
  }
  std::sort(slot, slot + length);
  for (int64_t i = 0; i < length; ++i) {
    int64_t from;
    if constexpr (packed) from = static_cast<int64_t>(slot[i] & 0xffffffffu);
    else from = slot[i].place;
    out[i * stride] = values[from * stride];
  }
}

}  // namespace

int64_t sort_scratch(const Shape& keys, DType dtype, int64_t axis) {
  const Lines lines(keys, axis);
  return workers_for(lines) * slot_bytes(dtype, lines.length);
}

void sort(DenseArray keys, DenseArray values, int64_t axis, void* out, void* scratch) {
  const Lines lines(keys.shape, axis);
  const int64_t workers = workers_for(lines), slot = slot_bytes(keys.dtype, lines.length);
  if (lines.count() * lines.length == 0) return;
  const bool packed = fits_a_word(keys.dtype, lines.length);
  const int threads = threads_for(lines.count() * lines.length * 64);
  visit_number(keys.dtype, [&]<class Key>() {
    visit_width(values.dtype, [&]<class Value>() {
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
      for (int64_t worker = 0; worker < workers; ++worker) {
        void* mine = static_cast<char*>(scratch) + worker * slot;
        const int64_t first = lines.count() * worker / workers, last = lines.count() * (worker + 1) / workers;
        for (int64_t line = first; line < last; ++line) {
          const int64_t offset = line / lines.after * lines.length * lines.after + line % lines.after;
          const Key* k = static_cast<const Key*>(keys.data) + offset;
          const Value* v = static_cast<const Value*>(values.data) + offset;
          Value* o = static_cast<Value*>(out) + offset;
          if (packed) sort_line(k, v, o, lines.length, lines.after, static_cast<uint64_t*>(mine));
          else sort_line(k, v, o, lines.length, lines.after, static_cast<Wide*>(mine));
        }
      }
    });
  });
}

// --- argmax

namespace {

// For n lines side by side: the extreme of each and its place.
template <Reduction kind, class T>
void walk(const T* in, int64_t length, int64_t step, int64_t n, Sum<T>* best, int32_t* place) {
  for (int64_t j = 0; j < n; ++j) best[j] = static_cast<Sum<T>>(in[j]), place[j] = 0;
  for (int64_t i = 1; i < length; ++i) {
    in += step;
    for (int64_t j = 0; j < n; ++j) {
      const Sum<T> value = static_cast<Sum<T>>(in[j]);
      const bool more = is_more<kind>(value, best[j]);
      best[j] = more ? value : best[j];
      place[j] = more ? static_cast<int32_t>(i) : place[j];
    }
  }
}

// A contiguous line, as lines side by side of every 32nd element and a rest.
template <Reduction kind, class T>
int32_t along(const T* in, int64_t length) {
  constexpr int64_t lanes = 32;
  const int64_t whole = length / lanes * lanes;
  Sum<T> lane[lanes], best = static_cast<Sum<T>>(in[0]);
  int32_t place[lanes], first = 0;
  if (whole > 0) {
    walk<kind>(in, length / lanes, lanes, lanes, lane, place);
    for (int32_t l = 0; l < lanes; ++l) {
      const int32_t at = place[l] * static_cast<int32_t>(lanes) + l;
      const bool equal = !is_more<kind>(lane[l], best) && !is_more<kind>(best, lane[l]);
      if (is_more<kind>(lane[l], best) || (equal && at < first)) best = lane[l], first = at;
    }
  }
  for (int64_t i = whole; i < length; ++i)
    if (is_more<kind>(static_cast<Sum<T>>(in[i]), best)) best = static_cast<Sum<T>>(in[i]), first = static_cast<int32_t>(i);
  return first;
}

template <class T, Reduction kind>
void extremes(const Lines& lines, const T* x, int32_t* out) {
  over_strips(lines, [&](int64_t before, int64_t first, int64_t n) {
    const T* in = x + before * lines.length * lines.after + first;
    int32_t* place = out + before * lines.after + first;
    if (lines.after == 1) {
      *place = along<kind>(in, lines.length);
    } else {
      Sum<T> best[strip];
      walk<kind>(in, lines.length, lines.after, n, best, place);
    }
  });
}

}  // namespace

void argmax(DenseArray x, Reduction kind, int64_t axis, void* out) {
  const Lines lines(x.shape, axis);
  visit_number(x.dtype, [&]<class T>() {
    const T* in = static_cast<const T*>(x.data);
    if (kind == Reduction::max) extremes<T, Reduction::max>(lines, in, static_cast<int32_t*>(out));
    else extremes<T, Reduction::min>(lines, in, static_cast<int32_t*>(out));
  });
}

void cumsum(DenseArray x, const CumulativeDims& dims, void* out) {
  const Lines lines(x.shape, dims.axis);
  if (lines.length == 0) return;
  const int64_t step = dims.reverse ? -lines.after : lines.after;
  visit_number(x.dtype, [&]<class T>() {
    over_strips(lines, [&](int64_t before, int64_t first, int64_t n) {
      const int64_t line = before * lines.length + (dims.reverse ? lines.length - 1 : 0), start = line * lines.after + first;
      const T* in = static_cast<const T*>(x.data) + start;
      T* to = static_cast<T*>(out) + start;
      Sum<T> sum[strip];
      for (int64_t j = 0; j < n; ++j) sum[j] = static_cast<Sum<T>>(in[j]), to[j] = in[j];
      for (int64_t i = 1; i < lines.length; ++i) {
        in += step, to += step;
        for (int64_t j = 0; j < n; ++j) {
          sum[j] = plus(sum[j], static_cast<Sum<T>>(in[j]));
          to[j] = static_cast<T>(sum[j]);
        }
      }
    });
  });
}

}  // namespace backbeat::host
