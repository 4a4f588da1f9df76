// Products as plain loops, their terms added in ascending order in the dtype (halves: in f32, rounded once); random bits.
#include "devices/reference/evaluate.hpp"
#include "engine/philox.hpp"

namespace backbeat::reference {

namespace {

int64_t count(const Shape& shape, const Dims& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= shape[d];
  return n;
}

// Moves batch dimensions to the front and the contracting ones behind or before the free ones.
Array arranged(const Array& x, const Dims& batch, const Dims& contracting, bool contracting_last) {
  Dims order = batch;
  if (!contracting_last)
    for (int64_t d : contracting) order.push_back(d);
  for (int64_t d = 0; d < x.shape().size(); ++d)
    if (!batch.contains(d) && !contracting.contains(d)) order.push_back(d);
  if (contracting_last)
    for (int64_t d : contracting) order.push_back(d);
  return transpose(x, order);
}

template <class T>
void add_product(T& sum, T x, T y) { sum += x * y; }
void add_product(int64_t& sum, int64_t x, int64_t y) {  // wraps
  sum = static_cast<int64_t>(static_cast<uint64_t>(sum) + static_cast<uint64_t>(x) * static_cast<uint64_t>(y));
}

template <class T>
Array products(const Array& lhs, const Array& rhs, const Shape& shape, const DotDims& dims) {
  const int64_t batches = count(lhs.shape(), dims.lhs_batch), depth = count(lhs.shape(), dims.lhs_contracting);
  Array result = Array::zeros(dtype_of<T>(), shape);
  if (result.size() == 0 || depth == 0) return result;
  const int64_t rows = lhs.size() / (batches * depth), columns = rhs.size() / (batches * depth);
  const Array a = arranged(lhs, dims.lhs_batch, dims.lhs_contracting, true);   // [batch, row, depth]
  const Array b = arranged(rhs, dims.rhs_batch, dims.rhs_contracting, false);  // [batch, depth, column]
  const T* x = a.data<T>();
  const T* y = b.data<T>();
  T* out = result.data<T>();
  for (int64_t batch = 0; batch < batches; ++batch)
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t k = 0; k < depth; ++k)
        for (int64_t column = 0; column < columns; ++column)
          add_product(out[(batch * rows + row) * columns + column], x[(batch * rows + row) * depth + k],
                      y[(batch * depth + k) * columns + column]);
  return result;
}

// Calls body(index) for every index of a box, the last dimension fastest.
template <class Body>
void for_each_index(const Shape& box, Body&& body) {
  if (element_count(box) == 0) return;
  Dims index = Dims::filled(box.size(), 0);
  while (true) {
    body(index);
    int64_t d = box.size() - 1;
    while (d >= 0 && ++index[d] == box[d]) index[d--] = 0;
    if (d < 0) return;
  }
}

Shape spatial_shape(const Shape& shape, const ConvLayout& layout) {
  Shape spatial;
  for (int64_t d : layout.spatial) spatial.push_back(shape[d]);
  return spatial;
}

// Where a spatial index lies in an operand, in elements.
int64_t spatial_offset(const Dims& strides, const ConvLayout& layout, const Dims& index) {
  int64_t offset = 0;
  for (int64_t i = 0; i < index.size(); ++i) offset += index[i] * strides[layout.spatial[i]];
  return offset;
}

// The input element that `out` and `tap` (an index into the kernel's window) meet; -1 where it is padding.
int64_t input_offset(const Shape& input, const Dims& strides, const ConvDims& d, const Dims& out, const Dims& tap) {
  Dims index;
  for (int64_t i = 0; i < out.size(); ++i) {
    const int64_t dilated = out[i] * d.strides[i] + tap[i] * d.kernel_dilation[i] - d.pad_low[i];
    if (dilated < 0 || dilated % d.lhs_dilation[i] != 0) return -1;
    index.push_back(dilated / d.lhs_dilation[i]);
    if (index[i] >= input[d.lhs.spatial[i]]) return -1;
  }
  return spatial_offset(strides, d.lhs, index);
}

template <class T>
Array correlation(const Array& lhs, const Array& kernel, const Shape& shape, const ConvDims& d) {
  Array result = Array::zeros(dtype_of<T>(), shape);
  const T* x = lhs.data<T>();
  const T* w = kernel.data<T>();
  T* out = result.data<T>();
  const Dims xs = row_major_strides(lhs.shape()), ws = row_major_strides(kernel.shape()), os = row_major_strides(shape);
  const int64_t batches = shape[d.out.batch], outputs = shape[d.out.feature], inputs = kernel.shape()[d.kernel.feature];

  struct Meeting {
    int64_t input, tap;
  };
  std::vector<Meeting> meetings;
  for_each_index(spatial_shape(shape, d.out), [&](const Dims& at) {
    meetings.clear();
    for_each_index(spatial_shape(kernel.shape(), d.kernel), [&](const Dims& tap) {
      const int64_t input = input_offset(lhs.shape(), xs, d, at, tap);
      if (input >= 0) meetings.push_back({input, spatial_offset(ws, d.kernel, tap)});
    });
    for (int64_t n = 0; n < batches; ++n)
      for (int64_t o = 0; o < outputs; ++o) {
        const int64_t feature_group = o / (outputs / d.feature_groups), batch_group = o / (outputs / d.batch_groups);
        const T* sample =
            x + (batch_group * batches + n) * xs[d.lhs.batch] + feature_group * inputs * xs[d.lhs.feature];
        const T* weights = w + o * ws[d.kernel.batch];
        T total = 0;
        for (int64_t f = 0; f < inputs; ++f)
          for (const Meeting& m : meetings)
            total += sample[m.input + f * xs[d.lhs.feature]] * weights[m.tap + f * ws[d.kernel.feature]];
        out[n * os[d.out.batch] + o * os[d.out.feature] + spatial_offset(os, d.out, at)] = total;
      }
  });
  return result;
}

}  // namespace

Array dot_general(const Array& lhs, const Array& rhs, const Shape& shape, const DotDims& dims) {
  const DType result = dims.accumulation.value_or(lhs.dtype());
  const DType sums = is_integer(result) ? DType::i64 : result == DType::f64 ? DType::f64 : DType::f32;
  const Array a = lhs.converted(sums), b = rhs.converted(sums);
  return (sums == DType::i64   ? products<int64_t>(a, b, shape, dims)
          : sums == DType::f64 ? products<double>(a, b, shape, dims)
                               : products<float>(a, b, shape, dims))
      .converted(result);
}

Array convolution(const Array& lhs, const Array& kernel, const Shape& shape, const ConvDims& dims) {
  const DType dtype = lhs.dtype();
  if (dtype == DType::f64) return correlation<double>(lhs, kernel, shape, dims);
  return correlation<float>(lhs.converted(DType::f32), kernel.converted(DType::f32), shape, dims).converted(dtype);
}

Array rng_bit_generator(const Array& key, const Shape& shape) {
  const uint32_t* k = key.data<uint32_t>();  // seed low, seed high, stream, step, first sample
  Array result(DType::u32, shape);
  const int64_t samples = shape[0], words = samples == 0 ? 0 : result.size() / samples;
  for (int64_t i = 0; i < samples; ++i)
    for (int64_t w = 0; w < words; ++w) {
      const auto four =
          philox4x32({static_cast<uint32_t>(w / 4), k[4] + static_cast<uint32_t>(i), k[3], k[1]}, {k[0], k[2]});
      result.data<uint32_t>()[i * words + w] = four[static_cast<size_t>(w % 4)];
    }
  return result;
}

}  // namespace backbeat::reference
