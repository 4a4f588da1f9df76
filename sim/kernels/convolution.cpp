// Implicit im2col, channel first: a tile of the contraction is a few taps times the channels, and positions stream past
// it.
#include <algorithm>
#include <cmath>

#include "sim/kernels/kernels.hpp"

namespace backbeat::sim {

namespace {
int64_t blocks_of(int64_t size, int64_t block) { return (size + block - 1) / block; }
}  // namespace

Kernel convolution_kernel(const ConvolutionSpec& spec, const ConvolutionBlock& block, const Chip& chip) {
  const int64_t rows = blocks_of(spec.images, block.images), columns = blocks_of(spec.columns, block.columns),
                depth = block.taps;
  const int64_t all_passes = spec.dtype == DType::f32 ? passes_of(spec.precision) : 1;
  const int64_t pass_steps = depth > 1 ? all_passes : 1;
  const int i = block.columns_first ? 1 : 0, j = block.columns_first ? 0 : 1;
  Kernel k("convolution",
           block.columns_first ? Dims{columns, rows, pass_steps, depth} : Dims{rows, columns, pass_steps, depth});
  const int64_t sublanes = chip.vpu.sublanes, lanes = chip.vpu.lanes;
  // Operands are cut into equal runs of registers: images of the lhs, features and taps of the kernel, both of the
  // result.
  const auto registers = [&](int64_t count) { return Shape{std::max<int64_t>(1, count), sublanes, lanes}; };
  const auto cut = [&](int64_t count, int64_t parts) {
    return Dims{std::max<int64_t>(1, blocks_of(count, parts)), sublanes, lanes};
  };
  const auto place = [](int64_t count, int64_t parts, auto index) {  // rounding up may leave fewer blocks than parts
    const int64_t last = blocks_of(std::max<int64_t>(1, count), std::max<int64_t>(1, blocks_of(count, parts))) - 1;
    return [=](const Dims& grid) { return Dims{std::min(index(grid), last)}; };
  };
  const auto by_image = [=](const Dims& g) { return g[i]; };
  const auto by_weight = [=](const Dims& g) { return g[j] * depth + g[3]; };
  const auto by_result = [=](const Dims& g) { return g[i] * columns + g[j]; };
  const Ref x = k.in("lhs", {spec.dtype, registers(spec.lhs_vregs)}, cut(spec.lhs_vregs, rows),
                     place(spec.lhs_vregs, rows, by_image));
  const Ref w = k.in("kernel", {spec.dtype, registers(spec.kernel_vregs)}, cut(spec.kernel_vregs, columns * depth),
                     place(spec.kernel_vregs, columns * depth, by_weight));
  const auto result_map = place(spec.out_vregs, rows * columns, by_result);
  const Dims result_block = cut(spec.out_vregs, rows * columns);
  const Epilogue& e = spec.epilogue;
  std::vector<Ref> inputs;
  for (size_t n = 0; n < e.inputs.size(); ++n) {
    const Epilogue::Input& input = e.inputs[n];
    if (input.head)
      inputs.push_back({});
    else if (input.full)
      inputs.push_back(k.in(concat("epilogue", n), {input.dtype, registers(spec.out_vregs)}, result_block, result_map));
    else
      inputs.push_back(
          k.in(concat("epilogue", n), {input.dtype, registers(input.vregs)}, registers(input.vregs), whole()));
  }
  Ref c;
  if (spec.head_is_output) c = k.out("c", {spec.result, registers(spec.out_vregs)}, result_block, result_map);
  std::vector<Ref> outputs;
  for (size_t n = 0; n < e.outputs.size(); ++n)
    outputs.push_back(k.out(concat("out", n), {e.outputs[n], registers(spec.out_vregs)}, result_block, result_map));
  if (!spec.head_is_output) c = k.scratch("sums", {DType::f32, result_block});
  for (Ref& r : inputs)
    if (r.index < 0) r = c;

  // The tiles of each part of the contraction.
  auto parts = std::make_shared<std::vector<std::vector<ConvolutionPhase>>>(static_cast<size_t>(depth));
  for (const ConvolutionPhase& phase : spec.phases) {
    const auto tiles = static_cast<int64_t>(phase.k_tiles.size());
    for (int64_t t = 0; t < depth; ++t) {
      ConvolutionPhase part;
      part.positions = phase.positions;
      part.k_tiles.assign(phase.k_tiles.begin() + t * tiles / depth, phase.k_tiles.begin() + (t + 1) * tiles / depth);
      (*parts)[static_cast<size_t>(t)].push_back(std::move(part));
    }
  }
  k.collapse();
  k.body([=](Step& s) {
    Convolution v;
    v.accumulate = !s.first(2) || !s.first(3);
    v.pass = pass_steps > 1 ? s.index(2) : -1;
    v.precision = spec.precision;
    v.images = std::min(block.images, spec.images - s.index(i) * block.images);
    v.columns = std::min(block.columns, spec.columns - s.index(j) * block.columns);
    v.groups = spec.groups;
    v.transposed_latch = spec.transposed_latch;
    v.streams_kernel = spec.streams_kernel;
    v.turned_vregs = spec.turned_vregs / static_cast<double>(spec.streams_kernel ? columns * depth : rows);
    v.packs_result = spec.packs_result && s.last(2) && s.last(3);
    v.phases = &(*parts)[static_cast<size_t>(s.index(3))];
    v.plan = spec.plan;
    s.pays(Payer::head);
    s.convolve(c, x, w, v);
    if (!outputs.empty() && s.last(2) && s.last(3)) {
      s.pays(Payer::rest);
      VectorWork work = spec.epilogue.work;
      work.lane_broadcasts = spec.epilogue.lane_broadcasts * static_cast<double>(result_block[0]);
      s.vector(work, inputs, outputs);
    }
  });
  return k;
}

double convolution_estimate(const ConvolutionSpec& s, const ConvolutionBlock& block, const Chip& chip) {
  const auto rows = static_cast<double>(blocks_of(s.images, block.images)),
             columns = static_cast<double>(blocks_of(s.columns, block.columns)),
             depth = static_cast<double>(block.taps);
  const double passes = s.dtype == DType::f32 ? passes_of(s.precision) : 1, sweeps = depth > 1 ? passes : 1;
  const double register_bytes = static_cast<double>(chip.vpu.sublanes * chip.vpu.lanes * size_of(s.dtype));
  const double x = static_cast<double>(s.lhs_vregs) * (block.columns_first && rows > 1 ? columns : 1);
  const double w = static_cast<double>(s.kernel_vregs) * (depth > 1                             ? rows * sweeps
                                                          : block.columns_first || columns == 1 ? 1
                                                                                                : rows);
  const double traffic = (x + w + static_cast<double>(s.out_vregs)) * register_bytes / chip.hbm_bytes_per_cycle();
  const double latch = static_cast<double>(chip.mxu.rows) / chip.mxu.latch_rows_per_cycle;
  double compute = 0;
  const auto width = static_cast<double>(chip.mxu.columns), features = static_cast<double>(s.columns);
  for (const ConvolutionPhase& p : s.phases) {
    const double positions = p.positions * static_cast<double>(std::min(block.images, s.images));
    const double passes_over = s.streams_kernel
                                   ? std::ceil(positions / width) * std::max(latch, features / chip.mxu.rows_per_cycle)
                                   : std::ceil(features / width) * std::max(latch, positions / chip.mxu.rows_per_cycle);
    compute += static_cast<double>(p.k_tiles.size()) * rows * passes_over;
  }
  compute *= passes * static_cast<double>(s.groups) / static_cast<double>(chip.mxu.count);
  const double first =
      (static_cast<double>(s.lhs_vregs) / rows + static_cast<double>(s.kernel_vregs) / (columns * depth)) *
      register_bytes / chip.hbm_bytes_per_cycle();
  return std::max(traffic, compute) + first +
         rows * columns * depth * sweeps * static_cast<double>(chip.overhead.step_cycles);
}

}  // namespace backbeat::sim
