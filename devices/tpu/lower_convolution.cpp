// Convolutions of every kind: forward, input gradients (dilated lhs, computed phase by phase), kernel gradients (batch
// and features exchanged).
#include <algorithm>
#include <cmath>

#include "devices/tpu/lowerer.hpp"
#include "sim/kernels/kernels.hpp"

namespace backbeat::tpu {

void Lowerer::lower_convolution(const FusionGroup& group) {
  const Node& n = node(group.head);
  const ConvDims& dims = *std::get<std::shared_ptr<const ConvDims>>(n.attributes);
  const NodeId lhs = n.operands[0], kernel = n.operands[1];
  const Shape &l = node(lhs).shape, &w = node(kernel).shape;
  const int64_t rank = dims.lhs.spatial.size();

  sim::ConvolutionSpec spec;
  spec.dtype = n.dtype;
  spec.result = n.dtype;
  spec.precision = dims.precision;
  spec.groups = dims.feature_groups * dims.batch_groups;
  spec.images = l[dims.lhs.batch] / dims.batch_groups;
  spec.columns = w[dims.kernel.batch] / spec.groups;
  const int64_t channels = l[dims.lhs.feature] / dims.feature_groups;

  // Phases: every combination of the spatial dimensions' phases.
  std::vector<std::pair<int64_t, int64_t>> phases = {{1, 1}};  // positions, taps
  for (int64_t s = 0; s < rank; ++s) {
    std::vector<std::pair<int64_t, int64_t>> next;
    for (const auto& [positions, taps] : phases)
      for (const sim::Taps& t :
           sim::phases_of(l[dims.lhs.spatial[s]], w[dims.kernel.spatial[s]], n.shape[dims.out.spatial[s]],
                          dims.strides[s], dims.pad_low[s], dims.lhs_dilation[s], dims.kernel_dilation[s]))
        next.push_back({positions * t.outputs, taps * static_cast<int64_t>(t.kernel.size())});
    phases = std::move(next);
  }
  const int64_t passes = n.dtype == DType::f32   ? passes_of(dims.precision)
                         : n.dtype == DType::f16 ? passes_of(Precision::highest)
                         : n.dtype == DType::f64 ? static_cast<int64_t>(std::ceil(chip_.emulation.f64_passes))
                                                 : 1;
  int64_t padded = 0, padded_swapped = 0;
  for (const auto& [positions, taps] : phases) {
    sim::ConvolutionPhase phase;
    phase.positions = static_cast<double>(positions);
    if (taps > 0) phase.k_tiles = sim::convolution_k_tiles(taps, channels, chip_.mxu.rows);
    const auto tiles = static_cast<int64_t>(phase.k_tiles.size());
    const int64_t rows = positions * spec.images, sublanes = chip_.vpu.sublanes, width = chip_.mxu.columns;
    padded += ceil_div(rows, sublanes) * sublanes * ceil_div(spec.columns, width) * width * tiles * chip_.mxu.rows;
    padded_swapped +=
        ceil_div(spec.columns, sublanes) * sublanes * ceil_div(rows, width) * width * tiles * chip_.mxu.rows;
    spec.phases.push_back(std::move(phase));
  }
  // Layouts: features on the lanes. A streamed operand with its contracted dimension elsewhere goes through the XLU; a
  // latched one with it on the lanes takes the dearer latch.
  const auto long_spatial = [](const Shape& shape, const Dims& spatial) {
    int64_t best = spatial.empty() ? -1 : spatial.back();
    for (int64_t d : spatial)
      if (best < 0 || shape[d] > shape[best]) best = d;
    return best;
  };
  const auto second = [&](const Shape& shape, int64_t batch, const Dims& spatial) {
    const int64_t s = long_spatial(shape, spatial);  // what pads less on the sublanes
    const auto waste = [&](int64_t d) {
      return static_cast<double>(ceil_div(shape[d], chip_.vpu.sublanes) * chip_.vpu.sublanes) /
             static_cast<double>(shape[d]);
    };
    return s >= 0 && waste(s) < waste(batch) ? s : batch;
  };
  // A narrow lhs is stored as small as it gets and turned in the kernel; a wide one has its features on the lanes.
  const bool narrow = channels * 4 <= chip_.vpu.lanes;
  const Tiling l_best =
      narrow ? smallest(l, chip_) : Tiling{second(l, dims.lhs.batch, dims.lhs.spatial), dims.lhs.feature};
  const Tiling w_best{dims.kernel.feature, dims.kernel.batch};
  const int32_t l_tensor =
      out_.tensors[at(tensor_of(lhs))].laid_out ? tensor_of(lhs) : tensor_as(lhs, l_best, group.head);
  int32_t w_tensor =
      out_.tensors[at(tensor_of(kernel))].laid_out ? tensor_of(kernel) : tensor_as(kernel, w_best, group.head);
  const Tiling l_tiling = tiling_of(lhs);
  Tiling w_tiling = tiling_of(kernel);
  if (w_tiling.lane != dims.kernel.batch && w_tiling.lane != dims.kernel.feature && !is_line(w)) {
    w_tensor = tensor_as(kernel, w_best, group.head);
    w_tiling = w_best;
  }
  spec.lhs_vregs = std::max<int64_t>(1, out_.tensors[at(l_tensor)].vregs);
  spec.kernel_vregs = std::max<int64_t>(1, out_.tensors[at(w_tensor)].vregs);
  const bool lhs_contracts_lanes = l_tiling.lane == dims.lhs.feature || is_line(l);
  const bool kernel_contracts_lanes = !is_line(w) && w_tiling.lane == dims.kernel.feature && w[dims.kernel.batch] != 1;
  // Either operand can be streamed past the other; the machine decides between them, block by block.
  out_.flops_padded[at(group.head)] = 2 * passes * padded * spec.groups;
  spec.turned_vregs = lhs_contracts_lanes ? 0 : static_cast<double>(spec.lhs_vregs);
  spec.transposed_latch = kernel_contracts_lanes;
  // A narrow result, too, is stored as small as it gets; the XLU packs what the array gives, a few lanes of each
  // register.
  Tiling tiling{second(n.shape, dims.out.batch, dims.out.spatial), dims.out.feature};
  if (spec.columns * 4 <= chip_.vpu.lanes && !same(n.shape, tiling, smallest(n.shape, chip_))) {
    tiling = smallest(n.shape, chip_);
    spec.packs_result = tiling.lane != dims.out.feature;
  }
  spec.out_vregs = std::max<int64_t>(1, vregs(n.shape, tiling, chip_));

  const auto plan = std::make_shared<sim::ConvolutionPlan>();
  if (values_)
    *plan = sim::plan_convolution(dims, out_.values[at(lhs)].layout, out_.values[at(kernel)].layout, n.shape, n.dtype,
                                  chip_.mxu.rows);
  spec.plan = plan;

  Epilogue e = epilogue_of(group, tiling);
  Work work = work_of("convolution", group);
  work.reads = {l_tensor, w_tensor};
  work.host_buffers = {buffer_of(lhs), buffer_of(kernel)};
  spec.head_is_output = std::count(e.outputs.begin(), e.outputs.end(), group.head) > 0;
  spec.epilogue = bind_epilogue(group, e, tiling, spec.out_vregs, work);
  count_chain_flops(group, spec.out_vregs);
  if (values_) work.scratch_bytes = sim::scratch_bytes(*plan);

  sim::ConvolutionSpec swapped = spec;
  swapped.streams_kernel = true;
  swapped.turned_vregs = kernel_contracts_lanes || is_line(w) ? 0 : static_cast<double>(spec.kernel_vregs);
  swapped.transposed_latch = lhs_contracts_lanes;
  swapped.packs_result = false;
  work.flops_padded_swapped = 2 * passes * padded_swapped * spec.groups;

  struct Ranked {
    double cycles;
    Tile tile;
  };
  int64_t tiles = 1;
  for (const sim::ConvolutionPhase& p : spec.phases) tiles = std::max(tiles, static_cast<int64_t>(p.k_tiles.size()));
  std::vector<int64_t> widths = {spec.columns};
  for (int64_t width : {8, 4, 2, 1})
    if (width * chip_.mxu.columns < spec.columns) widths.push_back(width * chip_.mxu.columns);
  const auto rank_blocks = [&](sim::ConvolutionSpec s) {
    s.precision = Precision::standard;
    std::vector<Ranked> ranked;
    for (int64_t rows = 1; rows <= s.images; rows *= 2)
      for (int64_t width : widths)
        for (int64_t depth : {1, 2, 4, 8, 16, 64})
          for (bool order : {false, true}) {
            if (depth > tiles || (order && (rows == 1 || width == s.columns))) continue;
            const Tile tile{ceil_div(s.images, rows), width, depth, order, s.streams_kernel};
            ranked.push_back({sim::convolution_estimate(s, {tile.m, tile.n, tile.k, order}, chip_), tile});
          }
    std::stable_sort(ranked.begin(), ranked.end(),
                     [](const Ranked& x, const Ranked& y) { return x.cycles < y.cycles; });
    return ranked;
  };
  const std::vector<Ranked> plain = rank_blocks(spec), exchanged = rank_blocks(swapped);
  for (size_t i = 0; i < plain.size(); ++i) {
    work.tiles.push_back(plain[i].tile);
    work.tiles.push_back(exchanged[i].tile);
  }
  const sim::Chip& chip = chip_;
  const auto build = [&chip](sim::ConvolutionSpec s, const Tile& t, Precision precision) {
    s.precision = precision;
    return sim::convolution_kernel(s, {t.m, t.n, t.k, t.swap_order}, chip);
  };
  work.build = [=](const Tile& t) { return build(t.swap_operands ? swapped : spec, t, spec.precision); };
  if (passes > 1)
    work.build_for_choice = [=](const Tile& t) {
      return build(t.swap_operands ? swapped : spec, t, Precision::standard);
    };
  std::string key =
      concat("convolution ", n.dtype, spec.images, ' ', spec.columns, ' ', spec.groups, ' ', spec.lhs_vregs, ' ',
             spec.kernel_vregs, ' ', spec.out_vregs, ' ', spec.turned_vregs, spec.transposed_latch, spec.packs_result,
             ' ', swapped.turned_vregs, swapped.transposed_latch, static_cast<int>(dims.precision), spec.head_is_output,
             ' ', e.work.alu_slots, ' ', e.work.eup_pushes, ' ', e.lane_broadcasts);
  for (const auto& [positions, taps] : phases) key += concat(" p", positions, ',', taps, ',', channels);
  for (const auto& i : spec.epilogue.inputs) key += concat(" i", i.dtype, i.head, i.full, i.vregs);
  for (DType d : spec.epilogue.outputs) key += concat(" o", d);
  work.signature = key;
  add_work(std::move(work));
}

}  // namespace backbeat::tpu
