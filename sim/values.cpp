#include "sim/values.hpp"

#include <algorithm>
#include <cstring>

#include "engine/host/elementwise.hpp"
#include "engine/host/reduce.hpp"
#include "engine/philox.hpp"

namespace backbeat::sim {

bool Layout::is_row_major() const {
  int64_t expected = 1;
  for (int64_t i = shape.size() - 1; i >= 0; --i) {
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

// --- elementwise

VectorPlan plan_vector(host::VectorProgram program, const Shape& shape, const std::vector<Layout>& inputs,
                       const std::vector<Layout>& outputs) {
  std::vector<const Layout*> all;
  for (const Layout& l : inputs) all.push_back(&l);
  for (const Layout& l : outputs) all.push_back(&l);

  // Neighbouring dimensions merge where every operand steps through both as through one.
  Dims sizes;
  std::vector<Dims> strides(all.size());
  for (int64_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    bool merges = !sizes.empty();
    for (size_t i = 0; i < all.size() && merges; ++i) merges = strides[i].back() == all[i]->strides[d] * shape[d];
    if (merges) {
      sizes[sizes.size() - 1] *= shape[d];
      for (size_t i = 0; i < all.size(); ++i) strides[i][strides[i].size() - 1] = all[i]->strides[d];
    } else {
      sizes.push_back(shape[d]);
      for (size_t i = 0; i < all.size(); ++i) strides[i].push_back(all[i]->strides[d]);
    }
  }

  VectorPlan plan;
  const int64_t rank = sizes.size();
  plan.columns = rank > 0 ? sizes[rank - 1] : (element_count(shape) == 0 ? 0 : 1);
  plan.rows = rank > 1 ? sizes[rank - 2] : 1;
  for (int64_t d = 0; d + 2 < rank; ++d) plan.outer.push_back(sizes[d]);
  for (size_t i = 0; i < all.size(); ++i) {
    const bool input = i < inputs.size();
    VectorPlan::Operand operand;
    operand.offset = all[i]->offset;
    operand.column_stride = rank > 0 ? strides[i][rank - 1] : 0;
    operand.row_stride = rank > 1 ? strides[i][rank - 2] : 0;
    operand.element_bytes = size_of(input ? program.input_dtypes[i] : program.output_dtypes[i - inputs.size()]);
    for (int64_t d = 0; d + 2 < rank; ++d) operand.outer_strides.push_back(strides[i][d]);
    (input ? plan.inputs : plan.outputs).push_back(operand);
  }
  plan.program = std::move(program);
  return plan;
}

void compute(const VectorPlan& plan, std::span<const void* const> inputs, std::span<void* const> outputs) {
  if (plan.rows * plan.columns == 0) return;
  const int64_t repeats = element_count(plan.outer);
  // Operands of iteration `n` of the outer loops.
  const auto at = [&](int64_t n, std::vector<host::VectorInput>& in, std::vector<host::VectorOutput>& out) {
    const auto place = [&](const VectorPlan::Operand& o) {
      int64_t offset = o.offset, rest = n;
      for (int64_t d = plan.outer.size() - 1; d >= 0; --d) {
        offset += rest % plan.outer[d] * o.outer_strides[d];
        rest /= plan.outer[d];
      }
      return offset * o.element_bytes;
    };
    in.resize(plan.inputs.size());
    out.resize(plan.outputs.size());
    for (size_t i = 0; i < plan.inputs.size(); ++i)
      in[i] = {static_cast<const std::byte*>(inputs[i]) + place(plan.inputs[i]), plan.inputs[i].row_stride,
               plan.inputs[i].column_stride};
    for (size_t i = 0; i < plan.outputs.size(); ++i)
      out[i] = {static_cast<std::byte*>(outputs[i]) + place(plan.outputs[i]), plan.outputs[i].row_stride,
                plan.outputs[i].column_stride};
  };
  if (repeats >= 8 && plan.rows * plan.columns < 65536) {  // many small pieces: threads share the pieces
    const bool parallel = repeats * plan.rows * plan.columns > 65536;
#pragma omp parallel if (parallel)
    {
      thread_local std::vector<host::VectorInput> in;
      thread_local std::vector<host::VectorOutput> out;
#pragma omp for schedule(static)
      for (int64_t n = 0; n < repeats; ++n) {
        at(n, in, out);
        host::run(plan.program, plan.rows, plan.columns, in, out);
      }
    }
    return;
  }
  thread_local std::vector<host::VectorInput> in;
  thread_local std::vector<host::VectorOutput> out;
  for (int64_t n = 0; n < repeats; ++n) {
    at(n, in, out);
    host::run_parallel(plan.program, plan.rows, plan.columns, in, out);
  }
}

// --- reductions

ReducePlan plan_reduce(const ReduceDims& dims, const Layout& in, DType dtype) {
  ReducePlan plan;
  plan.kind = dims.kind;
  plan.dtype = dtype;
  plan.elements = element_count(in.shape);
  plan.offset = in.offset;
  plan.direct = in.is_row_major();
  if (!plan.direct) plan.gather = plan_copy(dtype, in).regions[0].copy;

  struct Group {
    int64_t size;
    bool reduced;
  };
  std::vector<Group> groups;
  for (int64_t d = 0; d < in.shape.size(); ++d) {
    const bool reduced = dims.axes.contains(d);
    if (!groups.empty() && groups.back().reduced == reduced)
      groups.back().size *= in.shape[d];
    else
      groups.push_back({in.shape[d], reduced});
  }
  for (;;) {
    size_t last = groups.size();
    for (size_t g = 0; g < groups.size(); ++g)
      if (groups[g].reduced) last = g;
    if (last == groups.size()) break;
    ReducePlan::Stage stage{1, groups[last].size, 1};
    for (size_t g = 0; g < last; ++g) stage.outer *= groups[g].size;
    for (size_t g = last + 1; g < groups.size(); ++g) stage.inner *= groups[g].size;
    plan.stages.push_back(stage);
    groups.erase(groups.begin() + static_cast<int64_t>(last));
  }
  return plan;
}

namespace {
int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }
}  // namespace

int64_t scratch_bytes(const ReducePlan& plan) {
  int64_t bytes = plan.direct ? 0 : aligned(plan.elements * size_of(plan.dtype));
  const int64_t element = is_half(plan.dtype) ? 4 : size_of(plan.dtype);
  for (const ReducePlan::Stage& s : plan.stages) bytes += aligned(s.outer * s.inner * element);
  return bytes;
}

void compute(const ReducePlan& plan, const void* in, void* out, void* scratch) {
  const int64_t element = size_of(plan.dtype);
  const void* from = static_cast<const std::byte*>(in) + plan.offset * element;
  std::byte* free = static_cast<std::byte*>(scratch);
  if (!plan.direct) {
    void* dense = free;
    compute(plan.gather, std::span(&in, 1), std::span(&dense, 1));
    from = free;
    free += aligned(plan.elements * element);
  }
  if (plan.stages.empty()) {
    std::memcpy(out, from, static_cast<size_t>(plan.elements * element));
    return;
  }
  DType dtype = plan.dtype;  // a sum of halves is carried in f32 from stage to stage
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const ReducePlan::Stage& s = plan.stages[i];
    const bool last = i + 1 == plan.stages.size();
    const bool carried = is_half(plan.dtype) && plan.stages.size() > 1;
    const DType out_dtype = carried ? DType::f32 : dtype;
    void* to = out;
    if (!last || carried) {
      to = free;
      free += aligned(s.outer * s.inner * size_of(out_dtype));
    }
    if (s.inner == 1) {
      host::reduce_over_columns(plan.kind, dtype, s.outer, s.reduced, {from, s.reduced, 1}, out_dtype, to);
    } else {
      for (int64_t o = 0; o < s.outer; ++o)
        host::reduce_over_rows(
            plan.kind, dtype, s.reduced, s.inner,
            {static_cast<const std::byte*>(from) + o * s.reduced * s.inner * size_of(dtype), s.inner, 1}, out_dtype,
            static_cast<std::byte*>(to) + o * s.inner * size_of(out_dtype));
    }
    if (last && carried) {
      host::narrow(plan.dtype, static_cast<const float*>(to), out, s.outer * s.inner);
    }
    from = to;
    dtype = out_dtype;
  }
}

// --- moving

namespace {
host::VectorProgram copy_program(DType dtype) {
  host::VectorProgram program;
  program.inputs = 1;
  program.input_dtypes = {dtype};
  program.outputs = {0};
  program.output_dtypes = {dtype};
  program.registers = 1;
  return program;
}
}  // namespace

CopyPlan plan_copy(DType dtype, const Layout& in) {
  CopyPlan plan;
  plan.output_bytes = element_count(in.shape) * size_of(dtype);
  plan.regions.push_back({0, plan_vector(copy_program(dtype), in.shape, {in}, {Layout::row_major(in.shape)})});
  return plan;
}

CopyPlan plan_pad(DType dtype, const Layout& in, const PadDims& pad, const Shape& out) {
  CopyPlan plan;
  plan.output_bytes = element_count(out) * size_of(dtype);
  plan.clear = true;
  Layout from = in, to = Layout::row_major(out);
  for (int64_t d = 0; d < out.size(); ++d) {
    const int64_t step = 1 + pad.interior[d];
    int64_t first = 0, end = in.shape[d];  // of the input, those that land inside
    while (first < end && pad.low[d] + first * step < 0) ++first;
    while (end > first && pad.low[d] + (end - 1) * step >= out[d]) --end;
    if (end == first) return plan;
    from.offset += first * from.strides[d];
    to.offset += (pad.low[d] + first * step) * to.strides[d];
    to.strides[d] *= step;
    from.shape[d] = to.shape[d] = end - first;
  }
  plan.regions.push_back({0, plan_vector(copy_program(dtype), from.shape, {from}, {to})});
  return plan;
}

CopyPlan plan_concatenate(DType dtype, const std::vector<Layout>& parts, int64_t axis, const Shape& out) {
  CopyPlan plan;
  plan.output_bytes = element_count(out) * size_of(dtype);
  int64_t begin = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    Layout to = Layout::row_major(out);
    to.shape = parts[i].shape;
    to.offset = begin * to.strides[axis];
    begin += parts[i].shape[axis];
    plan.regions.push_back({static_cast<int32_t>(i), plan_vector(copy_program(dtype), to.shape, {parts[i]}, {to})});
  }
  return plan;
}

