// dot_general: which operand is streamed, which is latched, and what has to be turned for it.
#include <algorithm>
#include <cmath>

#include "devices/tpu/lowerer.hpp"
#include "sim/kernels/kernels.hpp"

namespace backbeat::tpu {

namespace {

Dims free_dims(int64_t rank, const Dims& batch, const Dims& contracting) {
  Dims rest;
  for (int64_t d = 0; d < rank; ++d)
    if (!batch.contains(d) && !contracting.contains(d)) rest.push_back(d);
  return rest;
}
int64_t product_of(const Shape& shape, const Dims& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= shape[d];
  return n;
}

// Which dimension of a group lies on registers' lanes or sublanes by default: the last one that is not 1.
int64_t last_long(const Shape& shape, const Dims& dims) {
  for (int64_t i = dims.size() - 1; i >= 0; --i)
    if (shape[dims[i]] != 1) return dims[i];
  return dims.empty() ? -1 : dims.back();
}

}  // namespace

void Lowerer::lower_dot(const FusionGroup& group) {
  const Node& n = node(group.head);
  const DotDims& dims = *std::get<std::shared_ptr<const DotDims>>(n.attributes);
  const NodeId lhs = n.operands[0], rhs = n.operands[1];
  const Shape &l = node(lhs).shape, &r = node(rhs).shape;
  const Dims l_free = free_dims(l.size(), dims.lhs_batch, dims.lhs_contracting);
  const Dims r_free = free_dims(r.size(), dims.rhs_batch, dims.rhs_contracting);
  const int64_t m = product_of(l, l_free), cols = product_of(r, r_free), k = product_of(l, dims.lhs_contracting);
  const int64_t batches = product_of(l, dims.lhs_batch);
  const DType from = node(lhs).dtype;
  if (from == DType::f32 && n.dtype == DType::f32 && (m == 1 || cols == 1)) return lower_matvec(group, dims);

  const auto up = [](int64_t v, int64_t unit) { return ceil_div(v, unit) * unit; };
  sim::MatmulSpec spec;
  spec.dtype = from;
  spec.result = n.dtype;
  spec.batches = batches;
  spec.precision = dims.precision;
  if (n.dtype == DType::f64 || n.dtype == DType::i64) spec.emulated_passes = chip_.emulation.f64_passes;
  else if (from == DType::f16) spec.emulated_passes = passes_of(Precision::highest);
  const double passes = spec.emulated_passes > 0 ? spec.emulated_passes : from == DType::f32 ? passes_of(dims.precision) : 1;
  out_.flops_padded[at(group.head)] = static_cast<int64_t>(std::ceil(passes)) * 2 * batches *
                                      up(m, chip_.vpu.sublanes) * up(cols, chip_.mxu.columns) * up(k, chip_.mxu.rows);

  // How the operands lie: contracted dimension on the lanes, or a free one; anything else is turned first.
  const Tiling l_best{last_long(l, l_free), last_long(l, dims.lhs_contracting)};
  const Tiling r_best{last_long(r, dims.rhs_contracting), last_long(r, r_free)};
  const auto usable = [](Tiling t, const Dims& free, const Dims& contracting) {
    return (contracting.contains(t.lane) || free.contains(t.lane)) && t.lane >= 0;
  };
  const auto tensor_for = [&](NodeId id, Tiling best, const Dims& free, const Dims& contracting) {
    const bool fresh = !out_.tensors[at(tensor_of(id))].laid_out;
    if (!fresh && usable(tiling_of(id), free, contracting)) return tensor_of(id);
    return tensor_as(id, best, group.head);
  };
  const int32_t l_tensor = tensor_for(lhs, l_best, l_free, dims.lhs_contracting);
  const int32_t r_tensor = tensor_for(rhs, r_best, r_free, dims.rhs_contracting);
  const auto contracted_on_lanes = [&](NodeId id, int32_t t, Tiling best, const Dims& contracting) {
    const Tiling tiling = t == tensor_of(id) ? tiling_of(id) : best;
    return is_line(node(id).shape) ? contracting.contains(best.lane) : contracting.contains(tiling.lane);
  };
  const bool l_k_lanes = contracted_on_lanes(lhs, l_tensor, l_best, dims.lhs_contracting);
  const bool r_k_lanes = contracted_on_lanes(rhs, r_tensor, r_best, dims.rhs_contracting);

  // Streamed needs k on the lanes, else the XLU turns it; latched needs k on the sublanes, else the latch is dearer.
  const double register_elements = static_cast<double>(chip_.vpu.sublanes * chip_.vpu.lanes);
  const auto turning = [&](double rows, double columns) {
    return static_cast<double>(batches) * rows * columns / register_elements * chip_.xlu.transpose_cycles_per_vreg;
  };
  const double extra_latch = static_cast<double>(batches) * static_cast<double>(chip_.mxu.rows) *
                             (1 / chip_.mxu.transposed_latch_rows_per_cycle - 1 / chip_.mxu.latch_rows_per_cycle) *
                             static_cast<double>(ceil_div(k, chip_.mxu.rows));
  const double dm = static_cast<double>(m), dn = static_cast<double>(cols), dk = static_cast<double>(k);
  const auto latches = [&](double streamed, int64_t width) {
    return extra_latch * static_cast<double>(ceil_div(width, chip_.mxu.columns)) * std::ceil(streamed / 1024);
  };
  const double straight = (l_k_lanes ? 0 : turning(dm, dk)) + (r_k_lanes ? latches(dm, cols) : 0);
  const double swapped = (r_k_lanes ? 0 : turning(dn, dk)) + (l_k_lanes ? latches(dn, m) : 0) + turning(dm, dn);
  spec.swapped = swapped < straight;
  const int64_t batch_rank = dims.lhs_batch.size(), m_rank = l_free.size();
  Dims out_m, out_n;
  for (int64_t d = batch_rank; d < n.shape.size(); ++d) (d < batch_rank + m_rank ? out_m : out_n).push_back(d);
  Tiling tiling;
  if (spec.swapped) {
    spec.m = cols;
    spec.n = m;
    spec.k = k;
    spec.a_transposed = !r_k_lanes;
    spec.b_transposed = l_k_lanes;
    tiling = {last_long(n.shape, out_n), last_long(n.shape, out_m)};
  } else {
    spec.m = m;
    spec.n = cols;
    spec.k = k;
    spec.a_transposed = !l_k_lanes;
    spec.b_transposed = r_k_lanes;
    tiling = {last_long(n.shape, out_m), last_long(n.shape, out_n)};
  }
  if (tiling.lane < 0 || tiling.sublane < 0) tiling = smallest(n.shape, chip_);
  for (int64_t* size : {&spec.batches, &spec.m, &spec.n, &spec.k}) *size = std::max<int64_t>(1, *size);  // nothing costs as one

  const auto plan = std::make_shared<sim::ProductPlan>();
  if (values_)
    *plan = sim::plan_product(dims, out_.values[at(lhs)].layout, out_.values[at(rhs)].layout, n.shape, from,
                              chip_.mxu.rows);
  spec.plan = plan;

  Epilogue e = epilogue_of(group, tiling);
  Work work = work_of("matmul", group);
  work.reads = spec.swapped ? std::vector<int32_t>{r_tensor, l_tensor} : std::vector<int32_t>{l_tensor, r_tensor};
  work.host_buffers = {buffer_of(spec.swapped ? rhs : lhs), buffer_of(spec.swapped ? lhs : rhs)};
  spec.head_is_output = std::count(e.outputs.begin(), e.outputs.end(), group.head) > 0;
  spec.epilogue = bind_epilogue(group, e, tiling, std::max<int64_t>(1, vregs(n.shape, tiling, chip_)), work);
  count_chain_flops(group, vregs(n.shape, tiling, chip_));
  if (values_) work.scratch_bytes = sim::scratch_bytes(*plan);

  // Candidates: whole sizes and multiples of the array, likeliest first.
  const auto sizes = [](int64_t whole, std::initializer_list<int64_t> units, int64_t unit) {
    std::vector<int64_t> list = {whole};
    for (int64_t u : units)
      if (u * unit < whole) list.push_back(u * unit);
    return list;
  };
  sim::MatmulSpec once = spec;  // blocks are chosen as for one pass
  once.precision = Precision::standard;
  struct Ranked {
    double cycles;
    Tile tile;
  };
  std::vector<Ranked> ranked;
  for (int64_t bm : sizes(spec.m, {64, 32, 16, 8, 4, 2, 1}, std::max<int64_t>(chip_.vpu.sublanes, chip_.mxu.rows)))
    for (int64_t bn : sizes(spec.n, {16, 8, 4, 2, 1}, chip_.mxu.columns))
      for (int64_t bk : sizes(spec.k, {32, 16, 8, 4, 2, 1}, chip_.mxu.rows))
        for (bool order : {false, true}) {
          if (order && (bm >= spec.m || bn >= spec.n)) continue;
          ranked.push_back({sim::matmul_estimate(once, {bm, bn, bk, order}, chip_), {bm, bn, bk, order, false}});
        }
  std::stable_sort(ranked.begin(), ranked.end(), [](const Ranked& x, const Ranked& y) { return x.cycles < y.cycles; });
  for (const Ranked& c : ranked) work.tiles.push_back(c.tile);
  const sim::Chip& chip = chip_;
  work.build = [spec, &chip](const Tile& t) { return sim::matmul_kernel(spec, {t.m, t.n, t.k, t.swap_order}, chip); };
  if (once.precision != spec.precision)
    work.build_for_choice = [once, &chip](const Tile& t) {
      return sim::matmul_kernel(once, {t.m, t.n, t.k, t.swap_order}, chip);
    };
  std::string key = concat("matmul ", from, n.dtype, batches, ' ', spec.m, ' ', spec.n, ' ', spec.k, ' ', spec.a_transposed,
                           spec.b_transposed, static_cast<int>(dims.precision), spec.head_is_output, ' ',
                           e.work.alu_slots, ' ', e.work.eup_pushes, ' ', e.lane_broadcasts);
  for (const auto& i : spec.epilogue.inputs) key += concat(" i", i.dtype, i.head, i.full, i.vregs);
  for (DType d : spec.epilogue.outputs) key += concat(" o", d);
  work.signature = key;
  add_work(std::move(work));
}

// A matrix times a vector: multiplied and reduced by the vector unit, in f32.
Work Lowerer::work_of(const char* name, const FusionGroup& group) const {
  Work work;
  work.name = name;
  work.head = group.head;
  work.nodes = group.nodes();
  for (NodeId id : work.nodes) work.weight.push_back(sim::slots_of(node(id).op, node(id).dtype, chip_));
  return work;
}

sim::Epilogue Lowerer::bind_epilogue(const FusionGroup& group, const Epilogue& e, Tiling tiling, int64_t registers, Work& work) {
  for (NodeId id : e.outputs) define(id, tiling);
  sim::Epilogue epilogue;
  for (size_t i = 0; i < e.chain.inputs.size(); ++i) {
    const NodeId id = e.chain.inputs[i];
    const bool head = id == group.head;
    epilogue.inputs.push_back({node(id).dtype, head, e.full[i], head ? 0 : out_.tensors[at(e.tensors[i])].vregs});
    if (head) continue;
    work.reads.push_back(e.tensors[i]);
    work.host_buffers.push_back(out_.values[at(id)].buffer);
  }
  const int32_t head = head_buffer(group, e);
  const bool head_is_output = std::count(e.outputs.begin(), e.outputs.end(), group.head) > 0;
  if (head_is_output) {
    work.writes.push_back(tensor_of(group.head));
    work.host_buffers.push_back(head);
  }
  for (NodeId id : e.chain.outputs) {
    epilogue.outputs.push_back(node(id).dtype);
    work.writes.push_back(tensor_of(id));
    work.host_buffers.push_back(out_.values[at(id)].buffer);
  }
  if (!head_is_output) work.host_buffers.push_back(head);
  epilogue.work = e.work;
  epilogue.work.plan = e.plan;
  epilogue.lane_broadcasts = e.lane_broadcasts / static_cast<double>(registers);
  return epilogue;
}

void Lowerer::lower_matvec(const FusionGroup& group, const DotDims& dims) {
  const Node& n = node(group.head);
  const NodeId lhs = n.operands[0], rhs = n.operands[1];
  const bool matrix_is_lhs = element_count(node(lhs).shape) >= element_count(node(rhs).shape);
  const NodeId matrix = matrix_is_lhs ? lhs : rhs, vector = matrix_is_lhs ? rhs : lhs;
  const Dims& contracting = matrix_is_lhs ? dims.lhs_contracting : dims.rhs_contracting;
  const Shape& shape = node(matrix).shape;
  if (!out_.tensors[at(tensor_of(matrix))].laid_out) tensor_as(matrix, smallest(shape, chip_), group.head);
  out_.tensors[at(tensor_of(vector))].laid_out = true;
  const int32_t m_tensor = tensor_of(matrix), v_tensor = tensor_of(vector);
  const Tiling tiling = tiling_of(matrix);
  const int64_t registers = std::max<int64_t>(1, out_.tensors[at(m_tensor)].vregs);

  sim::ReduceWork reduce;
  const bool line = is_line(shape) || tiling.lane < 0;
  const bool lanes = line || contracting.contains(tiling.lane);
  const bool subs = line || contracting.contains(tiling.sublane);
  double remaining = 1;
  if (!line)
    for (int64_t d = 0; d < shape.size(); ++d)
      if (!contracting.contains(d))
        remaining *= static_cast<double>(d == tiling.lane      ? ceil_div(shape[d], chip_.vpu.lanes)
                                         : d == tiling.sublane ? ceil_div(shape[d], chip_.vpu.sublanes)
                                                               : shape[d]);
  reduce.lane_reductions = lanes ? remaining : 0;
  reduce.sublane_reductions = subs ? remaining : 0;
  const auto plan = std::make_shared<sim::ProductPlan>();
  if (values_)
    *plan = sim::plan_product(dims, out_.values[at(lhs)].layout, out_.values[at(rhs)].layout, n.shape, n.dtype,
                              chip_.mxu.rows);
  out_.flops_padded[at(group.head)] = 2 * registers * chip_.vpu.sublanes * chip_.vpu.lanes;

  const Tiling result = smallest(n.shape, chip_);
  Epilogue e = epilogue_of(group, result);
  Work work = work_of("matvec", group);
  work.reads = {m_tensor, v_tensor};
  work.host_buffers = {buffer_of(matrix), buffer_of(vector)};
  for (NodeId id : e.outputs) define(id, result);
  const bool head_is_output = std::find(e.outputs.begin(), e.outputs.end(), group.head) != e.outputs.end();
  struct Small {
    DType dtype;
    int64_t vregs;
    bool head;
  };
  std::vector<Small> inputs;
  std::vector<DType> outputs;
  for (size_t i = 0; i < e.chain.inputs.size(); ++i) {
    const NodeId id = e.chain.inputs[i];
    inputs.push_back({node(id).dtype, id == group.head ? 0 : out_.tensors[at(e.tensors[i])].vregs, id == group.head});
    if (id == group.head) continue;
    work.reads.push_back(e.tensors[i]);
    work.host_buffers.push_back(out_.values[at(id)].buffer);
  }
  const int32_t head = head_buffer(group, e);
  if (head_is_output) {
    work.writes.push_back(tensor_of(group.head));
    work.host_buffers.push_back(head);
  }
  for (NodeId id : e.chain.outputs) {
    outputs.push_back(node(id).dtype);
    work.writes.push_back(tensor_of(id));
    work.host_buffers.push_back(out_.values[at(id)].buffer);
  }
  if (!head_is_output) work.host_buffers.push_back(head);
  if (values_) work.scratch_bytes = sim::scratch_bytes(*plan);
  const int64_t out_registers = std::max<int64_t>(1, vregs(n.shape, result, chip_)),
                vector_registers = std::max<int64_t>(1, out_.tensors[at(v_tensor)].vregs);
  count_chain_flops(group, out_registers);
  for (int64_t steps : {1, 2, 4, 8, 16, 32, 64, 256, 1024, 4096, 16384})
    if (steps <= registers) work.tiles.push_back({.m = steps});
  const DType dtype = n.dtype;
  const int64_t sublanes = chip_.vpu.sublanes, lane_count = chip_.vpu.lanes;
  sim::VectorWork tail = e.work;
  tail.plan = e.plan;
  tail.lane_broadcasts = e.lane_broadcasts;
  work.build = [=](const Tile& tile) {
    const int64_t block = ceil_div(registers, tile.m), steps = ceil_div(registers, block);
    sim::Kernel k("matvec", {steps});
    const auto shape_of = [&](int64_t count) { return Shape{count, sublanes, lane_count}; };
    const sim::Ref a = k.in("matrix", {dtype, shape_of(registers)}, shape_of(block), sim::at(0));
    const sim::Ref b = k.in("vector", {dtype, shape_of(vector_registers)}, shape_of(vector_registers), sim::whole());
    std::vector<sim::Ref> in, out;
    for (size_t i = 0; i < inputs.size(); ++i)
      in.push_back(inputs[i].head ? sim::Ref{}
                                  : k.in(concat("epilogue", i), {inputs[i].dtype, shape_of(inputs[i].vregs)},
                                         shape_of(inputs[i].vregs), sim::whole()));
    sim::Ref c;
    if (head_is_output) c = k.out("c", {dtype, shape_of(out_registers)}, shape_of(out_registers), sim::whole());
    for (size_t i = 0; i < outputs.size(); ++i)
      out.push_back(
          k.out(concat("out", i), {outputs[i], shape_of(out_registers)}, shape_of(out_registers), sim::whole()));
    if (!head_is_output) c = k.scratch("sums", {DType::f32, shape_of(out_registers)});
    for (sim::Ref& r : in)
      if (r.index < 0) r = c;
    k.collapse();
    k.body([=](sim::Step& s) {
      sim::ReduceWork w = reduce;
      w.vregs = static_cast<double>(s.last(0) ? registers - (steps - 1) * block : block);
      if (!s.last(0)) w.lane_reductions = w.sublane_reductions = 0;
      s.pays(sim::Payer::head);
      s.matvec(c, matrix_is_lhs ? a : b, matrix_is_lhs ? b : a, a, w, plan);
      if (!out.empty() && s.last(0)) {
        s.pays(sim::Payer::rest);
        s.vector(tail, in, out);
      }
    });
    return k;
  };
  std::string key = concat("matvec ", registers, ' ', vector_registers, ' ', out_registers, ' ', reduce.lane_reductions,
                           ' ', reduce.sublane_reductions, ' ', e.work.alu_slots, ' ', e.work.eup_pushes,
                           head_is_output, ' ', e.lane_broadcasts);
  for (const Small& i : inputs) key += concat(" i", i.dtype, i.head, i.vregs);
  for (DType d : outputs) key += concat(" o", d);
  work.signature = key;
  add_work(std::move(work));
}

}  // namespace backbeat::tpu
