// Windows: reduce_window, select_and_scatter, select_and_gather. A row of windows is computed tap by tap: the inner loop
// runs over the windows of a strip, not over the taps of a window, and reads memory in steps of one stride.
#include <numeric>

#include "engine/host/array_kernels.hpp"

namespace backbeat::host {

namespace {

constexpr int64_t strip = 256;  // windows of a row whose results stay in L1

// Along the last dimension, the windows for which one tap lies inside: window first + i * step reads element
// at + i * pace, for i < count.
struct Tap {
  int64_t first, step, at, pace, count;
};

// The dimensions of windows, those in which nothing happens merged.
class Windows {
 public:
  Windows(const Shape& x, const WindowDims& d) {
    const auto idle = [&](int64_t i) {
      return d.window[i] == 1 && d.strides[i] == 1 && d.base_dilation[i] == 1 && d.pad_low[i] == 0 && d.pad_high[i] == 0;
    };
    bool merges = false;
    for (int64_t i = 0; i < x.size(); ++i) {
      if (idle(i) && merges) {
        axes_[rank_ - 1].size *= x[i], axes_[rank_ - 1].windows *= x[i];
        continue;
      }
      merges = idle(i);
      const int64_t padded = dilated_size(x[i], d.base_dilation[i]) + d.pad_low[i] + d.pad_high[i];
      const int64_t extent = dilated_size(d.window[i], d.window_dilation[i]);
      axes_[rank_++] = {x[i], padded < extent ? 0 : (padded - extent) / d.strides[i] + 1, d.window[i], d.strides[i],
                        d.pad_low[i], d.base_dilation[i], d.window_dilation[i], 1};
    }
    if (rank_ == 0) axes_[rank_++] = {1, 1, 1, 1, 0, 1, 1, 1};
    for (int i = rank_ - 2; i >= 0; --i) axes_[i].stride = axes_[i + 1].stride * axes_[i + 1].size;
    for (int i = 0; i + 1 < rank_; ++i) rows_ *= axes_[i].windows;
    for (int i = 0; i < rank_; ++i) taps_ *= axes_[i].taps;
    // Dimensions whose windows are single elements come first: pieces that share no element.
    while (apart_ + 1 < rank_ && axes_[apart_].taps == 1) ++apart_;
    for (int i = 0; i < apart_; ++i) pieces_ *= axes_[i].windows;
  }

  int64_t row_length() const { return axes_[rank_ - 1].windows; }
  int64_t rows() const { return rows_; }
  int64_t pieces() const { return pieces_; }  // rows / pieces rows each, in order
  int64_t work() const { return rows_ * row_length() * taps_; }
  int64_t last_taps() const { return axes_[rank_ - 1].taps; }

  void fill(Tap* table) const {
    const Axis& a = axes_[rank_ - 1];
    for (int64_t t = 0; t < a.taps; ++t) {
      const int64_t begin = t * a.tap_step - a.pad_low;  // of window 0, in dilated elements
      int64_t first = begin >= 0 ? 0 : (-begin + a.step - 1) / a.step, tries = 0;
      while (tries < a.spread && (first * a.step + begin) % a.spread != 0) ++first, ++tries;
      const int64_t common = std::gcd(a.step, a.spread);
      Tap& tap = table[t] = {first, a.spread / common, (first * a.step + begin) / a.spread, a.step / common, 0};
      if (tries == a.spread || tap.at >= a.size || first >= a.windows) continue;
      tap.count = 1 + std::min((a.size - 1 - tap.at) / tap.pace, (a.windows - 1 - first) / tap.step);
    }
  }

  // body(offset of the first element of a row of x) for each tap of the outer dimensions that lies inside, in order.
  template <class Body>
  void over_taps(int64_t row, Body&& body) const {
    int64_t at[Dims::max_rank];
    for (int i = rank_ - 2; i >= 0; --i) {
      at[i] = row % axes_[i].windows * axes_[i].step - axes_[i].pad_low;
      row /= axes_[i].windows;
    }
    tap(0, at, 0, body);
  }

 private:
  struct Axis {
    int64_t size, windows, taps, step, pad_low, spread, tap_step;
    int64_t stride;  // elements of x
  };

  template <class Body>
  void tap(int depth, const int64_t* at, int64_t offset, Body& body) const {
    if (depth + 1 == rank_) return body(offset);
    const Axis& a = axes_[depth];
    int64_t place = at[depth];
    for (int64_t t = 0; t < a.taps; ++t, place += a.tap_step) {
      if (place < 0 || (a.spread > 1 && place % a.spread != 0)) continue;
      const int64_t element = a.spread > 1 ? place / a.spread : place;
      if (element >= a.size) break;
      tap(depth + 1, at, offset + element * a.stride, body);
    }
  }

