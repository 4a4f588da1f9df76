// Primitives that move elements, and the reductions.
#include <algorithm>
#include <limits>

#include "devices/reference/evaluate.hpp"
#include "devices/reference/multi_index.hpp"
#include "devices/reference/xtensor.hpp"

namespace backbeat::reference {

namespace {

// A move is written once for all dtypes: it moves the elements' numbers, and the elements follow.
using Numbers = xt::xarray<int64_t>;

Numbers numbers(const Shape& shape) {
  return xt::arange<int64_t>(element_count(shape)).reshape(xshape(shape));
}

// The array whose element i is x's element from[i], or zero where that is -1.
Array gathered(const Array& x, const Numbers& from, const Shape& shape) {
  Array result = Array::zeros(x.dtype(), shape);
  const auto width = static_cast<size_t>(size_of(x.dtype()));
  const auto* source = static_cast<const std::byte*>(x.raw());
  auto* target = static_cast<std::byte*>(result.raw());
  for (size_t i = 0; i < from.size(); ++i)
    if (from.data()[i] >= 0)
      std::memcpy(target + i * width, source + static_cast<size_t>(from.data()[i]) * width, width);
  return result;
}

xt::xstrided_slice_vector places(const Dims& start, const Dims& limit, const Dims& stride) {
  xt::xstrided_slice_vector slices;
  for (int64_t i = 0; i < start.size(); ++i) slices.push_back(xt::range(start[i], limit[i], stride[i]));
  return slices;
}

}  // namespace

Array transpose(const Array& x, const Dims& permutation) {
  Shape shape;
  for (int64_t axis : permutation) shape.push_back(x.shape()[axis]);
  if (x.size() == 0) return Array(x.dtype(), shape);
  return gathered(x, xt::transpose(numbers(x.shape()), xshape(permutation)), shape);
}

Array broadcast_in_dim(const Array& x, const Shape& shape, const Dims& dims) {
  if (element_count(shape) == 0) return Array(x.dtype(), shape);
  Shape aligned = Shape::filled(shape.size(), 1);
  for (int64_t i = 0; i < dims.size(); ++i) aligned[dims[i]] = x.shape()[i];
  return gathered(x, xt::broadcast(numbers(aligned), xshape(shape)), shape);
}

Array slice(const Array& x, const Shape& shape, const SliceDims& dims) {
  if (element_count(shape) == 0) return Array(x.dtype(), shape);
  return gathered(x, xt::strided_view(numbers(x.shape()), places(dims.start, dims.limit, dims.stride)), shape);
}

Array pad(const Array& x, const Shape& shape, const PadDims& dims) {
  Dims first, end, target, target_end, step;  // the elements of x that stay, and where they go
  for (int64_t i = 0; i < shape.size(); ++i) {
    const int64_t apart = dims.interior[i] + 1;
    const int64_t from = dims.low[i] >= 0 ? 0 : (-dims.low[i] + apart - 1) / apart;
    const int64_t room = shape[i] - dims.low[i];  // element e stays if e * apart < room
    const int64_t to = std::min(x.shape()[i], room <= 0 ? 0 : (room + apart - 1) / apart);
    if (to <= from) return Array::zeros(x.dtype(), shape);
    first.push_back(from), end.push_back(to);
    target.push_back(dims.low[i] + from * apart), target_end.push_back(dims.low[i] + (to - 1) * apart + 1);
    step.push_back(apart);
  }
  const Numbers kept = xt::strided_view(numbers(x.shape()), places(first, end, Dims::filled(shape.size(), 1)));
  Numbers from = xt::full_like(numbers(shape), -1);
  auto holes = xt::strided_view(from, places(target, target_end, step));
  xt::noalias(holes) = kept;
  return gathered(x, from, shape);
}

Array concatenate(Operands parts, DType dtype, const Shape& shape, int64_t axis) {
  // Seen as [before, axis, after], a part is `before` runs of bytes.
  Array result(dtype, shape);
  int64_t before = 1, offset = 0;
  for (int64_t i = 0; i < axis; ++i) before *= shape[i];
  auto* target = static_cast<std::byte*>(result.raw());
  for (const Array& part : parts) {
    const int64_t run = before == 0 ? 0 : part.bytes() / before, whole = before == 0 ? 0 : result.bytes() / before;
    for (int64_t i = 0; i < before; ++i)
      std::memcpy(target + i * whole + offset, static_cast<const std::byte*>(part.raw()) + i * run,
                  static_cast<size_t>(run));
    offset += run;
  }
  return result;
}

Array reverse(const Array& x, const Dims& axes) {
  if (x.size() == 0) return x;
  Numbers from = numbers(x.shape());
  for (int64_t axis : axes) from = Numbers(xt::flip(from, static_cast<size_t>(axis)));
  return gathered(x, from, x.shape());
}

Array iota(DType dtype, const Shape& shape, int64_t axis) {
  Array counted(DType::i64, {shape[axis]});
  view<int64_t>(counted) = xt::arange<int64_t>(shape[axis]);
  return broadcast_in_dim(counted.converted(dtype), shape, {axis});
}

namespace {

template <class T>
Array reduced(const Array& x, const Shape& shape, const ReduceDims& dims) {
  using Limits = std::numeric_limits<T>;
  constexpr T lowest = Limits::has_infinity ? -Limits::infinity() : Limits::min();
  constexpr T highest = Limits::has_infinity ? Limits::infinity() : Limits::max();
  const auto fold = [&](T initial, T (*function)(T, T)) {
    std::vector<size_t> axes = xshape(dims.axes);
    std::sort(axes.begin(), axes.end());
    Array result(x.dtype(), shape);
    auto out = view<T>(result);
    xt::noalias(out) = xt::reduce(xt::make_xreducer_functor(function, xt::const_value<T>(initial)), view<T>(x), axes);
    return result;
  };
  switch (dims.kind) {
    case Reduction::max: return fold(lowest, [](T a, T b) { return a > b || a != a ? a : b; });  // NaN wins
    case Reduction::min: return fold(highest, [](T a, T b) { return a < b || a != a ? a : b; });
    case Reduction::product:
      return fold(1, [](T a, T b) {
        if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
        else return a * b;
      });
    default: return fold(0, wrapping_sum<T>);
  }
}

}  // namespace

Array reduce(const Array& x, const Shape& shape, const ReduceDims& dims) {
  if (x.size() == 0) return Array::full(x.dtype(), shape, dims.kind == Reduction::product ? 1 : 0);
  // Integers add up in i64 (the low bits are right), halves in f32, rounded once.
  const DType dtype = x.dtype();
  if (dtype == DType::f64) return reduced<double>(x, shape, dims);
  if (is_float(dtype)) return reduced<float>(x.converted(DType::f32), shape, dims).converted(dtype);
  return reduced<int64_t>(x.converted(DType::i64), shape, dims).converted(dtype);
}

}  // namespace backbeat::reference
