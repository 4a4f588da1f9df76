// convolution: the input is copied once with its padding (if it has any), and offset tables make each output a row of an
// implicit matrix product: features x (features in, taps) times (features in, taps) x (images, positions).
// With a dilated input the outputs fall into phases, each with the taps that meet elements: nothing is multiplied by the
// zeros in between. Gradients of kernels are convolutions with a large window, and come out as products with a long K.
#include <algorithm>
#include <memory>
#include <numeric>

#include "devices/cpu/copy.hpp"
#include "devices/cpu/step.hpp"
#include "engine/host/elementwise.hpp"
#include "engine/host/gemm.hpp"

namespace backbeat::cpu {

namespace {

constexpr int64_t most_padded_bytes = 16 << 20;  // images are padded so many at a time

// One spatial dimension in one phase: output phase + L t meets tap k at input element first[k] + t * step.
struct Line {
  int64_t outputs, step;
  std::vector<int64_t> taps, first;
};

struct Phase {
  std::vector<int64_t> a_column, b_row;   // over (features in, taps), in one order
  std::vector<int64_t> b_column, c_column;  // over (images of a chunk, positions)
  int64_t positions;
};

struct Plan {
  std::vector<Phase> phases;
  std::vector<int64_t> a_row, c_row;  // over the output features of a group
  bool copies;                        // the input is padded; else read where it lies
  Shape image, padded;                // shapes of a chunk in the input and in the padded copy, batch = chunk
  Dims low, lhs_strides;
  int64_t origin = 0;                 // of the tables in an input that is not copied
  int64_t batch_dim = 0;
  int64_t images, chunk;              // of a batch group
  int64_t groups, features_in;        // of both kinds; features in of a group
  int64_t lhs_batch_stride, lhs_feature_stride, kernel_stride, out_batch_stride, out_feature_stride;
  int64_t outputs;                    // features out of a group
  bool batch_groups;
};

int64_t floor_mod(int64_t a, int64_t b) { return (a % b + b) % b; }

Line line_of(int64_t in_phase, int64_t period, int64_t out, int64_t window, const ConvDims& d, int64_t i) {
  Line line{in_phase < out ? (out - in_phase + period - 1) / period : 0, period * d.strides[i] / d.lhs_dilation[i], {}, {}};
  for (int64_t k = 0; k < window; ++k) {
    const int64_t at = in_phase * d.strides[i] - d.pad_low[i] + k * d.kernel_dilation[i];
    if (floor_mod(at, d.lhs_dilation[i]) != 0) continue;
    line.taps.push_back(k);
    line.first.push_back((at - floor_mod(at, d.lhs_dilation[i])) / d.lhs_dilation[i]);
  }
  return line;
}

// All sums of one entry of each list, the last list fastest.
std::vector<int64_t> sums(const std::vector<std::vector<int64_t>>& lists) {
  std::vector<int64_t> table{0};
  for (const auto& list : lists) {
    std::vector<int64_t> longer;
    longer.reserve(table.size() * list.size());
    for (int64_t base : table)
      for (int64_t x : list) longer.push_back(base + x);
    table = std::move(longer);
  }
  return table;
}
std::vector<int64_t> steps(int64_t n, int64_t by, int64_t from = 0) {
  std::vector<int64_t> v(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) v[static_cast<size_t>(i)] = from + i * by;
  return v;
}
std::vector<int64_t> scaled(std::vector<int64_t> v, int64_t by, int64_t plus = 0) {
  for (int64_t& x : v) x = (x + plus) * by;
  return v;
}

Plan make_plan(const Shape& lhs, const Shape& kernel, const Shape& out, const ConvDims& d, int64_t element_bytes) {
  const int64_t spatial = d.strides.size();
  const Dims ws = row_major_strides(kernel), os = row_major_strides(out), xs = row_major_strides(lhs);
  Plan p{};
  p.batch_groups = d.batch_groups > 1;
  p.groups = std::max(d.feature_groups, d.batch_groups);
  p.images = out[d.out.batch];
  p.outputs = out[d.out.feature] / p.groups;
  p.features_in = kernel[d.kernel.feature];
  p.batch_dim = d.lhs.batch;

  // The phases of each dimension, and the range of input elements that they touch.
  std::vector<std::vector<Line>> lines(static_cast<size_t>(spatial));
  Dims least = Dims::filled(spatial, INT64_MAX), most = Dims::filled(spatial, INT64_MIN);
  for (int64_t i = 0; i < spatial; ++i) {
    const int64_t period = d.lhs_dilation[i] / std::gcd(d.lhs_dilation[i], d.strides[i]);
    for (int64_t phase = 0; phase < period; ++phase) {
      Line line = line_of(phase, period, out[d.out.spatial[i]], kernel[d.kernel.spatial[i]], d, i);
      if (line.outputs > 0 && !line.taps.empty()) {
        least[i] = std::min(least[i], line.first.front());
        most[i] = std::max(most[i], line.first.back() + (line.outputs - 1) * line.step);
      }
      lines[static_cast<size_t>(i)].push_back(std::move(line));
    }
    if (least[i] > most[i]) least[i] = 0, most[i] = -1;  // nothing is touched: all outputs are zero
    p.copies = p.copies || least[i] < 0 || most[i] >= lhs[d.lhs.spatial[i]];
  }

  p.padded = lhs;
  p.low = Dims::filled(lhs.size(), 0);
  p.lhs_strides = xs;
  for (int64_t i = 0; i < spatial; ++i) {
    p.padded[d.lhs.spatial[i]] = most[i] - least[i] + 1;
    p.low[d.lhs.spatial[i]] = -least[i];
  }
  const int64_t image_bytes = std::max<int64_t>(1, element_count(p.padded) / std::max<int64_t>(1, lhs[d.lhs.batch]) * element_bytes);
  p.chunk = p.copies ? std::clamp<int64_t>(most_padded_bytes / image_bytes, 1, std::max<int64_t>(1, p.images)) : p.images;
  p.padded[d.lhs.batch] = p.chunk;
  p.image = lhs;
  const Dims ps = p.copies ? row_major_strides(p.padded) : xs;
  if (!p.copies)
    for (int64_t i = 0; i < spatial; ++i) p.origin += least[i] * xs[d.lhs.spatial[i]];

  p.lhs_batch_stride = xs[d.lhs.batch];
  p.lhs_feature_stride = ps[d.lhs.feature];
  p.kernel_stride = ws[d.kernel.batch];
  p.out_batch_stride = os[d.out.batch];
  p.out_feature_stride = os[d.out.feature];
  p.a_row = steps(p.outputs, p.kernel_stride);
  p.c_row = steps(p.outputs, p.out_feature_stride);

  // Features in are the fast part of K where they are contiguous in the input.
  const bool features_last = ps[d.lhs.feature] == 1;
  std::vector<int64_t> at(static_cast<size_t>(spatial), 0);  // the phase in each dimension
  for (bool more = true; more;) {
    std::vector<std::vector<int64_t>> a, b{}, c, x;
    c.push_back(steps(p.chunk, os[d.out.batch]));
    x.push_back(steps(p.chunk, ps[d.lhs.batch]));
    for (int64_t i = 0; i < spatial; ++i) {
      const auto s = static_cast<size_t>(i);
      const Line& line = lines[s][static_cast<size_t>(at[s])];
      const auto period = static_cast<int64_t>(lines[s].size());
      const int64_t px = ps[d.lhs.spatial[i]];
      a.push_back(scaled(line.taps, ws[d.kernel.spatial[i]]));
      b.push_back(scaled(line.first, px, -least[i]));
      x.push_back(steps(line.outputs, line.step * px));
      c.push_back(steps(line.outputs, period * os[d.out.spatial[i]], at[s] * os[d.out.spatial[i]]));
    }
    const auto place = [&](auto& lists) { return features_last ? lists.end() : lists.begin(); };
    a.insert(place(a), steps(p.features_in, ws[d.kernel.feature]));
    b.insert(place(b), steps(p.features_in, ps[d.lhs.feature]));
    Phase phase{sums(a), sums(b), sums(x), sums(c), 0};
    phase.positions = p.chunk > 0 ? static_cast<int64_t>(phase.c_column.size()) / p.chunk : 0;
    p.phases.push_back(std::move(phase));
    more = false;
    for (size_t i = at.size(); i-- > 0 && !more;) {
      more = ++at[i] < static_cast<int64_t>(lines[i].size());
      if (!more) at[i] = 0;
    }
  }
  return p;
}

template <class From, class To>
void convolve(const Plan& p, DType dtype, const From* x, const From* w, To* out, From* padded) {
  for (int64_t group = 0; group < (p.batch_groups ? p.groups : 1); ++group)
    for (int64_t image = 0; image < p.images; image += p.chunk) {
      const int64_t images = std::min(p.chunk, p.images - image);
      const From* source = x + (group * p.images + image) * p.lhs_batch_stride;
      const From* base = source + p.origin;
      if (p.copies) {
        Shape shape = p.image, room = p.padded;
        shape[p.batch_dim] = room[p.batch_dim] = images;
        // A last, smaller chunk keeps the strides of a full one only if images are outermost; the tables rely on them.
        if (images < p.chunk && p.batch_dim != 0) room[p.batch_dim] = p.chunk;
        padded_copy(dtype, shape, source, p.lhs_strides, p.low, Dims::filled(shape.size(), 0), room, padded);
        base = padded;
      }
      const int64_t first = p.batch_groups ? group : 0, last = p.batch_groups ? group + 1 : p.groups;
      for (int64_t g = first; g < last; ++g) {
        const From* left = w + g * p.outputs * p.kernel_stride;
        const From* right = base + (p.batch_groups ? 0 : g * p.features_in * p.lhs_feature_stride);
        To* to = out + image * p.out_batch_stride + g * p.outputs * p.out_feature_stride;
        for (const Phase& phase : p.phases)
          host::gemm(p.outputs, images * phase.positions, static_cast<int64_t>(phase.b_row.size()),
                     host::Indexed<From>{left, p.a_row.data(), phase.a_column.data()},
                     host::Indexed<From>{right, phase.b_row.data(), phase.b_column.data()},
                     host::IndexedOut<To>{to, p.c_row.data(), phase.c_column.data()});
      }
    }
}

}  // namespace

Step convolution_step(const Tape& tape, NodeId id) {
  const Node& node = tape[id];
  const ConvDims& dims = *std::get<std::shared_ptr<const ConvDims>>(node.attributes);
  const NodeId lhs = node.operands[0], kernel = node.operands[1];
  const DType dtype = node.dtype;
  const auto plan = std::make_shared<const Plan>(make_plan(tape[lhs].shape, tape[kernel].shape, node.shape, dims, size_of(dtype)));
  const int64_t padded_bytes = plan->copies ? (element_count(plan->padded) * size_of(dtype) + 63) / 64 * 64 : 0;
  const int64_t elements = element_count(node.shape);

  Step step{{id}, {lhs, kernel}, {id}, {}, padded_bytes + (is_half(dtype) ? elements * 4 : 0), {}};
  step.work = [=](const Memory& m) {
    const auto run = [&]<class From, class To>(To* out) {
      convolve<From, To>(*plan, dtype, m.at<From>(lhs), m.at<From>(kernel), out, reinterpret_cast<From*>(m.scratch));
    };
    if (dtype == DType::f64) return run.template operator()<double>(m.at<double>(id));
    if (dtype == DType::f32) return run.template operator()<float>(m.at<float>(id));
    float* sums = reinterpret_cast<float*>(m.scratch + padded_bytes);  // adds in f32, rounds once
    dtype == DType::bf16 ? run.template operator()<bf16>(sums) : run.template operator()<f16>(sums);
    host::narrow(dtype, sums, m.at(id), elements);
  };
  return step;
}

}  // namespace backbeat::cpu
