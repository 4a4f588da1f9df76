// reduce: the innermost reduced dimensions first, then the next, until none is left. Of halves they stay f32 in between.
#include <omp.h>

#include <algorithm>

#include "devices/cpu/copy.hpp"
#include "devices/cpu/step.hpp"
#include "engine/host/reduce.hpp"

namespace backbeat::cpu {

namespace {

struct ReduceAxis {
  int64_t size, stride;
  bool reduced;
};

// One pass: `outer` results side by side, each over [rows, columns] by rows or by columns.
struct Pass {
  std::vector<ReduceAxis> outer;  // the kept (or not yet reduced) axes before the last two
  ReduceAxis rows, columns;
  bool over_columns;
  DType from, to;
};

std::vector<ReduceAxis> merged(const std::vector<ReduceAxis>& axes) {
  std::vector<ReduceAxis> out;
  for (const ReduceAxis& a : axes) {
    if (a.size == 1) continue;
    if (!out.empty() && out.back().reduced == a.reduced && out.back().stride == a.size * a.stride)
      out.back() = {out.back().size * a.size, a.stride, a.reduced};
    else
      out.push_back(a);
  }
  return out;
}

// The same axes, dense, without the axis at `gone`.
std::vector<ReduceAxis> dense_without(std::vector<ReduceAxis> axes, size_t gone) {
  axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(gone));
  int64_t stride = 1;
  for (size_t i = axes.size(); i-- > 0; stride *= axes[i].size) axes[i].stride = stride;
  return axes;
}

int64_t count(const std::vector<ReduceAxis>& axes) {
  int64_t n = 1;
  for (const ReduceAxis& a : axes) n *= a.size;
  return n;
}

void run_pass(const Pass& pass, Reduction kind, const char* in, char* out) {
  const int64_t repeats = count(pass.outer), results = pass.over_columns ? pass.rows.size : pass.columns.size;
  const int64_t inside = pass.rows.size * pass.columns.size;
  const bool outer_threads = repeats > 1 && inside < (1 << 18) && repeats * inside > (1 << 17);
#pragma omp parallel for schedule(static) if (outer_threads && !omp_in_parallel())
  for (int64_t repeat = 0; repeat < repeats; ++repeat) {
    int64_t rest = repeat, offset = 0;
    for (size_t i = pass.outer.size(); i-- > 0; rest /= pass.outer[i].size) offset += rest % pass.outer[i].size * pass.outer[i].stride;
    const host::VectorInput from{in + offset * size_of(pass.from), pass.rows.stride, pass.columns.stride};
    char* to = out + repeat * results * size_of(pass.to);
    if (pass.over_columns) host::reduce_over_columns(kind, pass.from, pass.rows.size, pass.columns.size, from, pass.to, to);
    else host::reduce_over_rows(kind, pass.from, pass.rows.size, pass.columns.size, from, pass.to, to);
  }
}

}  // namespace

Step reduce_step(const Tape& tape, const Fusion& fusion, NodeId id) {
  const Node& node = tape[id];
  const ReduceDims& dims = std::get<ReduceDims>(node.attributes);
  const View view = view_of(tape, fusion, node.operands[0]);
  const Shape& shape = tape[node.operands[0]].shape;
  const DType dtype = node.dtype, between = is_half(dtype) ? DType::f32 : dtype;

  std::vector<ReduceAxis> axes;
  for (int64_t i = 0; i < shape.size(); ++i) axes.push_back({shape[i], view.strides[i], dims.axes.contains(i)});
  axes = merged(axes);
  const auto is_reduced = [](const ReduceAxis& a) { return a.reduced; };

  Step step{{id}, {view.source}, {id}, {}, 0, {}};
  if (std::none_of(axes.begin(), axes.end(), is_reduced)) {  // only axes of one element, if any: a copy
    Shape kept;
    Dims strides;
    for (const ReduceAxis& a : axes) {
      kept.push_back(a.size);
      strides.push_back(a.stride);
    }
    step.work = [=, source = view.source](const Memory& m) {
      strided_copy(dtype, kept, m.at(source), strides, m.at(id), row_major_strides(kept));
    };
    return step;
  }

  std::vector<Pass> passes;
  for (DType from = dtype; std::any_of(axes.begin(), axes.end(), is_reduced);) {
    size_t last = axes.size() - 1;
    while (!axes[last].reduced) --last;
    Pass pass{{}, {1, 0, false}, {1, 0, false}, last + 1 == axes.size(), from, between};
    if (pass.over_columns) {
      pass.columns = axes[last];
      if (last > 0) pass.rows = axes[last - 1];
      if (last > 1) pass.outer.assign(axes.begin(), axes.begin() + static_cast<std::ptrdiff_t>(last) - 1);
    } else {  // kept axes follow: at most one, for neighbours of a kind that continue each other are merged, unless strided
      if (last + 2 < axes.size()) {
        // Several kept axes that do not continue each other (a broadcast operand): treat the first of them as an outer loop.
        std::vector<ReduceAxis> order = axes;
        const ReduceAxis reduced = order[last];
        order.erase(order.begin() + static_cast<std::ptrdiff_t>(last));
        order.insert(order.end() - 1, reduced);
        pass.outer.assign(order.begin(), order.end() - 2);
        pass.rows = reduced;
        pass.columns = order.back();
      } else {
        pass.rows = axes[last];
        pass.columns = axes[last + 1];
        pass.outer.assign(axes.begin(), axes.begin() + static_cast<std::ptrdiff_t>(last));
      }
    }
    axes = merged(dense_without(axes, last));
    passes.push_back(pass);
    from = between;
  }
  passes.back().to = dtype;
  int64_t room = 0;  // of one of the two buffers that passes hand on
  for (size_t i = 0; i + 1 < passes.size(); ++i)
    room = std::max(room, count(passes[i].outer) * (passes[i].over_columns ? passes[i].rows.size : passes[i].columns.size) * size_of(between));
  room = (room + 63) / 64 * 64;
  step.scratch_bytes = 2 * room;
  step.work = [=, kind = dims.kind, source = view.source](const Memory& m) {
    const char* in = m.at(source);
    for (size_t i = 0; i < passes.size(); ++i) {
      char* out = i + 1 == passes.size() ? m.at(id) : m.scratch + static_cast<int64_t>(i % 2) * room;
      run_pass(passes[i], kind, in, out);
      in = out;
    }
  };
  return step;
}

}  // namespace backbeat::cpu
