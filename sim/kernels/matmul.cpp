#include <algorithm>
#include <cmath>

#include "sim/kernels/kernels.hpp"

namespace backbeat::sim {

namespace {
int64_t blocks_of(int64_t size, int64_t block) { return (size + block - 1) / block; }
}  // namespace

Kernel matmul_kernel(const MatmulSpec& spec, const MatmulBlock& block, const Chip& chip) {
  const int64_t rows = blocks_of(spec.m, block.m), columns = blocks_of(spec.n, block.n),
                depth = blocks_of(spec.k, block.k);
  const int64_t all_passes = spec.dtype == DType::f32 && spec.emulated_passes == 0 ? passes_of(spec.precision) : 1;
  const int64_t pass_steps = depth > 1 ? all_passes : 1;  // passes outside the contraction: the order of addition
  const bool columns_first = block.columns_first;
  // Axes: batch, rows and columns in either order, passes, depth.
  const int i = columns_first ? 2 : 1, j = columns_first ? 1 : 2;
  Kernel k("matmul", columns_first ? Dims{spec.batches, columns, rows, pass_steps, depth}
                                   : Dims{spec.batches, rows, columns, pass_steps, depth});
  const auto matrix = [&](const char* name, DType dtype, int64_t r, int64_t c, int64_t br, int64_t bc, int axis_r,
                          int axis_c) {
    return k.in(name, {dtype, {spec.batches, r, c}}, {1, br, bc}, at(0, axis_r, axis_c));
  };
  const Ref a = spec.a_transposed ? matrix("a", spec.dtype, spec.k, spec.m, block.k, block.m, 4, i)
                                  : matrix("a", spec.dtype, spec.m, spec.k, block.m, block.k, i, 4);
  const Ref b = spec.b_transposed ? matrix("b", spec.dtype, spec.n, spec.k, block.n, block.k, j, 4)
                                  : matrix("b", spec.dtype, spec.k, spec.n, block.k, block.n, 4, j);
  const Dims result_block{1, std::min(block.m, spec.m), std::min(block.n, spec.n)};
  const Epilogue& e = spec.epilogue;
  const int64_t sublanes = chip.vpu.sublanes, lanes = chip.vpu.lanes;
  std::vector<Ref> inputs;
  for (size_t x = 0; x < e.inputs.size(); ++x) {
    const Epilogue::Input& input = e.inputs[x];
    if (input.head)
      inputs.push_back({});
    else if (input.full)
      inputs.push_back(
          k.in(concat("epilogue", x), {input.dtype, {spec.batches, spec.m, spec.n}}, result_block, at(0, i, j)));
    else
      inputs.push_back(k.in(concat("epilogue", x), {input.dtype, {input.vregs, sublanes, lanes}},
                            {input.vregs, sublanes, lanes}, whole()));
  }
  Ref c;
  if (spec.head_is_output) c = k.out("c", {spec.result, {spec.batches, spec.m, spec.n}}, result_block, at(0, i, j));
  std::vector<Ref> outputs;
  for (size_t x = 0; x < e.outputs.size(); ++x)
    outputs.push_back(
        k.out(concat("out", x), {e.outputs[x], {spec.batches, spec.m, spec.n}}, result_block, at(0, i, j)));
  if (!spec.head_is_output) c = k.scratch("sums", {DType::f32, result_block});
  for (Ref& r : inputs)
    if (r.index < 0) r = c;

  Product product;
  product.precision = spec.precision;
  product.a_transposed = spec.a_transposed;
  product.b_transposed = spec.b_transposed;
  product.emulated_passes = spec.emulated_passes;
  product.swapped = spec.swapped;
  product.plan = spec.plan;
  Ref turned, a_parts, b_parts;
  if (spec.a_transposed) {
    turned = k.scratch("turned", {spec.dtype, {1, block.m, block.k}});
    product.a_from = turned;
  }
  if (all_passes > 1) {
    a_parts = k.scratch("parts of a", {DType::bf16, {all_passes == 3 ? 2 : 3, block.m, block.k}});
    b_parts = k.scratch("parts of b", {DType::bf16, {all_passes == 3 ? 2 : 3, block.k, block.n}});
    product.a_from = a_parts;
    product.b_from = b_parts;
  }
  k.collapse();
  k.body([=](Step& s) {
    s.pays(Payer::head);
    if (turned.index >= 0 && s.changed(a)) s.transpose(turned, a);
    if (a_parts.index >= 0) {
      if (s.changed(a)) s.split(a_parts, turned.index >= 0 ? turned : a, spec.precision);
      if (s.changed(b)) s.split(b_parts, b, spec.precision);
    }
    Product p = product;
    p.accumulate = !s.first(3) || !s.first(4);
    p.pass = pass_steps > 1 ? s.index(3) : -1;
    s.matmul(c, a, b, p);
    if (!outputs.empty() && s.last(3) && s.last(4)) {
      s.pays(Payer::rest);
      VectorWork work = spec.epilogue.work;
      work.lane_broadcasts = 0;
      const Dims extent = s.extent(outputs[0]);
      if (spec.epilogue.lane_broadcasts > 0)
        work.lane_broadcasts = spec.epilogue.lane_broadcasts * static_cast<double>(extent[1] * extent[2]) /
                               static_cast<double>(sublanes * lanes);
      s.vector(work, inputs, outputs);
    }
  });
  return k;
}

double matmul_estimate(const MatmulSpec& s, const MatmulBlock& block, const Chip& chip) {
  const double element = static_cast<double>(size_of(s.dtype));
  const auto rows = static_cast<double>(blocks_of(s.m, block.m)),
             columns = static_cast<double>(blocks_of(s.n, block.n)),
             depth = static_cast<double>(blocks_of(s.k, block.k)), batches = static_cast<double>(s.batches);
  const double passes = s.emulated_passes > 0 ? s.emulated_passes : s.dtype == DType::f32 ? passes_of(s.precision) : 1;
  const double sweeps = depth > 1 && s.emulated_passes == 0 ? passes : 1;
  const double m = static_cast<double>(s.m), n = static_cast<double>(s.n), k = static_cast<double>(s.k);
  double a = m * k, b = k * n;
  if (block.columns_first) {
    a *= rows * depth > 1 ? columns * sweeps : 1;
    b *= depth > 1 ? rows * sweeps : 1;
  } else {
    a *= depth > 1 ? columns * sweeps : 1;
    b *= columns * depth > 1 ? rows * sweeps : 1;
  }
  const double traffic = batches * (a + b + m * n * (1 + static_cast<double>(s.epilogue.inputs.size()))) * element /
                         chip.hbm_bytes_per_cycle();
  const double latch = static_cast<double>(chip.mxu.rows) / chip.mxu.latch_rows_per_cycle;
  const double tiles =
      std::ceil(k / static_cast<double>(chip.mxu.rows)) * std::ceil(n / static_cast<double>(chip.mxu.columns));
  const double stream = static_cast<double>(std::min(block.m, s.m)) / chip.mxu.rows_per_cycle;
  const double compute =
      batches * passes * tiles * rows * std::max(stream, latch) / static_cast<double>(chip.mxu.count);
  const double steps = batches * rows * columns * depth * sweeps;
  const double first =
      (static_cast<double>(block.m * block.k + block.k * block.n)) * element / chip.hbm_bytes_per_cycle();
  return std::max(traffic, compute) + first + steps * static_cast<double>(chip.overhead.step_cycles);
}

}  // namespace backbeat::sim
