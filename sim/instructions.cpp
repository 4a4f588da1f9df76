// What each instruction of a body occupies, and for how long. The formulas are listed in docs/model.md.
#include <algorithm>
#include <cmath>

#include "sim/evaluation.hpp"
#include "sim/recording.hpp"

namespace backbeat::sim {

namespace {
double ceil_div(double a, double b) { return std::ceil(a / b - 1e-9); }
}  // namespace

// --- Step: one body, two modes

bool Step::changed(Ref ref) const {
  return !recording_ || recording_->current_.refs[static_cast<size_t>(ref.index)].changed;
}

Dims Step::extent(Ref ref) const {
  const RefSpec& spec = kernel_->refs()[static_cast<size_t>(ref.index)];
  if (spec.role == RefSpec::scratch) return spec.block;
  return block_extent(spec, spec.map(index_));
}

void Step::fill(Ref out, double value) {
  recording_ ? recording_->fill(*this, out) : evaluation_->fill(*this, out, value);
}
void Step::matmul(Ref c, Ref a, Ref b, const Product& p) {
  recording_ ? recording_->matmul(*this, c, a, b, p) : evaluation_->matmul(*this, c, a, b, p);
}
void Step::matvec(Ref c, Ref a, Ref b, Ref matrix, const ReduceWork& work, std::shared_ptr<const ProductPlan> plan) {
  recording_ ? recording_->matvec(*this, c, a, b, matrix, work)
             : evaluation_->matmul(*this, c, a, b, {.plan = std::move(plan)});
}
void Step::convolve(Ref c, Ref x, Ref w, const Convolution& v) {
  recording_ ? recording_->convolve(*this, c, x, w, v) : evaluation_->convolve(*this, c, x, w, v);
}
void Step::vector(const VectorWork& work, const std::vector<Ref>& in, const std::vector<Ref>& out) {
  recording_ ? recording_->vector(*this, work, in, out) : evaluation_->vector(*this, *work.plan, in, out);
}
void Step::vector(const host::VectorProgram& program, const std::vector<Ref>& in, const std::vector<Ref>& out) {
  recording_ ? recording_->vector(*this, work_of(program, recording_->chip_), in, out)
             : evaluation_->vector(*this, program, in, out);
}
void Step::reduce(Ref out, Ref in, const ReduceWork& work) {
  recording_ ? recording_->reduce(*this, out, in, work) : evaluation_->reduce(*this, out, in, *work.plan);
}
void Step::reduce(Ref out, Ref in, Reduction kind, int64_t axis) {
  if (evaluation_) return evaluation_->reduce(*this, out, in, kind, axis);
  const Dims extent = this->extent(in);
  const double lanes = static_cast<double>(recording_->chip_.vpu.lanes),
               sublanes = static_cast<double>(recording_->chip_.vpu.sublanes);
  ReduceWork work;
  work.vregs = recording_->vregs(in);
  if (axis == extent.size() - 1)
    work.lane_reductions = work.vregs / ceil_div(static_cast<double>(extent[axis]), lanes);
  else if (axis == extent.size() - 2)
    work.sublane_reductions = work.vregs / ceil_div(static_cast<double>(extent[axis]), sublanes);
  recording_->reduce(*this, out, in, work);
}
void Step::transpose(Ref out, Ref in) {
  recording_ ? recording_->transpose(*this, out, in) : evaluation_->transpose(*this, out, in);
}
void Step::copy(Ref out, Ref in, const CopyWork& work) {
  recording_ ? recording_->copy(*this, out, {in}, work) : evaluation_->copy(*this, out, {in}, work);
}
void Step::gather(Ref out, const std::vector<Ref>& parts, const CopyWork& work) {
  recording_ ? recording_->copy(*this, out, parts, work) : evaluation_->copy(*this, out, parts, work);
}
void Step::rows(Ref to, Ref from, const RowWork& work) {
  if (recording_) recording_->rows(*this, to, from, work);
}
void Step::array(Ref out, const std::vector<Ref>& operands, const ArrayWork& work) {
  recording_ ? recording_->array(*this, out, operands, work) : evaluation_->array(out, operands, *work.operation);
}
void Step::random(Ref out, Ref key, std::shared_ptr<const RandomPlan> plan) {
  recording_ ? recording_->random(*this, out, key) : evaluation_->random(*this, out, key, plan.get());
}
void Step::split(Ref parts, Ref in, Precision precision) {
  if (recording_) recording_->split(*this, parts, in, precision);
}

// --- operands

Recording::Slots Recording::slots(Ref ref) const {
  const RefState& state = current_.refs[static_cast<size_t>(ref.index)];
  return state.buffers[state.turn];
}

double Recording::vregs(Ref ref) const {
  const RefSpec& spec = current_.launch->kernel->refs()[static_cast<size_t>(ref.index)];
  const Dims extent = spec.role == RefSpec::scratch
                          ? spec.block
                          : block_extent(spec, current_.refs[static_cast<size_t>(ref.index)].block);
  return static_cast<double>(padded_elements(extent, chip_.vpu.sublanes, chip_.vpu.lanes)) /
         static_cast<double>(chip_.vpu.sublanes * chip_.vpu.lanes);
}

double Recording::transfers(Ref ref) const {
  const RefSpec& spec = current_.launch->kernel->refs()[static_cast<size_t>(ref.index)];
  return vregs(ref) * static_cast<double>(size_of(spec.array.dtype)) / 4;
}

Label Recording::label(Payer payer) const {
  const Launch& l = *current_.launch;
  return payer == Payer::head ? l.head : payer == Payer::rest ? l.rest : l.all;
}

// An instruction of the body is in its queue when the step is open, and holds the step until it has left it.
Append Recording::body(Kind kind, Payer payer) {
  Append append(stream_, kind, label(payer), kernel_);
  append.issued(token_);
  append.read(token_);
  return append;
}

void Recording::read_all(Append& append, Slots slots) {
  for (int32_t i = 0; i < slots.count; ++i) append.read(slots.first + i);
}
void Recording::write_all(Append& append, Slots slots, Engine writer) {
  for (int32_t i = 0; i < slots.count; ++i) {
    append.write(slots.first + i);
    slot_writer_[static_cast<size_t>(slots.first + i)] = writer;
  }
}

// --- the vector unit

void Recording::fill(const Step& step, Ref out) {
  Append append = body(Kind::vector, step.payer_);
  append.part(vmem_store, transfers(out) / chip_.vmem.stores_per_cycle).latency(chip_.vmem.latency);
  write_all(append, slots(out), -1);
}

void Recording::vector(const Step& step, const VectorWork& work, const std::vector<Ref>& inputs,
                       const std::vector<Ref>& outputs) {
  const double vregs = work.vregs > 0 ? work.vregs : outputs.empty() ? 0 : this->vregs(outputs[0]);
  double loads = 0, stores = 0;
  for (Ref r : inputs) loads += transfers(r);
  for (Ref r : outputs) stores += transfers(r);
  Append append = body(Kind::vector, step.payer_);
  append.part(vpu, std::max(1.0, vregs * work.alu_slots / static_cast<double>(chip_.vpu.alus)));
  if (work.lane_broadcasts > 0) append.part(xlu, work.lane_broadcasts * chip_.xlu.reduce_cycles_per_vreg);
  if (work.eup_pushes > 0) append.part(eup, vregs * work.eup_pushes * chip_.eup.cycles_per_vreg);
  if (loads > 0) append.part(vmem_load, loads / chip_.vmem.loads_per_cycle);
  if (stores > 0) append.part(vmem_store, stores / chip_.vmem.stores_per_cycle);
  append.latency(2 * chip_.vmem.latency + chip_.vpu.latency + (work.eup_pushes > 0 ? chip_.eup.latency : 0));
  for (Ref r : inputs) read_all(append, slots(r));
  for (Ref r : outputs) write_all(append, slots(r), -1);
}

void Recording::reduce(const Step& step, Ref out, Ref in, const ReduceWork& work) {
  const double rolls = std::ceil(std::log2(static_cast<double>(std::max<int64_t>(2, chip_.vpu.sublanes))));
  Append append = body(Kind::reduce, step.payer_);
  append.part(vpu, std::max(1.0, (work.vregs + work.sublane_reductions * rolls) / static_cast<double>(chip_.vpu.alus)));
  const double across = work.lane_reductions * chip_.xlu.reduce_cycles_per_vreg + work.sublane_reductions * rolls;
  if (across > 0) append.part(xlu, across);
  if (!work.source_in_registers) append.part(vmem_load, work.vregs / chip_.vmem.loads_per_cycle);
  append.part(vmem_store, transfers(out) / chip_.vmem.stores_per_cycle);
  append.latency(2 * chip_.vmem.latency + chip_.vpu.latency + (across > 0 ? chip_.xlu.latency : 0));
  read_all(append, slots(in));
  write_all(append, slots(out), -1);
}

void Recording::transpose(const Step& step, Ref out, Ref in) {
  RefState& state = current_.refs[static_cast<size_t>(out.index)];
  if (current_.launch->kernel->refs()[static_cast<size_t>(out.index)].role == RefSpec::scratch) state.turn ^= 1;
  const double registers = vregs(in);
  Append append = body(Kind::transpose, step.payer_);
  append.part(xlu, registers * chip_.xlu.transpose_cycles_per_vreg)
      .part(vmem_load, transfers(in) / chip_.vmem.loads_per_cycle)
      .part(vmem_store, transfers(in) / chip_.vmem.stores_per_cycle)
      .latency(2 * chip_.vmem.latency + chip_.xlu.latency);
  read_all(append, slots(in));
  write_all(append, slots(out), -1);
}

void Recording::copy(const Step& step, Ref out, const std::vector<Ref>& parts, const CopyWork& work) {
  double loads = 0, stores = transfers(out);
  for (Ref r : parts) loads += transfers(r);
  if (work.vregs > 0) loads = stores = work.vregs;
  Append append = body(Kind::vector, step.payer_);
  append.part(vmem_load, std::max(1.0, loads / chip_.vmem.loads_per_cycle))
      .part(vmem_store, stores / chip_.vmem.stores_per_cycle);
  if (work.turned_vregs > 0) append.part(xlu, work.turned_vregs * chip_.xlu.transpose_cycles_per_vreg);
  append.latency(2 * chip_.vmem.latency + (work.turned_vregs > 0 ? chip_.xlu.latency : 0));
  for (Ref r : parts) read_all(append, slots(r));
  write_all(append, slots(out), -1);
}

bool Recording::in_main_memory(Ref ref) const {
  const Launch& l = *current_.launch;
  return l.kernel->refs()[static_cast<size_t>(ref.index)].stays && !l.operands[static_cast<size_t>(ref.index)].in_vmem;
}

// The scalar unit computes every address; rows move through vector registers, or by DMA where one end is main memory.
void Recording::rows(const Step& step, Ref to, Ref from, const RowWork& work) {
  const double addresses = work.addresses * chip_.overhead.address_cycles;
  const bool reads = in_main_memory(from), writes = in_main_memory(to);
  if (reads && writes) fail("rows", current_.launch->kernel->name(), ": one end has to lie in VMEM");
  if (!reads && !writes) {
    Append append = body(Kind::vector, step.payer_);
    append.part(scalar, addresses)
        .part(vmem_load, work.rows * work.vregs / chip_.vmem.loads_per_cycle)
        .part(vmem_store, work.rows * work.vregs / chip_.vmem.stores_per_cycle)
        .latency(2 * chip_.vmem.latency);
    read_all(append, slots(from));
    write_all(append, slots(to), -1);
    return;
  }
  const int64_t grain = chip_.hbm.granularity;
  const double bytes = work.rows * work.pieces * static_cast<double>((work.piece_bytes + grain - 1) / grain * grain);
  Append append = body(reads ? Kind::fetch : Kind::write_back, step.payer_);
  append.part(reads ? dma_in : dma_out, bytes / bytes_per_cycle_)
      .part(hbm, bytes / bytes_per_cycle_)
      .part(scalar, addresses + work.rows * static_cast<double>(chip_.overhead.dma_issue_cycles))
      .latency(hbm_latency_)
      .bytes(static_cast<int64_t>(std::ceil(bytes)));
  read_all(append, slots(from));
  write_all(append, slots(to), -1);
}

void Recording::array(const Step& step, Ref out, const std::vector<Ref>& operands, const ArrayWork& work) {
  const struct {
    Engine engine;
    double cycles;
  } parts[] = {{vpu, work.slots / static_cast<double>(chip_.vpu.alus)},
               {xlu, work.lane_turns * chip_.xlu.reduce_cycles_per_vreg + work.sublane_turns},
               {vmem_load, work.loads / chip_.vmem.loads_per_cycle},
               {vmem_store, work.stores / chip_.vmem.stores_per_cycle},
               {scalar, work.loop}};
  double longest = 0;
  for (const auto& p : parts) longest = std::max(longest, p.cycles);
  if (longest == 0) return;  // `rows` has done it all
  Append append = body(Kind::vector, step.payer_);
  for (const auto& p : parts)
    if (p.cycles > 0) append.part(p.engine, p.cycles);
  const bool turns = work.lane_turns + work.sublane_turns > 0;
  append.latency(2 * chip_.vmem.latency + chip_.vpu.latency + (turns ? chip_.xlu.latency : 0) +
                 static_cast<int64_t>(std::ceil(std::max(0.0, work.in_sequence - longest))));
  for (Ref r : operands)
    if (!in_main_memory(r)) read_all(append, slots(r));
  if (work.landed.index >= 0) read_all(append, slots(work.landed));
  write_all(append, slots(out), -1);
}

void Recording::random(const Step& step, Ref out, Ref key) {
  const VectorWork work{0, chip_.vpu.random_slots, 0, 0, {}};
  vector(step, work, {key}, {out});
}

namespace {
// bf16 is what the units multiply; f16 is taken for f32, at full precision.
int passes_of(DType operands, Precision precision) {
  return operands == DType::bf16 ? 1 : backbeat::passes_of(operands == DType::f16 ? Precision::highest : precision);
}
}  // namespace

// The bf16 parts of a block: round, subtract, and again.
void Recording::split(const Step& step, Ref parts, Ref in, Precision precision) {
  current_.refs[static_cast<size_t>(parts.index)].turn ^= 1;
  vector(step, {vregs(in), precision == Precision::high ? 3.0 : 5.0, 0, 0, {}}, {in}, {parts});
}

// A matrix times a vector: multiply, add up, reduce.
void Recording::matvec(const Step& step, Ref c, Ref a, Ref b, Ref matrix, const ReduceWork& work) {
  begin_sums(c, true);
  Append multiply = body(Kind::vector, step.payer_);
  multiply.part(vpu, std::max(1.0, work.vregs / static_cast<double>(chip_.vpu.alus)))
      .part(vmem_load, transfers(matrix) / chip_.vmem.loads_per_cycle)
      .latency(chip_.vmem.latency + chip_.vpu.latency);
  read_all(multiply, slots(a));
  read_all(multiply, slots(b));
  ReduceWork rest = work;
  rest.source_in_registers = true;
  reduce(step, c, matrix, rest);
}

// --- the matrix units

// A new sum into scratch goes to the other of its two buffers: the epilogue of the one before may still read.
void Recording::begin_sums(Ref c, bool accumulate) {
  if (!accumulate && current_.launch->kernel->refs()[static_cast<size_t>(c.index)].role == RefSpec::scratch)
    current_.refs[static_cast<size_t>(c.index)].turn ^= 1;
}

void Recording::matmul(const Step& step, Ref c, Ref a, Ref b, const Product& p) {
  const RefSpec& spec = current_.launch->kernel->refs()[static_cast<size_t>(a.index)];
  const Dims a_extent = step.extent(a), b_extent = step.extent(b);
  const int64_t rank = a_extent.size();
  const int64_t m = a_extent[rank - (p.a_transposed ? 1 : 2)], k = a_extent[rank - (p.a_transposed ? 2 : 1)];
  const int64_t n = b_extent[b_extent.size() - (p.b_transposed ? 2 : 1)];
  const int64_t k_of_b = b_extent[b_extent.size() - (p.b_transposed ? 1 : 2)];
  if (k != k_of_b)
    fail("matmul", "blocks contract ", a_extent, " with ", b_extent, ": ", k, " and ", k_of_b, " differ");
  int64_t products = 1;
  for (int64_t d = 0; d + 2 < rank; ++d) products *= a_extent[d];

  std::vector<int64_t> tiles;
  for (int64_t done = 0; done < k; done += chip_.mxu.rows) tiles.push_back(std::min(chip_.mxu.rows, k - done));
  double passes = static_cast<double>(passes_of(spec.array.dtype, p.precision));
  if (p.pass >= 0) passes = 1;
  if (p.emulated_passes > 0) passes = p.emulated_passes;
  const double share = static_cast<double>(size_of(spec.array.dtype)) / 4;
  begin_sums(c, p.accumulate);
  const Slots from_a = slots(p.a_from.index >= 0 ? p.a_from : a), from_b = slots(p.b_from.index >= 0 ? p.b_from : b);
  for (int64_t i = 0; i < products; ++i)
    array_product(step.payer_, slots(c), from_a, from_b, static_cast<double>(m), n, tiles, passes, p.accumulate,
                  p.b_transposed, share);
}

void Recording::convolve(const Step& step, Ref c, Ref x, Ref w, const Convolution& v) {
  const RefSpec& spec = current_.launch->kernel->refs()[static_cast<size_t>(x.index)];
  const Ref streamed = v.streams_kernel ? w : x;
  if (v.turned_vregs > 0 && step.changed(streamed)) {
    Append turn = body(Kind::transpose, step.payer_);
    turn.part(xlu, v.turned_vregs * chip_.xlu.transpose_cycles_per_vreg)
        .part(vmem_load, v.turned_vregs / chip_.vmem.loads_per_cycle)
        .part(vmem_store, v.turned_vregs / chip_.vmem.stores_per_cycle)
        .latency(chip_.xlu.latency + 2 * chip_.vmem.latency);
    read_all(turn, slots(streamed));
    turn.write(slots(streamed).first);
  }
  begin_sums(c, v.accumulate);
  const double passes = v.pass >= 0                      ? 1
                        : spec.array.dtype == DType::f64 ? chip_.emulation.f64_passes
                                                         : static_cast<double>(passes_of(spec.array.dtype, v.precision));
  const double share = static_cast<double>(size_of(spec.array.dtype)) / 4;
  for (int64_t g = 0; g < v.groups; ++g)
    for (const ConvolutionPhase& phase : *v.phases) {
      if (phase.k_tiles.empty()) continue;
      const double rows = phase.positions * static_cast<double>(v.images);
      if (v.streams_kernel)
        array_product(step.payer_, slots(c), slots(w), slots(x), static_cast<double>(v.columns),
                      static_cast<int64_t>(std::ceil(rows)), phase.k_tiles, passes, v.accumulate, v.transposed_latch,
                      share);
      else
        array_product(step.payer_, slots(c), slots(x), slots(w), rows, v.columns, phase.k_tiles, passes, v.accumulate,
                      v.transposed_latch, share, v.packs_result);
    }
}

// m rows stream through the weights of each tile of n and of k. Column tiles are dealt over the matrix units; where fewer
// are left than units, their rows are split. Partial sums of one tile stay on one unit, so they add up in order without waiting.
void Recording::array_product(Payer payer, Slots c, Slots a, Slots b, double m, int64_t n,
                              const std::vector<int64_t>& k_tiles, double passes, bool accumulate,
                              bool transposed_latch, double register_share, bool packs_result) {
  const int64_t units = chip_.mxu.count, columns = chip_.mxu.columns;
  const double sublanes = static_cast<double>(chip_.vpu.sublanes), lanes = static_cast<double>(chip_.vpu.lanes);
  const int64_t tiles = (n + columns - 1) / columns;
  const int buffers = chip_.mxu.double_buffered ? 2 : 1;
  const double latch_rate =
      transposed_latch ? chip_.mxu.transposed_latch_rows_per_cycle : chip_.mxu.latch_rows_per_cycle;
  const double latch_cycles = static_cast<double>(chip_.mxu.rows) / latch_rate;
  const int64_t drain = chip_.mxu.rows + chip_.mxu.columns - 2 + chip_.mxu.pipeline_latency;
  const auto whole_passes = static_cast<int64_t>(std::ceil(passes));

  struct Share {
    int64_t unit, width;
    double rows;
  };
  std::vector<Share> shares;
  for (int64_t first = 0; first < tiles; first += units) {
    shares.clear();
    const auto width = [&](int64_t tile) { return std::min(columns, n - tile * columns); };
    if (first + units <= tiles || m <= sublanes * static_cast<double>(units)) {
      for (int64_t t = first; t < std::min(tiles, first + units); ++t) shares.push_back({t - first, width(t), m});
    } else {
      // Fewer tiles than units are left: each gets as many units, and its rows are split over them, as long as a unit
      // streams at least as many rows as it latches. The others stay idle: latching for them would cost more.
      const auto worth = static_cast<int64_t>(m / static_cast<double>(chip_.mxu.rows));
      const int64_t group = std::clamp<int64_t>(worth, 1, units / (tiles - first));
      const double part = ceil_div(ceil_div(m, static_cast<double>(group)), sublanes) * sublanes;
      for (int64_t t = first; t < tiles; ++t)
        for (int64_t u = 0; u < group; ++u)
          if (m - static_cast<double>(u) * part > 0)
            shares.push_back({(t - first) * group + u, width(t), std::min(part, m - static_cast<double>(u) * part)});
    }
    bool fresh = !accumulate;
    for (int64_t pass = 0; pass < whole_passes; ++pass)
      for (size_t kt = 0; kt < k_tiles.size(); ++kt) {
        const bool last = pass + 1 == whole_passes && kt + 1 == k_tiles.size();
        for (const Share& s : shares) {
          const int turn = buffers == 2 ? (weights_turn_[static_cast<size_t>(s.unit)] ^= 1) : 0;
          const Slot weights = weights_[static_cast<size_t>(s.unit * buffers + turn)];
          const double column_registers = ceil_div(static_cast<double>(s.width), lanes);
          Append latch = body(Kind::latch, payer);
          latch.part(mxu_weights(s.unit), latch_cycles)
              .part(vmem_load, static_cast<double>(k_tiles[kt]) / sublanes * column_registers * register_share /
                                   chip_.vmem.loads_per_cycle)
              .write(weights);
          read_all(latch, b);

          const double row_registers = ceil_div(s.rows, sublanes);
          const double result = row_registers * column_registers;
          double loads = row_registers * ceil_div(static_cast<double>(k_tiles[kt]), lanes) * register_share;
          double stores = 0, adds = 0;
          if (chip_.mxu.accumulates_in_vmem) {
            stores = result;
            if (!fresh) loads += result, adds = result;
          } else if (last) {
            stores = result;
          }
          Append product = body(Kind::matmul, payer);
          product.part(mxu(s.unit), s.rows / chip_.mxu.rows_per_cycle)
              .part(vmem_load, loads / chip_.vmem.loads_per_cycle);
          if (stores > 0) product.part(vmem_store, stores / chip_.vmem.stores_per_cycle);
          if (adds > 0) product.part(vpu, adds / static_cast<double>(chip_.vpu.alus));
          if (packs_result && last) product.part(xlu, result * chip_.xlu.transpose_cycles_per_vreg);
          product.latency(drain + (packs_result && last ? chip_.xlu.latency : 0));
          product.read(weights);
          read_all(product, a);
          const Slot sums = c.first + static_cast<Slot>(c.count > 1 ? s.unit : 0);
          Engine& writer = slot_writer_[static_cast<size_t>(sums)];
          if (!fresh && writer != mxu(s.unit)) product.read(sums);
          product.write(sums);
          writer = mxu(s.unit);
        }
        fresh = false;
      }
  }
}

}  // namespace backbeat::sim
