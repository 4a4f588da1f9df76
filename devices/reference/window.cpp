// Reductions over windows, and what runs along one axis: one loop over the results, one over what each of them reads.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "devices/reference/evaluate.hpp"
#include "devices/reference/multi_index.hpp"

namespace backbeat::reference {

namespace {

// body(number of the element) for each tap of window `at` that lies on an element of x, in row-major order of the taps.
template <class Body>
void for_each_tap(const Shape& x, const WindowDims& dims, const Dims& at, Body&& body) {
  for_each_index(dims.window, [&](const Dims& tap) {
    Dims element = tap;
    for (int64_t i = 0; i < x.size(); ++i) {
      const int64_t place = at[i] * dims.strides[i] + tap[i] * dims.window_dilation[i] - dims.pad_low[i];
      if (place < 0 || place % dims.base_dilation[i] != 0 || place / dims.base_dilation[i] >= x[i]) return;
      element[i] = place / dims.base_dilation[i];
    }
    body(number_of(element, x));
  });
}

template <class T>
T combined(Reduction kind, T a, T b) {
  if (kind == Reduction::sum) return wrapping_sum(a, b);
  return (kind == Reduction::max ? a > b : a < b) || a != a ? a : b;
}

Array identity(Reduction kind, DType dtype) {
  Array result = Array::zeros(dtype, {});
  visit(dtype, [&]<class T>() {
    using Limits = std::numeric_limits<T>;
    if constexpr (std::is_integral_v<T>) {
      if (kind != Reduction::sum) *result.data<T>() = kind == Reduction::max ? Limits::min() : Limits::max();
    } else {
      if (kind != Reduction::sum) result.set(0, kind == Reduction::max ? -INFINITY : INFINITY);
    }
  });
  return result.converted(wide(dtype));
}

// Whether x is the extreme rather than `best`, which came before it.
template <class T>
bool exceeds(Reduction kind, T x, T best) {
  if (best != best) return false;
  return x != x || (kind == Reduction::max ? x > best : x < best);
}

// By window: the number of the element that is its extreme, -1 where there is none.
std::vector<int64_t> selected(const Array& x, const Shape& windows, const WindowDims& dims) {
  const Array values = x.converted(wide(x.dtype()));
  std::vector<int64_t> places;
  visit_wide(x.dtype(), [&]<class T>() {
    const T* value = values.data<T>();
    for_each_index(windows, [&](const Dims& at) {
      int64_t best = -1;
      for_each_tap(x.shape(), dims, at, [&](int64_t i) {
        if (best < 0 || exceeds(dims.kind, value[i], value[best])) best = i;
      });
      places.push_back(best);
    });
  });
  return places;
}

// body(numbers of the elements of a line along the axis, the line's number) for every line.
template <class Body>
void for_each_line(const Shape& shape, int64_t axis, Body&& body) {
  Shape lines = shape;
  lines[axis] = 1;
  int64_t number = 0;
  for_each_index(lines, [&](Dims index) {
    std::vector<int64_t> line;
    for (index[axis] = 0; index[axis] < shape[axis]; ++index[axis]) line.push_back(number_of(index, shape));
    body(line, number++);
  });
}

}  // namespace

Array reduce_window(const Array& x, const Shape& shape, const WindowDims& dims) {
  const Array values = x.converted(wide(x.dtype())), start = identity(dims.kind, x.dtype());
  Array result(values.dtype(), shape);
  visit_wide(x.dtype(), [&]<class T>() {
    T* out = result.data<T>();
    for_each_index(shape, [&](const Dims& at) {
      *out = *start.data<T>();
      for_each_tap(x.shape(), dims, at, [&](int64_t i) { *out = combined(dims.kind, *out, values.data<T>()[i]); });
      ++out;
    });
  });
  return result.converted(x.dtype());
}

Array select_and_scatter(const Array& x, const Array& source, const WindowDims& dims) {
  const std::vector<int64_t> places = selected(x, source.shape(), dims);
  const Array values = source.converted(wide(source.dtype()));
  Array result = Array::zeros(values.dtype(), x.shape());
  visit_wide(source.dtype(), [&]<class T>() {
    T* out = result.data<T>();
    for (size_t i = 0; i < places.size(); ++i)
      if (places[i] >= 0) out[places[i]] = wrapping_sum(out[places[i]], values.data<T>()[i]);
  });
  return result.converted(source.dtype());
}

Array select_and_gather(const Array& x, const Array& source, const Shape& shape, const WindowDims& dims) {
  const std::vector<int64_t> places = selected(x, shape, dims);
  Array result = Array::zeros(source.dtype(), shape);
  for (size_t i = 0; i < places.size(); ++i)
    if (places[i] >= 0) copy_element(source, places[i], result, static_cast<int64_t>(i));
  return result;
}

Array argmax(const Array& x, const Shape& shape, const ReduceDims& dims) {
  const Array values = x.converted(wide(x.dtype()));
  Array result(DType::i32, shape);
  visit_wide(x.dtype(), [&]<class T>() {
    const T* value = values.data<T>();
    for_each_line(x.shape(), dims.axes[0], [&](const std::vector<int64_t>& line, int64_t number) {
      size_t best = 0;
      for (size_t i = 1; i < line.size(); ++i)
        if (exceeds(dims.kind, value[line[i]], value[line[best]])) best = i;
      result.data<int32_t>()[number] = static_cast<int32_t>(best);
    });
  });
  return result;
}

Array cumsum(const Array& x, const CumulativeDims& dims) {
  Array sums = x.converted(wide(x.dtype())).clone();
  visit_wide(x.dtype(), [&]<class T>() {
    T* sum = sums.data<T>();
    for_each_line(x.shape(), dims.axis, [&](std::vector<int64_t> line, int64_t) {
      if (dims.reverse) std::reverse(line.begin(), line.end());
      for (size_t i = 1; i < line.size(); ++i) sum[line[i]] = wrapping_sum(sum[line[i - 1]], sum[line[i]]);
    });
  });
  return sums.converted(x.dtype());
}

Array sort(const Array& keys, const Array& values, int64_t axis) {
  const Array wide_keys = keys.converted(wide(keys.dtype()));
  Array result(values.dtype(), values.shape());
  visit_wide(keys.dtype(), [&]<class T>() {
    const T* key = wide_keys.data<T>();
    for_each_line(keys.shape(), axis, [&](const std::vector<int64_t>& line, int64_t) {
      std::vector<int64_t> order = line;
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {  // NaN last
        return key[a] == key[a] && (key[b] != key[b] || key[a] < key[b]);
      });
      for (size_t i = 0; i < line.size(); ++i) copy_element(values, order[i], result, line[i]);
    });
  });
  return result;
}

}  // namespace backbeat::reference