void compute(const CopyPlan& plan, const std::vector<const void*>& inputs, void* out) {
  if (plan.clear) std::memset(out, 0, static_cast<size_t>(plan.output_bytes));
  for (const CopyPlan::Region& region : plan.regions)
    compute(region.copy, std::span(&inputs[static_cast<size_t>(region.source)], 1), std::span(&out, 1));
}

// --- random words and iota

void compute(const RandomPlan& plan, const uint32_t* key, uint32_t* out) {
  const int64_t quads = (plan.words + 3) / 4;
#pragma omp parallel for schedule(static) if (plan.samples * plan.words > 16384)
  for (int64_t n = 0; n < plan.samples * quads; ++n) {
    const int64_t sample = n / quads, quad = n % quads;
    const std::array<uint32_t, 4> words = philox4x32(
        {static_cast<uint32_t>(quad), key[4] + static_cast<uint32_t>(sample), key[3], key[1]}, {key[0], key[2]});
    for (int64_t w = 4 * quad; w < std::min(plan.words, 4 * quad + 4); ++w)
      out[sample * plan.words + w] = words[static_cast<size_t>(w % 4)];
  }
}

void fill_iota(DType dtype, const Shape& shape, int64_t axis, void* out) {
  const int64_t step = row_major_strides(shape)[axis];
  visit(dtype, [&]<class T>() {
    T* values = static_cast<T*>(out);
    for (int64_t i = 0, n = element_count(shape); i < n; ++i) {
      const int64_t v = i / step % shape[axis];
      if constexpr (is_half(dtype_of<T>()))
        values[i] = T(static_cast<double>(v));
      else
        values[i] = static_cast<T>(v);
    }
  });
}

}  // namespace backbeat::sim
