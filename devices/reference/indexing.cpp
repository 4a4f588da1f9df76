// Slices at places that are computed, element by element.
#include <algorithm>

#include "devices/reference/evaluate.hpp"
#include "devices/reference/multi_index.hpp"

namespace backbeat::reference {

namespace {

// The start of a slice, moved so that the slice lies inside.
Dims clipped(Dims start, const Shape& x, const Shape& sizes) {
  for (int64_t i = 0; i < x.size(); ++i) start[i] = std::clamp<int64_t>(start[i], 0, x[i] - sizes[i]);
  return start;
}

Dims start_of(const Array& start) {
  const Array numbers = start.converted(DType::i64);
  Dims result;
  for (int64_t i = 0; i < start.size(); ++i) result.push_back(numbers.data<int64_t>()[i]);
  return result;
}

Dims sum(Dims a, const Dims& b) {
  for (int64_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

// body(element of x, element of the other array), for every element of every slice, one slice after the other; `body`
// gets -1 for x's where the slice does not count.
template <class Body>
void for_each_of_slices(const Shape& x, const Array& indices, const Shape& other, const GatherDims& dims, Body&& body) {
  const Array starts = indices.converted(DType::i64);
  const int64_t length = dims.index_map.size();
  Shape places;  // of the slices
  for (int64_t i = 0; i + 1 < indices.shape().size(); ++i) places.push_back(indices.shape()[i]);
  for (int64_t n = 0; n < element_count(places); ++n) {
    const Dims place = multi_index(n, places);
    Dims start = Dims::filled(x.size(), 0);
    for (int64_t i = 0; i < length; ++i) start[dims.index_map[i]] = starts.data<int64_t>()[n * length + i];
    const Dims inside = clipped(start, x, dims.slice_sizes);
    const bool counts = dims.bounds == Bounds::clip || inside == start;
    for_each_index(dims.slice_sizes, [&](const Dims& within) {
      Dims kept, at;
      for (int64_t i = 0; i < x.size(); ++i)
        if (!dims.collapsed.contains(i)) kept.push_back(within[i]);
      int64_t from_place = 0, from_slice = 0;
      for (int64_t i = 0; i < other.size(); ++i)
        at.push_back(dims.offset.contains(i) ? kept[from_slice++] : place[from_place++]);
      body(counts ? number_of(sum(inside, within), x) : -1, number_of(at, other));
    });
  }
}

}  // namespace

Array dynamic_slice(const Array& x, const Array& start, const Shape& sizes) {
  const Dims first = clipped(start_of(start), x.shape(), sizes);
  Array result(x.dtype(), sizes);
  for_each_index(sizes, [&](const Dims& within) {
    copy_element(x, number_of(sum(first, within), x.shape()), result, number_of(within, sizes));
  });
  return result;
}

Array dynamic_update_slice(const Array& x, const Array& update, const Array& start) {
  const Dims first = clipped(start_of(start), x.shape(), update.shape());
  Array result = x.clone();
  for_each_index(update.shape(), [&](const Dims& within) {
    copy_element(update, number_of(within, update.shape()), result, number_of(sum(first, within), x.shape()));
  });
  return result;
}

Array gather(const Array& x, const Array& indices, const Shape& shape, const GatherDims& dims) {
  Array result = Array::zeros(x.dtype(), shape);
  for_each_of_slices(x.shape(), indices, shape, dims, [&](int64_t from, int64_t to) {
    if (from >= 0) copy_element(x, from, result, to);
  });
  return result;
}

Array scatter(const Array& x, const Array& indices, const Array& updates, const ScatterDims& dims) {
  if (!dims.add) {
    Array result = x.clone();
    for_each_of_slices(x.shape(), indices, updates.shape(), dims.where, [&](int64_t to, int64_t from) {
      if (to >= 0) copy_element(updates, from, result, to);
    });
    return result;
  }
  const Array terms = updates.converted(wide(x.dtype()));
  Array sums = x.converted(wide(x.dtype())).clone();
  visit_wide(x.dtype(), [&]<class T>() {
    T* sum = sums.data<T>();
    for_each_of_slices(x.shape(), indices, updates.shape(), dims.where, [&](int64_t to, int64_t from) {
      if (to >= 0) sum[to] = wrapping_sum(sum[to], terms.data<T>()[from]);
    });
  });
  return sums.converted(x.dtype());
}

}  // namespace backbeat::reference