  Axis axes_[Dims::max_rank + 1];
  int rank_ = 0, apart_ = 0;
  int64_t rows_ = 1, taps_ = 1, pieces_ = 1;
};

// run(window - start, part) for the part of each tap that lies in the strip [start, start + n), which begins at `window`.
template <class Run>
void over_strip(const Tap* table, int64_t taps, int64_t start, int64_t n, Run&& run) {
  for (int64_t t = 0; t < taps; ++t) {
    const Tap& tap = table[t];
    const auto before = [&](int64_t limit) {  // how many of the tap's windows lie before it
      const int64_t distance = limit - tap.first;
      return distance <= 0 ? 0 : std::min(tap.count, tap.step == 1 ? distance : (distance + tap.step - 1) / tap.step);
    };
    const int64_t skip = before(start), count = before(start + n) - skip;
    const int64_t first = tap.first + skip * tap.step;
    if (count > 0) run(first - start, Tap{first, tap.step, tap.at + skip * tap.pace, tap.pace, count});
  }
}

// body(i, step, pace) for i < count, the usual steps as constants: the compiler makes vectors of those loops.
template <class Body>
[[gnu::always_inline]] inline void over_line(int64_t count, int64_t step, int64_t pace, Body&& body) {
  constexpr std::integral_constant<int64_t, 1> one;
  constexpr std::integral_constant<int64_t, 2> two;
  if (step == 1 && pace == 1)
    for (int64_t i = 0; i < count; ++i) body(i, one, one);
  else if (step == 1 && pace == 2)
    for (int64_t i = 0; i < count; ++i) body(i, one, two);
  else
    for (int64_t i = 0; i < count; ++i) body(i, step, pace);
}

// --- reduce_window

template <class T, Reduction kind>
T combined(T a, T b) {
  if constexpr (kind == Reduction::sum) return plus(a, b);
  if constexpr (kind == Reduction::max) return a > b ? a : a == a ? b : a;
  return a < b ? a : a == a ? b : a;
}

template <class T, Reduction kind>
void take(Sum<T>* sums, int64_t step, const T* in, int64_t pace, int64_t count) {
  over_line(count, step, pace, [&](int64_t i, auto s, auto p) {
    sums[i * s] = combined<Sum<T>, kind>(sums[i * s], static_cast<Sum<T>>(in[i * p]));
  });
}

template <class T, Reduction kind>
void reduce_rows(const Windows& windows, const Tap* table, const T* x, T* out) {
  constexpr Sum<T> identity = kind == Reduction::sum   ? Sum<T>(0)
                              : kind == Reduction::max ? lowest<Sum<T>>
                                                       : highest<Sum<T>>;
  const int64_t length = windows.row_length(), strips = (length + strip - 1) / strip, items = windows.rows() * strips;
  const int threads = threads_for(windows.work());
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
  for (int64_t item = 0; item < items; ++item) {
    const int64_t row = item / strips, start = item % strips * strip, n = std::min(strip, length - start);
    Sum<T> sums[strip];
    std::fill_n(sums, n, identity);
    windows.over_taps(row, [&](int64_t offset) {
      over_strip(table, windows.last_taps(), start, n, [&](int64_t window, const Tap& part) {
        take<T, kind>(sums + window, part.step, x + offset + part.at, part.pace, part.count);
      });
    });
    T* to = out + row * length + start;
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(sums[i]);
  }
}

// --- the selecting ones

// Where each window of a row's strip has its extreme in x; -1 for a window of padding alone.
template <class T, Reduction kind>
void select_strip(const Windows& windows, const Tap* table, const void* data, int64_t row, int64_t start, int64_t n,
                  int32_t* places) {
  using Value = Sum<T>;
  const T* x = static_cast<const T*>(data);
  Value best[strip];
  std::fill_n(best, n, Value(0));
  std::fill_n(places, n, -1);
  windows.over_taps(row, [&](int64_t offset) {
    over_strip(table, windows.last_taps(), start, n, [&](int64_t window, const Tap& part) {
      const T* in = x + offset + part.at;
      Value* b = best + window;
      int32_t* p = places + window;
      const auto first = static_cast<int32_t>(offset + part.at);
      over_line(part.count, part.step, part.pace, [&](int64_t i, auto s, auto each) {
        const Value v = static_cast<Value>(in[i * each]), old = b[i * s];
        const int32_t place = p[i * s];
        const bool more = (place < 0) | is_more<kind>(v, old);
        b[i * s] = more ? v : old;
        p[i * s] = more ? first + static_cast<int32_t>(i) * static_cast<int32_t>(each) : place;
      });
    });
  });
}

using Select = void (*)(const Windows&, const Tap*, const void*, int64_t, int64_t, int64_t, int32_t*);

Select selector(DType dtype, Reduction kind) {
  Select select = nullptr;
  visit_number(dtype, [&]<class T>() {
    select = kind == Reduction::max ? select_strip<T, Reduction::max> : select_strip<T, Reduction::min>;
  });
  return select;
}

// use(first window, their number, places) for all strips; in order within a piece.
template <class Use>
void over_selected(const Windows& windows, DenseArray x, const WindowDims& dims, Tap* table, Use&& use) {
  windows.fill(table);
  const Select select = selector(x.dtype, dims.kind);
  const int64_t length = windows.row_length(), pieces = windows.pieces(), each = pieces > 0 ? windows.rows() / pieces : 0;
  const int threads = threads_for(windows.work() * 4);
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
  for (int64_t piece = 0; piece < pieces; ++piece)
    for (int64_t row = piece * each; row < (piece + 1) * each; ++row)
      for (int64_t start = 0; start < length; start += strip) {
        int32_t places[strip];
        const int64_t n = std::min(strip, length - start);
        select(windows, table, x.data, row, start, n, places);
        use(row * length + start, n, places);
      }
}

int64_t table_bytes(const WindowDims& dims) {
  const int64_t taps = dims.window.empty() ? 1 : dims.window.back();
  return (taps * static_cast<int64_t>(sizeof(Tap)) + 63) / 64 * 64;
}

}  // namespace

int64_t window_scratch(Op op, const Shape& x, DType result, const WindowDims& dims) {
  const bool sums = op == Op::select_and_scatter && is_half(result);
  return table_bytes(dims) + (sums ? element_count(x) * 4 : 0);
}

void reduce_window(DenseArray x, const WindowDims& dims, const Shape& shape, void* out, void* scratch) {
  if (element_count(shape) == 0) return;
  const Windows windows(x.shape, dims);
  Tap* table = static_cast<Tap*>(scratch);
  windows.fill(table);
  visit_number(x.dtype, [&]<class T>() {
    const T* in = static_cast<const T*>(x.data);
    T* to = static_cast<T*>(out);
    switch (dims.kind) {
      case Reduction::max: return reduce_rows<T, Reduction::max>(windows, table, in, to);
      case Reduction::min: return reduce_rows<T, Reduction::min>(windows, table, in, to);
      default: return reduce_rows<T, Reduction::sum>(windows, table, in, to);
    }
  });
}

void select_and_scatter(DenseArray x, DenseArray source, const WindowDims& dims, void* out, void* scratch) {
  const int64_t n = element_count(x.shape);
  const Windows windows(x.shape, dims);
  visit_number(source.dtype, [&]<class T>() {
    Sum<T>* sums = static_cast<Sum<T>*>(half<T> ? static_cast<char*>(scratch) + table_bytes(dims) : out);
    const int threads = threads_for(n);
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (int64_t i = 0; i < n; ++i) sums[i] = 0;
    if (n > 0)
      over_selected(windows, x, dims, static_cast<Tap*>(scratch), [&](int64_t first, int64_t count, const int32_t* places) {
        const T* from = static_cast<const T*>(source.data) + first;
        for (int64_t i = 0; i < count; ++i)
          if (places[i] >= 0) sums[places[i]] = plus(sums[places[i]], static_cast<Sum<T>>(from[i]));
      });
    if constexpr (half<T>) {
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
      for (int64_t i = 0; i < n; ++i) static_cast<T*>(out)[i] = T(sums[i]);
    }
  });
}

void select_and_gather(DenseArray x, DenseArray source, const WindowDims& dims, const Shape& shape, void* out,
                       void* scratch) {
  if (element_count(shape) == 0) return;
  const Windows windows(x.shape, dims);
  visit_width(source.dtype, [&]<class T>() {
    over_selected(windows, x, dims, static_cast<Tap*>(scratch), [&](int64_t first, int64_t count, const int32_t* places) {
      const T* from = static_cast<const T*>(source.data);
      T* to = static_cast<T*>(out) + first;
      for (int64_t i = 0; i < count; ++i) to[i] = places[i] >= 0 ? from[places[i]] : T(0);
    });
  });
}

}  // namespace backbeat::host
