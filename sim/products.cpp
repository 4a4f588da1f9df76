// Products and convolutions: index tables for engine/host/gemm.hpp, and the order of their passes.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "engine/host/elementwise.hpp"
#include "engine/host/gemm.hpp"
#include "sim/values.hpp"

namespace backbeat::sim {

namespace {

int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// Offsets of all combinations of the dimensions, the last one fastest.
std::vector<int64_t> table(const Layout& layout, const Dims& dims) {
  std::vector<int64_t> offsets = {0};
  for (int64_t d : dims) {
    std::vector<int64_t> next;
    next.reserve(offsets.size() * static_cast<size_t>(layout.shape[d]));
    for (int64_t o : offsets)
      for (int64_t i = 0; i < layout.shape[d]; ++i) next.push_back(o + i * layout.strides[d]);
    offsets = std::move(next);
  }
  return offsets;
}

Dims others(int64_t rank, const Dims& a, const Dims& b) {
  Dims rest;
  for (int64_t d = 0; d < rank; ++d)
    if (!a.contains(d) && !b.contains(d)) rest.push_back(d);
  return rest;
}

std::vector<int64_t> tile_ends(int64_t k, int64_t rows) {
  std::vector<int64_t> ends;
  for (int64_t end = rows; end < k; end += rows) ends.push_back(end);
  if (k > 0) ends.push_back(k);
  return ends;
}

void multiply_integers(const ProductPlan& p, const void* a, const void* b, void* c) {
  const auto at = [](const void* base, DType dtype, int64_t offset) {
    return static_cast<const std::byte*>(base) + offset * size_of(dtype);
  };
  for (const ProductPlan::Batch& batch : p.batches)
    host::gemm_integers(p.m, p.n, p.k, p.a_dtype, {at(a, p.a_dtype, batch.a), p.a_row.data(), p.a_column.data()},
                        {at(b, p.b_dtype, batch.b), p.b_row.data(), p.b_column.data()}, p.c_dtype,
                        static_cast<std::byte*>(c) + batch.c * size_of(p.c_dtype), p.c_row.data(), p.c_column.data());
}

template <class In, class Out>
void multiply(const ProductPlan& p, const In* a, const In* b, Out* c, const std::vector<PassParts>& pass_list) {
  constexpr host::Part parts[] = {host::Part::bf16_high, host::Part::bf16_middle, host::Part::bf16_low};
  for (const ProductPlan::Batch& batch : p.batches) {
    bool accumulate = p.accumulate;
    for (size_t n = 0; n < pass_list.size(); ++n) {
      if (p.pass >= 0 && static_cast<size_t>(p.pass) != n) continue;
      const PassParts& pass = pass_list[n];
      host::GemmOptions options;
      options.accumulate = accumulate;
      options.k_tiles = p.k_tiles;
      options.matrix_unit = !std::is_same_v<Out, double>;
      if constexpr (std::is_same_v<In, float>) {
        if (!p.vector_unit) {
          options.a_part = p.a_rounded ? host::Part::whole : parts[pass.a];
          options.b_part = parts[pass.b];
        }
      }
      host::gemm(p.m, p.n, p.k, host::Indexed<In>{a + batch.a, p.a_row.data(), p.a_column.data()},
                 host::Indexed<In>{b + batch.b, p.b_row.data(), p.b_column.data()},
                 host::IndexedOut<Out>{c + batch.c, p.c_row.data(), p.c_column.data()}, options);
      accumulate = true;
    }
  }
}

const std::vector<PassParts> one_pass = {{0, 0}};

int64_t result_elements(const ProductPlan& p) {
  int64_t last = 0;
  for (const ProductPlan::Batch& b : p.batches) last = std::max(last, b.c);
  return p.m * p.n == 0 ? 0
                        : last + p.c_row.back() + p.c_column.back() + 1;  // row-major results: the last is the largest
}

// What a product multiplies in: f64 if anything is f64. f16, which no unit has, runs as f32.
DType multiplied_dtype(const ProductPlan& p) {
  if (!is_float(p.a_dtype)) return p.a_dtype;
  return p.c_dtype == DType::f64 ? DType::f64 : p.a_dtype == DType::f16 ? DType::f32 : p.a_dtype;
}

// Elements from an operand's base to the last one that a product reads.
int64_t extent(const std::vector<int64_t>& row, const std::vector<int64_t>& column, int64_t last_batch) {
  if (row.empty() || column.empty()) return 0;
  return last_batch + *std::max_element(row.begin(), row.end()) + *std::max_element(column.begin(), column.end()) + 1;
}
int64_t a_extent(const ProductPlan& p) {
  int64_t last = 0;
  for (const ProductPlan::Batch& b : p.batches) last = std::max(last, b.a);
  return extent(p.a_row, p.a_column, last);
}
int64_t b_extent(const ProductPlan& p) {
  int64_t last = 0;
  for (const ProductPlan::Batch& b : p.batches) last = std::max(last, b.b);
  return extent(p.b_row, p.b_column, last);
}

const void* widened(DType from, DType to, const void* in, int64_t n, std::byte*& free) {
  void* out = free;
  free += aligned(n * size_of(to));
  if (to == DType::f32) host::widen(from, in, static_cast<float*>(out), n);
  else host::widen(from, in, static_cast<double*>(out), n);
  return out;
}

}  // namespace

const std::vector<PassParts>& passes(Precision precision) {
  static const std::vector<PassParts> three = {{1, 0}, {0, 1}, {0, 0}};
  static const std::vector<PassParts> six = {{2, 0}, {0, 2}, {1, 1}, {1, 0}, {0, 1}, {0, 0}};
  return precision == Precision::standard ? one_pass : precision == Precision::high ? three : six;
}

ProductPlan plan_product(const DotDims& dims, const Layout& a, const Layout& b, const Shape& out, DType dtype,
                         int64_t array_rows) {
  ProductPlan p;
  p.a_dtype = p.b_dtype = dtype;
  p.c_dtype = dims.accumulation.value_or(dtype);
  p.precision = dtype == DType::f16 ? Precision::highest : dims.precision;
  const Dims a_free = others(a.shape.size(), dims.lhs_batch, dims.lhs_contracting);
  const Dims b_free = others(b.shape.size(), dims.rhs_batch, dims.rhs_contracting);
  p.a_row = table(a, a_free);
  p.a_column = table(a, dims.lhs_contracting);
  p.b_row = table(b, dims.rhs_contracting);
  p.b_column = table(b, b_free);
  p.m = static_cast<int64_t>(p.a_row.size());
  p.k = static_cast<int64_t>(p.a_column.size());
  p.n = static_cast<int64_t>(p.b_column.size());
  const Layout c = Layout::row_major(out);
  const int64_t batch_rank = dims.lhs_batch.size(), m_rank = a_free.size();
  Dims c_batch, c_m, c_n;
  for (int64_t d = 0; d < out.size(); ++d)
    (d < batch_rank ? c_batch : d < batch_rank + m_rank ? c_m : c_n).push_back(d);
  p.c_row = table(c, c_m);
  p.c_column = table(c, c_n);
  const std::vector<int64_t> a_batch = table(a, dims.lhs_batch), b_batch = table(b, dims.rhs_batch),
                             c_offsets = table(c, c_batch);
  for (size_t i = 0; i < a_batch.size(); ++i)
    p.batches.push_back({a_batch[i] + a.offset, b_batch[i] + b.offset, c_offsets[i]});
  p.k_tiles = tile_ends(p.k, array_rows);
  p.vector_unit = dtype == DType::f32 && p.c_dtype == DType::f32 && (p.m == 1 || p.n == 1);
  return p;
}

int64_t scratch_bytes(const ProductPlan& p) {
  const DType multiplied = multiplied_dtype(p);
  int64_t bytes = is_half(p.c_dtype) ? aligned(result_elements(p) * 4) : 0;
  if (multiplied != p.a_dtype) bytes += aligned(a_extent(p) * size_of(multiplied)) + aligned(b_extent(p) * size_of(multiplied));
  return bytes;
}

void compute(const ProductPlan& p, const void* a, const void* b, void* c, void* scratch) {
  if (is_integer(p.a_dtype)) return multiply_integers(p, a, b, c);
  std::byte* free = static_cast<std::byte*>(scratch);
  const DType multiplied = multiplied_dtype(p);
  if (multiplied != p.a_dtype) {
    a = widened(p.a_dtype, multiplied, a, a_extent(p), free);
    b = widened(p.b_dtype, multiplied, b, b_extent(p), free);
  }
  if (multiplied == DType::f64)
    return multiply(p, static_cast<const double*>(a), static_cast<const double*>(b), static_cast<double*>(c), one_pass);
  float* sums = static_cast<float*>(is_half(p.c_dtype) ? free : c);
  if (multiplied == DType::bf16)
    multiply(p, static_cast<const bf16*>(a), static_cast<const bf16*>(b), sums, one_pass);
  else
    multiply(p, static_cast<const float*>(a), static_cast<const float*>(b), sums, p.vector_unit ? one_pass : passes(p.precision));
  if (is_half(p.c_dtype)) host::narrow(p.c_dtype, sums, c, result_elements(p));
}

// --- convolutions

std::vector<Taps> phases_of(int64_t lhs, int64_t kernel, int64_t out, int64_t stride, int64_t pad_low,
                            int64_t lhs_dilation, int64_t kernel_dilation) {
  const int64_t period = lhs_dilation / std::gcd(stride, lhs_dilation);
  std::vector<Taps> phases;
  for (int64_t first = 0; first < std::min(period, out); ++first) {
    Taps p;
    p.first_output = first;
    p.output_step = period;
    p.outputs = (out - first + period - 1) / period;
    p.input_step = period * stride / lhs_dilation;
    for (int64_t t = 0; t < kernel; ++t) {
      const int64_t place = first * stride + t * kernel_dilation - pad_low;  // in the dilated lhs
      if (((place % lhs_dilation) + lhs_dilation) % lhs_dilation != 0) continue;
      const int64_t offset = place / lhs_dilation;
      const int64_t last = offset + (p.outputs - 1) * p.input_step;
      bool meets = false;  // some output sees an element through this tap
      for (int64_t j = 0; j < p.outputs && !meets; ++j) {
        const int64_t at = offset + j * p.input_step;
        meets = at >= 0 && at < lhs;
      }
      if (!meets || last < 0) continue;
      p.kernel.push_back(t);
      p.offset.push_back(offset);
    }
    phases.push_back(std::move(p));
  }
  return phases;
}

std::vector<int64_t> convolution_k_tiles(int64_t taps, int64_t channels, int64_t rows) {
  std::vector<int64_t> used;
  if (channels >= rows) {
    for (int64_t t = 0; t < taps; ++t)
      for (int64_t c = 0; c < channels; c += rows) used.push_back(std::min(rows, channels - c));
  } else {
    const int64_t together = rows / channels;
    for (int64_t t = 0; t < taps; t += together) used.push_back(std::min(together, taps - t) * channels);
  }
  return used;
}

ConvolutionPlan plan_convolution(const ConvDims& dims, const Layout& lhs, const Layout& kernel, const Shape& out,
                                 DType dtype, int64_t array_rows) {
  const int64_t rank = dims.lhs.spatial.size();
  ConvolutionPlan plan;
  plan.dtype = plan.lhs_dtype = dtype;
  plan.precision = dtype == DType::f16 ? Precision::highest : dims.precision;
  plan.rounded = dtype == DType::f32 && dims.precision == Precision::standard;
  plan.output_elements = element_count(out);
  if (plan.output_elements == 0) return plan;
  plan.kernel_extent = element_count(kernel.shape) > 0 ? kernel.offset + 1 : 0;
  for (int64_t d = 0; d < kernel.shape.size() && plan.kernel_extent > 0; ++d)  // a reversed dimension runs down from the offset
    plan.kernel_extent += std::max<int64_t>(0, (kernel.shape[d] - 1) * kernel.strides[d]);

  std::vector<std::vector<Taps>> phases;
  Dims high;
  for (int64_t s = 0; s < rank; ++s) {
    const int64_t size = lhs.shape[dims.lhs.spatial[s]];
    phases.push_back(phases_of(size, kernel.shape[dims.kernel.spatial[s]], out[dims.out.spatial[s]], dims.strides[s],
                               dims.pad_low[s], dims.lhs_dilation[s], dims.kernel_dilation[s]));
    int64_t low = 0, top = size - 1;
    for (const Taps& p : phases.back())
      for (int64_t offset : p.offset) {
        low = std::min(low, offset);
        top = std::max(top, offset + (p.outputs - 1) * p.input_step);
      }
    plan.border.push_back(-low);
    high.push_back(top);
  }

  // The lhs as [batch, spatial..., features], with its border.
  const auto view = [&](int64_t d) {
    plan.lhs.shape.push_back(lhs.shape[d]);
    plan.lhs.strides.push_back(lhs.strides[d]);
  };
  plan.lhs.offset = lhs.offset;
  view(dims.lhs.batch);
  for (int64_t d : dims.lhs.spatial) view(d);
  view(dims.lhs.feature);
  plan.bordered.push_back(plan.lhs.shape[0]);
  for (int64_t s = 0; s < rank; ++s) plan.bordered.push_back(plan.border[s] + high[s] + 1);
  plan.bordered.push_back(plan.lhs.shape[rank + 1]);
  const Dims bordered = row_major_strides(plan.bordered);

  const int64_t feature_groups = dims.feature_groups, batch_groups = dims.batch_groups;
  const int64_t images = plan.lhs.shape[0] / batch_groups;
  const int64_t channels = plan.lhs.shape[rank + 1] / feature_groups;
  const int64_t groups = feature_groups * batch_groups;
  const int64_t features = kernel.shape[dims.kernel.batch] / groups;
  const Dims result = row_major_strides(out);

  std::vector<size_t> choice(static_cast<size_t>(rank), 0);
  const auto for_each_phase = [&](auto&& body) {
    for (;;) {
      body();
      int64_t s = rank - 1;
      for (; s >= 0; --s) {
        if (++choice[static_cast<size_t>(s)] < phases[static_cast<size_t>(s)].size()) break;
        choice[static_cast<size_t>(s)] = 0;
      }
      if (s < 0) break;
    }
  };
  for_each_phase([&] {
    ProductPlan p;
    p.a_dtype = p.b_dtype = dtype;
    p.c_dtype = dtype;
    p.precision = dims.precision;
    p.a_rounded = plan.rounded;
    // Rows: images, then output positions of the phase.
    p.a_row.clear();
    for (int64_t n = 0; n < images; ++n) {
      p.a_row.push_back(n * bordered[0]);
      p.c_row.push_back(n * result[dims.out.batch]);
    }
    std::vector<int64_t> tap_a = {0}, tap_b = {0};
    for (int64_t s = 0; s < rank; ++s) {
      const Taps& taps = phases[static_cast<size_t>(s)][choice[static_cast<size_t>(s)]];
      std::vector<int64_t> a, c, next_a, next_b;
      for (size_t i = 0; i < p.a_row.size(); ++i)
        for (int64_t j = 0; j < taps.outputs; ++j) {
          a.push_back(p.a_row[i] + j * taps.input_step * bordered[s + 1]);
          c.push_back(p.c_row[i] + (taps.first_output + j * taps.output_step) * result[dims.out.spatial[s]]);
        }
      for (size_t i = 0; i < tap_a.size(); ++i)
        for (size_t t = 0; t < taps.kernel.size(); ++t) {
          next_a.push_back(tap_a[i] + (taps.offset[t] + plan.border[s]) * bordered[s + 1]);
          next_b.push_back(tap_b[i] + taps.kernel[t] * kernel.strides[dims.kernel.spatial[s]]);
        }
      p.a_row = std::move(a);
      p.c_row = std::move(c);
      tap_a = std::move(next_a);
      tap_b = std::move(next_b);
    }
    if (tap_a.empty()) {
      plan.overwrites_all = false;
      return;
    }
    for (size_t t = 0; t < tap_a.size(); ++t)
      for (int64_t c = 0; c < channels; ++c) {
        p.a_column.push_back(tap_a[t] + c);
        p.b_row.push_back(tap_b[t] + c * kernel.strides[dims.kernel.feature]);
      }
    for (int64_t o = 0; o < features; ++o) {
      p.b_column.push_back(o * kernel.strides[dims.kernel.batch]);
      p.c_column.push_back(o * result[dims.out.feature]);
    }
    p.m = static_cast<int64_t>(p.a_row.size());
    p.n = features;
    p.k = static_cast<int64_t>(p.a_column.size());
    int64_t end = 0;
    for (int64_t used : convolution_k_tiles(static_cast<int64_t>(tap_a.size()), channels, array_rows))
      p.k_tiles.push_back(end += used);
    for (int64_t g = 0; g < groups; ++g)
      p.batches.push_back({feature_groups > 1 ? g * channels : g * images * bordered[0],
                           kernel.offset + g * features * kernel.strides[dims.kernel.batch],
                           g * features * result[dims.out.feature]});
    plan.products.push_back(std::move(p));
  });
  return plan;
}

namespace {

template <class From, class T>
void copy_with_border(const ConvolutionPlan& plan, const From* lhs, T* bordered) {
  const bool rounded = plan.rounded;
  const auto value = [&](From x) {
    if constexpr (std::is_same_v<From, float>)
      return rounded ? static_cast<float>(bf16(x)) : x;
    else
      return static_cast<T>(x);
  };
  const int64_t rank = plan.border.size(), features = plan.bordered.back();
  const int64_t images = plan.bordered[0];
  const Dims strides = row_major_strides(plan.bordered);
  const int64_t image = strides[0];
  const int64_t feature_stride = plan.lhs.strides[rank + 1];
  const int64_t width = plan.lhs.shape[rank];  // the last spatial dimension
  const int64_t width_stride = plan.lhs.strides[rank];
  int64_t lines = 1;  // of `width` positions in an image
  for (int64_t s = 0; s + 1 < rank; ++s) lines *= plan.lhs.shape[s + 1];
#pragma omp parallel for schedule(static) if (images * image > 32768)
  for (int64_t n = 0; n < images; ++n) {
    T* to_image = bordered + n * image;
    std::fill(to_image, to_image + image, T(0.0f));
    for (int64_t line = 0; line < lines; ++line) {
      int64_t from = plan.lhs.offset + n * plan.lhs.strides[0], to = plan.border[rank - 1] * strides[rank], rest = line;
      for (int64_t s = rank - 2; s >= 0; --s) {
        const int64_t i = rest % plan.lhs.shape[s + 1];
        rest /= plan.lhs.shape[s + 1];
        from += i * plan.lhs.strides[s + 1];
        to += (i + plan.border[s]) * strides[s + 1];
      }
      if (feature_stride == 1 && width_stride == features) {  // a line of the lhs is a line of the copy
        if constexpr (std::is_same_v<From, float>) {
          if (rounded) {
            host::round_to_half(DType::bf16, lhs + from, to_image + to, width * features);
            continue;
          }
        }
        if constexpr (std::is_same_v<From, T>) std::copy(lhs + from, lhs + from + width * features, to_image + to);
        else host::widen(dtype_of<From>(), lhs + from, to_image + to, width * features);
      } else {
        for (int64_t c0 = 0; c0 < features; c0 += 16)  // 16 source lines at a time, each read along its own memory
          for (int64_t x = 0; x < width; ++x)
            for (int64_t c = c0; c < std::min(features, c0 + 16); ++c)
              to_image[to + x * features + c] = value(lhs[from + x * width_stride + c * feature_stride]);
      }
    }
  }
}

template <class In, class Out>
void multiply_all(const ConvolutionPlan& plan, const In* bordered, const In* kernel, Out* out) {
  if (!plan.overwrites_all) std::fill(out, out + plan.output_elements, Out(0));
  for (const ProductPlan& p : plan.products)
    multiply(p, bordered, kernel, out, std::is_same_v<In, float> ? passes(plan.precision) : one_pass);
}

}  // namespace

// f16, which no unit has, runs as f32: the bordered lhs and a copy of the kernel are f32.
int64_t scratch_bytes(const ConvolutionPlan& plan) {
  const int64_t element = plan.dtype == DType::f16 ? 4 : size_of(plan.dtype);
  return aligned(element_count(plan.bordered) * element) + (plan.dtype == DType::f16 ? aligned(plan.kernel_extent * 4) : 0) +
         (is_half(plan.dtype) ? aligned(plan.output_elements * 4) : 0);
}

void compute(const ConvolutionPlan& plan, const void* lhs, const void* kernel, void* out, void* scratch) {
  if (plan.output_elements == 0) return;
  if (!is_float(plan.dtype)) fail("convolution", "the chip convolves floating-point arrays only, got ", plan.dtype);
  std::byte* free = static_cast<std::byte*>(scratch);
  const auto run = [&]<class From, class T>(auto* result) {
    T* bordered = reinterpret_cast<T*>(free);
    free += aligned(element_count(plan.bordered) * static_cast<int64_t>(sizeof(T)));
    copy_with_border(plan, static_cast<const From*>(lhs), bordered);
    const void* weights = std::is_same_v<From, T> ? kernel : widened(plan.dtype, dtype_of<T>(), kernel, plan.kernel_extent, free);
    float* sums = reinterpret_cast<float*>(free);
    if constexpr (is_half(dtype_of<From>())) {  // summed in f32, rounded once
      multiply_all(plan, bordered, static_cast<const T*>(weights), sums);
      host::narrow(plan.dtype, sums, result, plan.output_elements);
    } else {
      multiply_all(plan, bordered, static_cast<const T*>(weights), result);
    }
  };
  if (plan.dtype == DType::f64) run.template operator()<double, double>(static_cast<double*>(out));
  else if (plan.dtype == DType::f32) run.template operator()<float, float>(static_cast<float*>(out));
  else if (plan.dtype == DType::bf16) run.template operator()<bf16, bf16>(static_cast<bf16*>(out));
  else run.template operator()<f16, float>(static_cast<f16*>(out));
}

}  // namespace backbeat::sim
