#include "tests/samples.hpp"

#include <algorithm>

#include "engine/philox.hpp"

namespace backbeat::test {

uint32_t Draw::word() { return philox4x32({count_++, 0, 0, 0}, {seed_, 77})[0]; }

int64_t Draw::integer(int64_t low, int64_t high) { return low + static_cast<int64_t>(word() % static_cast<uint64_t>(high - low + 1)); }

Shape Draw::shape(int64_t least_rank, int64_t most_rank, int64_t least, int64_t most) {
  Shape s;
  for (int64_t i = integer(least_rank, most_rank); i > 0; --i) s.push_back(integer(least, most));
  return s;
}

Array Draw::between(double low, double high, const Shape& shape) {
  Array a(DType::f64, shape);
  for (int64_t i = 0; i < a.size(); ++i) a.data<double>()[i] = low + (high - low) * (word() + 0.5) * 0x1p-32;
  return a;
}

Array Draw::not_zero(const Shape& shape) {
  Array a = any(shape);
  for (int64_t i = 0; i < a.size(); ++i) a.data<double>()[i] += a.data<double>()[i] < 0 ? -0.2 : 0.2;
  return a;
}

Array Draw::distinct(const Shape& shape) {
  Array a = between(0, 0.1, shape);
  std::vector<int64_t> place(static_cast<size_t>(a.size()));
  for (size_t i = 0; i < place.size(); ++i) place[i] = static_cast<int64_t>(i);
  for (size_t i = place.size(); i > 1; --i) std::swap(place[i - 1], place[static_cast<size_t>(integer(0, static_cast<int64_t>(i) - 1))]);
  for (int64_t i = 0; i < a.size(); ++i) a.data<double>()[i] += 0.2 * static_cast<double>(place[static_cast<size_t>(i)] - a.size() / 2);
  return a;
}

Array Draw::indices(const Shape& shape, int64_t low, int64_t high) {
  Array a(DType::i32, shape);
  for (int64_t i = 0; i < a.size(); ++i) a.set(i, static_cast<double>(integer(low, high)));
  return a;
}

namespace {

using Tensors = std::vector<Tensor>;
using Draws = Array (Draw::*)(const Shape&);

std::function<Sample(Draw&)> unary(Tensor (*f)(Operand), Draws draw = &Draw::any) {
  return [=](Draw& d) { return Sample{{(d.*draw)(d.shape(0, 4))}, [=](const Tensors& t) { return f(t[0]); }}; };
}

// Sometimes the second operand broadcasts.
std::function<Sample(Draw&)> binary(Tensor (*f)(Operand, Operand), Draws first = &Draw::any, Draws second = &Draw::any) {
  return [=](Draw& d) {
    const Shape shape = d.shape(1, 4);
    Shape other = shape;
    if (d.coin()) other[d.axis(shape)] = 1;
    return Sample{{(d.*first)(shape), (d.*second)(other)}, [=](const Tensors& t) { return f(t[0], t[1]); }};
  };
}

// A function that moves elements, of one operand.
using Moves = std::function<Tensor(Tensor)>;
std::function<Sample(Draw&)> moved(std::function<Moves(Draw&, const Shape&)> choose, int64_t least_rank = 1, Draws draw = &Draw::any) {
  return [=](Draw& d) {
    const Shape shape = d.shape(least_rank, 4);
    Array x = (d.*draw)(shape);
    const Moves f = choose(d, shape);
    return Sample{{x}, [=](const Tensors& t) { return f(t[0]); }};
  };
}

Dims permutation_of(Draw& d, int64_t n) {
  Dims p = Dims::range(n);
  for (int64_t i = n; i > 1; --i) std::swap(p[i - 1], p[d.integer(0, i - 1)]);
  return p;
}

Dims some_axes(Draw& d, const Shape& shape) {
  Dims axes;
  for (int64_t i = 0; i < shape.size(); ++i)
    if (d.coin()) axes.push_back(i);
  if (axes.empty()) axes.push_back(d.axis(shape));
  return axes;
}

Dims each(Draw& d, int64_t count, int64_t low, int64_t high) {
  Dims dims;
  for (int64_t i = 0; i < count; ++i) dims.push_back(d.integer(low, high));
  return dims;
}

Moves slices(Draw& d, const Shape& shape) {
  Dims start, limit, stride;
  for (int64_t n : shape) {
    start.push_back(d.integer(0, n - 1));
    limit.push_back(d.integer(start.back() + 1, n));
    stride.push_back(d.integer(1, 3));
  }
  return [=](Tensor x) { return slice(x, start, limit, stride); };
}

Moves pads(Draw& d, const Shape& shape) {
  PadDims dims{each(d, shape.size(), -1, 2), each(d, shape.size(), 0, 2), each(d, shape.size(), 0, 2)};
  return [=](Tensor x) { return pad(x, dims); };
}

Moves broadcasts(Draw& d, const Shape& shape) {
  Shape out;
  Dims dims;
  for (int64_t i = 0; i < shape.size(); ++i) {
    if (d.coin() && out.size() < 4) out.push_back(d.integer(1, 3));
    dims.push_back(out.size());
    out.push_back(shape[i] == 1 ? d.integer(1, 3) : shape[i]);
  }
  return [=](Tensor x) { return broadcast_in_dim(x, out, dims); };
}

Sample reduces(Draw& d, Reduction kind) {
  const Shape shape = d.shape(1, 4);
  const Dims axes = some_axes(d, shape);
  return {{kind == Reduction::product ? d.not_zero(shape) : kind == Reduction::sum ? d.positive(shape) : d.distinct(shape)},
          [=](const Tensors& t) { return reduce(t[0], kind, axes); }};
}

// Windows that see at least one element each, so that max and min are finite.
WindowDims window_of(Draw& d, const Shape& shape, Reduction kind) {
  WindowDims w;
  w.kind = kind;
  for (int64_t n : shape) {
    const int64_t window = d.integer(1, std::min<int64_t>(3, n));
    w.window.push_back(window), w.strides.push_back(d.integer(1, 3));
    w.base_dilation.push_back(kind == Reduction::sum ? d.integer(1, 2) : 1);
    w.window_dilation.push_back((window - 1) * 2 + 1 <= n ? d.integer(1, 2) : 1);
    w.pad_low.push_back(w.window_dilation.back() == 1 ? d.integer(0, window - 1) : 0);
    w.pad_high.push_back(w.window_dilation.back() == 1 ? d.integer(0, window - 1) : 0);
  }
  return w;
}

Sample windows(Draw& d, Reduction kind) {
  const Shape shape = d.shape(1, 4);
  const WindowDims dims = window_of(d, shape, kind);
  return {{kind == Reduction::sum ? d.any(shape) : d.distinct(shape)}, [=](const Tensors& t) { return reduce_window(t[0], dims); }};
}

Sample selects(Draw& d, bool scatters) {
  const Shape shape = d.shape(1, 4);
  const WindowDims dims = window_of(d, shape, d.coin() ? Reduction::max : Reduction::min);
  const Array source = d.any(scatters ? window_shape(shape, dims) : shape);
  return {{d.distinct(shape), source}, [=](const Tensors& t) {
            return scatters ? select_and_scatter(t[0], t[1], dims) : select_and_gather(t[0], t[1], dims);
          }};
}

// Dimensions of a gather: a choice of the operand's are indexed, some of those collapsed.
struct Places {
  GatherDims dims;
  Array indices;
  Shape slices;
};
Places places_of(Draw& d, const Shape& shape, bool unique) {
  Places p;
  GatherDims& g = p.dims;
  g.bounds = d.coin() ? Bounds::clip : Bounds::fill_or_drop;
  const int64_t axis = d.axis(shape), rows = d.integer(1, 4);
  g.index_map = {axis};
  if (!unique && shape.size() > 1 && d.coin()) g.index_map.push_back(axis == 0 ? 1 : 0);
  const bool collapse = d.coin();
  for (int64_t i = 0; i < shape.size(); ++i) {
    const bool indexed = g.index_map.contains(i);
    g.slice_sizes.push_back(!indexed ? shape[i] : collapse || unique ? 1 : d.integer(1, shape[i]));
    if (indexed && collapse) g.collapsed.push_back(i);
  }
  // With one dimension of indices, the slices' dimensions come before or after it.
  const bool batch_first = d.coin();
  const int64_t kept = shape.size() - g.collapsed.size();
  for (int64_t i = 0; i < kept; ++i) g.offset.push_back(batch_first ? i + 1 : i);
  const int64_t count = unique ? std::min(rows, shape[axis]) : rows;
  p.indices = d.indices({count, g.index_map.size()}, -1, 4);
  if (unique)
    for (int64_t i = 0; i < count; ++i) p.indices.set(i, static_cast<double>((i + 1) % shape[axis]));
  if (batch_first) p.slices.push_back(count);
  for (int64_t i = 0; i < shape.size(); ++i)
    if (!g.collapsed.contains(i)) p.slices.push_back(g.slice_sizes[i]);
  if (!batch_first) p.slices.push_back(count);
  return p;
}

Sample gathers(Draw& d) {
  const Shape shape = d.shape(1, 4);
  const Places p = places_of(d, shape, false);
  return {{d.any(shape)}, [=](const Tensors& t) { return gather(t[0], constant(t[0].tape(), p.indices), p.dims); }};
}

Sample scatters(Draw& d, bool add) {
  const Shape shape = d.shape(1, 4);
  const Places p = places_of(d, shape, !add);
  return {{d.any(shape), d.any(p.slices)},
          [=](const Tensors& t) { return scatter(t[0], constant(t[0].tape(), p.indices), t[1], {p.dims, add}); }};
}

Sample dynamic(Draw& d, bool update) {
  const Shape shape = d.shape(1, 4);
  Dims sizes;
  for (int64_t n : shape) sizes.push_back(d.integer(1, n));
  const Array start = d.indices({shape.size()}, -1, 4);
  if (!update) return {{d.any(shape)}, [=](const Tensors& t) { return dynamic_slice(t[0], constant(t[0].tape(), start), sizes); }};
  return {{d.any(shape), d.any(sizes)},
          [=](const Tensors& t) { return dynamic_update_slice(t[0], t[1], constant(t[0].tape(), start)); }};
}

Sample products(Draw& d) {
  const int64_t batch = d.integer(1, 3), m = d.integer(1, 4), k = d.integer(1, 4), n = d.integer(1, 4);
  const Dims left = permutation_of(d, 3), right = permutation_of(d, 3);  // where batch, free and contracting dimensions go
  Shape lhs = Shape::filled(3, 0), rhs = lhs;
  lhs[left[0]] = batch, lhs[left[1]] = m, lhs[left[2]] = k;
  rhs[right[0]] = batch, rhs[right[1]] = n, rhs[right[2]] = k;
  const DotDims dims{{left[0]}, {right[0]}, {left[2]}, {right[2]}};
  return {{d.positive(lhs), d.positive(rhs)}, [=](const Tensors& t) { return dot_general(t[0], t[1], dims); }};
}

Sample convolves(Draw& d) {
  ConvDims c;
  c.feature_groups = d.integer(1, 2), c.batch_groups = c.feature_groups == 1 ? d.integer(1, 2) : 1;
  c.strides = each(d, 2, 1, 3), c.pad_low = each(d, 2, -1, 2), c.pad_high = each(d, 2, 0, 2);
  c.lhs_dilation = each(d, 2, 1, 2), c.kernel_dilation = each(d, 2, 1, 2);
  const int64_t in = d.integer(1, 2), out = d.integer(1, 2) * c.feature_groups * c.batch_groups;
  const Shape lhs{c.batch_groups * d.integer(1, 2), in * c.feature_groups, d.integer(3, 5), d.integer(3, 5)};
  const Shape kernel{out, in, d.integer(1, 3), d.integer(1, 3)};
  return {{d.positive(lhs), d.positive(kernel)}, [=](const Tensors& t) { return convolution(t[0], t[1], c); }};
}

Sample clamps(Draw& d) {
  const Shape shape = d.shape(0, 4);
  return {{d.between(-1.2, -0.4, shape), d.between(-2, 2, shape), d.between(0.4, 1.2, shape)},
          [](const Tensors& t) { return clamp(t[0], t[1], t[2]); }};
}

Sample calls(Draw& d, bool again) {
  const Shape shape = d.shape(1, 3);
  CallOptions options;
  options.recompute = again;
  return {{d.any(shape), d.any(shape)}, [=](const Tensors& t) {
            const auto body = [](const Tensors& x) { return Tensors{x[0] * x[1], x[0] * x[0]}; };
            const Tensors results = call("body", body, {t[0], t[1]}, options);
            return results[0] + results[1] * t[1];
          }};
}

}  // namespace

const std::vector<PrimitiveSamples>& all_samples() {
  static const std::vector<PrimitiveSamples> rows{
      {Op::negate, "negate", unary(negate)},
      {Op::abs, "abs", unary(abs, &Draw::not_zero)},
      {Op::sign, "sign", unary(sign, &Draw::not_zero)},
      {Op::exp, "exp", unary(exp), 0, 2},
      {Op::expm1, "expm1", unary(expm1), 0, 2},
      {Op::log, "log", unary(log, &Draw::positive), 0, 2},
      {Op::log1p, "log1p", unary(log1p, &Draw::positive), 0, 2},
      {Op::sqrt, "sqrt", unary(sqrt, &Draw::positive)},
      {Op::rsqrt, "rsqrt", unary(rsqrt, &Draw::positive), 0, 2},
      {Op::tanh, "tanh", unary(tanh), 0, 2},
      {Op::logistic, "logistic", unary(logistic), 2, 3},
      {Op::erf, "erf", unary(erf), 0, 2},
      {Op::sine, "sine", unary(sine), 0, 2},
      {Op::cosine, "cosine", unary(cosine), 0, 2},
      {Op::floor, "floor", unary(floor)},
      {Op::ceil, "ceil", unary(ceil)},
      {Op::round_nearest_even, "round_nearest_even", unary(round_nearest_even)},
      {Op::is_finite, "is_finite", unary(is_finite)},
      {Op::logical_not, "logical_not",
       [](Draw& d) { return Sample{{d.any(d.shape(1, 4))}, [](const Tensors& t) { return logical_not(t[0] > t[0] * t[0]); }}; }},
      {Op::convert, "convert",
       [](Draw& d) {
         return Sample{{d.any(d.shape(0, 4))}, [](const Tensors& t) {
                         return convert(convert(t[0], DType::f64), t[0].dtype());
                       }};
       }},
      {Op::reduce_precision, "reduce_precision",
       [](Draw& d) {  // all of f64: what fewer bits round is no function to take differences of
         return Sample{{d.any(d.shape(0, 4))}, [](const Tensors& t) { return reduce_precision(t[0], 11, 52); }};
       }},
      {Op::stop_gradient, "stop_gradient", unary(stop_gradient)},
      {Op::add, "add", binary(add)},
      {Op::subtract, "subtract", binary(subtract)},
      {Op::multiply, "multiply", binary(multiply)},
      {Op::divide, "divide", binary(divide, &Draw::any, &Draw::not_zero)},
      {Op::remainder, "remainder",
       [](Draw& d) {  // quotients in 1.2 ... 1.8, away from the jumps at whole numbers
         const Shape shape = d.shape(1, 4);
         Array b = d.not_zero(shape), a = d.between(1.2, 1.8, shape);
         for (int64_t i = 0; i < a.size(); ++i) a.data<double>()[i] *= b.data<double>()[i];
         return Sample{{a, b}, [](const Tensors& t) { return remainder(t[0], t[1]); }};
       }},
      {Op::maximum, "maximum", binary(maximum)},
      {Op::minimum, "minimum", binary(minimum)},
      {Op::power, "power", binary(power, &Draw::positive), 1, 4},
      {Op::bitwise_and, "bitwise_and", binary(bitwise_and)},
      {Op::bitwise_or, "bitwise_or", binary(bitwise_or)},
      {Op::bitwise_xor, "bitwise_xor", binary(bitwise_xor)},
      {Op::shift_left, "shift_left", binary(shift_left, &Draw::any, &Draw::positive)},
      {Op::shift_right_logical, "shift_right_logical", binary(shift_right_logical, &Draw::any, &Draw::positive)},
      {Op::shift_right_arithmetic, "shift_right_arithmetic", binary(shift_right_arithmetic, &Draw::any, &Draw::positive)},
      {Op::compare, "compare",
       [](Draw& d) {
         const Shape shape = d.shape(1, 4);
         const Direction direction = static_cast<Direction>(d.integer(0, 5));
         return Sample{{d.any(shape), d.any(shape)}, [=](const Tensors& t) { return compare(t[0], t[1], direction); }};
       }},
      {Op::select, "select",
       [](Draw& d) {
         const Shape shape = d.shape(1, 4);
         return Sample{{d.any(shape), d.any(shape)}, [](const Tensors& t) {
                         const Tensor place = iota(t[0].tape(), DType::i32, t[0].shape(), 0);
                         return select(place > 0, t[0], t[1]);
                       }};
       }},
      {Op::clamp, "clamp", clamps},
      {Op::reshape, "reshape", moved([](Draw&, const Shape& s) -> Moves { return [=](Tensor x) { return reshape(x, {element_count(s)}); }; }, 2)},
      {Op::transpose, "transpose",
       moved([](Draw& d, const Shape& s) -> Moves {
         const Dims p = permutation_of(d, s.size());
         return [=](Tensor x) { return transpose(x, p); };
       }, 2)},
      {Op::broadcast_in_dim, "broadcast_in_dim", moved(broadcasts)},
      {Op::slice, "slice", moved(slices)},
      {Op::pad, "pad", moved(pads)},
      {Op::concatenate, "concatenate",
       [](Draw& d) {
         const Shape shape = d.shape(1, 4);
         const int64_t axis = d.axis(shape);
         Shape other = shape;
         other[axis] = d.integer(0, 3);
         return Sample{{d.any(shape), d.any(other)}, [=](const Tensors& t) { return concatenate({t[0], t[1], t[0]}, axis); }};
       }},
      {Op::reverse, "reverse",
       moved([](Draw& d, const Shape& s) -> Moves {
         const Dims axes = some_axes(d, s);
         return [=](Tensor x) { return reverse(x, axes); };
       })},
      {Op::dynamic_slice, "dynamic_slice", [](Draw& d) { return dynamic(d, false); }},
      {Op::dynamic_update_slice, "dynamic_update_slice", [](Draw& d) { return dynamic(d, true); }},
      {Op::gather, "gather", gathers},
      {Op::scatter, "scatter add", [](Draw& d) { return scatters(d, true); }},
      {Op::scatter, "scatter set", [](Draw& d) { return scatters(d, false); }},
      {Op::sort, "sort",
       moved([](Draw& d, const Shape& s) -> Moves {
         const int64_t axis = d.axis(s);
         return [=](Tensor x) { return sort(x, axis); };
       }, 1, &Draw::distinct)},
      {Op::sort, "sort by keys",
       [](Draw& d) {
         const Shape shape = d.shape(1, 4);
         const int64_t axis = d.axis(shape);
         return Sample{{d.distinct(shape), d.any(shape)}, [=](const Tensors& t) { return sort_by(t[0], t[1], axis); }};
       }},
      {Op::reduce, "reduce sum", [](Draw& d) { return reduces(d, Reduction::sum); }, 2, 2},
      {Op::reduce, "reduce max", [](Draw& d) { return reduces(d, Reduction::max); }},
      {Op::reduce, "reduce min", [](Draw& d) { return reduces(d, Reduction::min); }},
      {Op::reduce, "reduce product", [](Draw& d) { return reduces(d, Reduction::product); }, 4, 4},
      {Op::argmax, "argmax",
       moved([](Draw& d, const Shape& s) -> Moves {
         const int64_t axis = d.axis(s);
         const bool most = d.coin();
         return [=](Tensor x) { return most ? argmax(x, axis) : argmin(x, axis); };
       }, 1, &Draw::distinct)},
      {Op::cumsum, "cumsum",
       moved([](Draw& d, const Shape& s) -> Moves {
         const int64_t axis = d.axis(s);
         const bool backwards = d.coin();
         return [=](Tensor x) { return cumsum(x, axis, backwards); };
       })},
      {Op::reduce_window, "reduce_window sum", [](Draw& d) { return windows(d, Reduction::sum); }},
      {Op::reduce_window, "reduce_window max", [](Draw& d) { return windows(d, Reduction::max); }},
      {Op::reduce_window, "reduce_window min", [](Draw& d) { return windows(d, Reduction::min); }},
      {Op::select_and_scatter, "select_and_scatter", [](Draw& d) { return selects(d, true); }},
      {Op::select_and_gather, "select_and_gather", [](Draw& d) { return selects(d, false); }},
      {Op::dot_general, "dot_general", products, 2, 2},
      {Op::convolution, "convolution", convolves, 2, 2},
      {Op::all_reduce, "all_reduce", moved([](Draw&, const Shape&) -> Moves { return [](Tensor x) { return all_reduce(x, Reduction::sum, 1); }; })},
      {Op::all_gather, "all_gather", moved([](Draw& d, const Shape& s) -> Moves {
         const int64_t axis = d.axis(s);
         return [=](Tensor x) { return all_gather(x, axis, 1); };
       })},
      {Op::reduce_scatter, "reduce_scatter", moved([](Draw& d, const Shape& s) -> Moves {
         const int64_t axis = d.axis(s);
         return [=](Tensor x) { return reduce_scatter(x, axis, 1); };
       })},
      {Op::all_to_all, "all_to_all", moved([](Draw& d, const Shape& s) -> Moves {
         const int64_t from = d.axis(s), to = d.axis(s);
         return [=](Tensor x) { return all_to_all(x, from, to, 1); };
       })},
      {Op::collective_permute, "collective_permute",
       moved([](Draw&, const Shape&) -> Moves { return [](Tensor x) { return collective_permute(x, {{0, 0}}, 1); }; })},
      {Op::optimization_barrier, "optimization_barrier",
       moved([](Draw&, const Shape&) -> Moves { return [](Tensor x) { return optimization_barrier(x, {x * x}); }; })},
      {Op::call, "call", [](Draw& d) { return calls(d, false); }},
      {Op::call, "call, computed again", [](Draw& d) { return calls(d, true); }},
  };
  return rows;
}

}  // namespace backbeat::test
