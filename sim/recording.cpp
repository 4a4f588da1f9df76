// The pipeline of a grid: which block is fetched when, into which buffer, and when it is written back.
#include "sim/recording.hpp"

#include <algorithm>
#include <cmath>

namespace backbeat::sim {

int64_t block_bytes(const RefSpec& spec, const Dims& extent, const Chip& chip) {
  return padded_elements(extent, chip.vpu.sublanes, chip.vpu.lanes) * size_of(spec.array.dtype);
}

namespace {
bool has_several_blocks(const RefSpec& spec) {
  for (int64_t d = 0; d < spec.block.size(); ++d)
    if (spec.block[d] < spec.array.shape[d]) return true;
  return false;
}
}  // namespace

int64_t working_bytes(const Kernel& kernel, const std::vector<Operand>& operands, const Chip& chip) {
  int64_t bytes = 0;
  for (size_t r = 0; r < kernel.refs().size(); ++r) {
    const RefSpec& spec = kernel.refs()[r];
    const bool scratch = spec.role == RefSpec::scratch;
    if (!scratch && (operands[r].in_vmem || spec.stays)) continue;
    bytes += block_bytes(spec, spec.block, chip) * (scratch || has_several_blocks(spec) ? 2 : 1);
  }
  return bytes;
}

Recording::Recording(const Chip& chip) : chip_(chip) {
  stream_.engines = static_cast<int32_t>(engine_names(chip).size());
  token_ = stream_.new_slot();
  const int64_t buffers = chip.mxu.double_buffered ? 2 : 1;
  for (int64_t i = 0; i < chip.mxu.count * buffers; ++i) weights_.push_back(stream_.new_slot());
  weights_turn_.assign(static_cast<size_t>(chip.mxu.count), 0);
  step_cycles_ = static_cast<double>(chip.overhead.step_cycles);
  hbm_latency_ = chip.cycles(chip.hbm.latency_seconds);
  bytes_per_cycle_ = chip.hbm_bytes_per_cycle();
}

int32_t Recording::new_tensor() {
  tensors_.push_back({stream_.new_slot(), {}, -1});
  return static_cast<int32_t>(tensors_.size()) - 1;
}

Label Recording::new_label(std::vector<Stream::Share> shares) {
  stream_.labels.push_back(std::move(shares));
  return static_cast<Label>(stream_.labels.size()) - 1;
}

void Recording::start_program(Label label) {
  Append(stream_, Kind::launch, label, -1)
      .part(scalar, static_cast<double>(chip_.cycles(chip_.overhead.launch_seconds)))
      .write(token_);
}

Recording::Open Recording::open(const Launch& launch) {
  Open open;
  open.launch = &launch;
  open.opened = true;
  for (size_t r = 0; r < launch.kernel->refs().size(); ++r) {
    const RefSpec& spec = launch.kernel->refs()[r];
    RefState state;
    const int32_t count =
        spec.role == RefSpec::input ? 1 : static_cast<int32_t>(chip_.mxu.count);  // one a unit that writes
    const auto fresh = [&] {
      Slots s{stream_.slots, count};
      stream_.slots += count;
      return s;
    };
    if (spec.role != RefSpec::scratch && launch.operands[r].in_vmem) {
      Tensor& tensor = tensors_[static_cast<size_t>(launch.operands[r].tensor)];
      if (tensor.vmem.first < 0) {
        tensor.vmem = {stream_.slots, static_cast<int32_t>(chip_.mxu.count)};
        stream_.slots += tensor.vmem.count;
      }
      state.buffers[0] = state.buffers[1] = tensor.vmem;
    } else if (spec.stays) {
      state.buffers[0] = state.buffers[1] = {tensors_[static_cast<size_t>(launch.operands[r].tensor)].hbm, 1};
    } else {
      state.buffers[0] = fresh();
      state.buffers[1] = spec.role == RefSpec::scratch || has_several_blocks(spec) ? fresh() : state.buffers[0];
    }
    open.refs.push_back(state);
  }
  slot_writer_.resize(static_cast<size_t>(stream_.slots), -1);
  return open;
}

void Recording::fetch(Open& open, size_t ref, const Dims& block, int buffer, int32_t kernel) {
  const RefSpec& spec = open.launch->kernel->refs()[ref];
  const Operand& operand = open.launch->operands[ref];
  const Tensor& tensor = tensors_[static_cast<size_t>(operand.tensor)];
  const Dims extent = operand.in_vmem ? spec.array.shape : block_extent(spec, block);
  const int64_t grain = chip_.hbm.granularity;
  const int64_t bytes = (block_bytes(spec, extent, chip_) + grain - 1) / grain * grain;
  // A block that is still to be written back is written before it is read.
  if (std::any_of(pending_.begin(), pending_.end(), [&](const PendingWrite& p) { return p.to == tensor.hbm; }))
    flush_writes();
  const double cycles = static_cast<double>(bytes) / bytes_per_cycle_;
  Append(stream_, Kind::fetch, open.launch->all, kernel)
      .part(dma_in, cycles)
      .part(hbm, cycles)
      .glance(tensor.hbm)
      .write(open.refs[ref].buffers[buffer].first)
      .issued(token_)
      .latency(hbm_latency_)
      .bytes(bytes);
}

// The first blocks of a kernel. Early: while the kernel before it still runs, as far as its data is there.
void Recording::prefetch(Open& open, int32_t kernel, bool early) {
  const Dims first = Dims::filled(open.launch->kernel->grid().size(), 0);
  for (size_t r = 0; r < open.refs.size(); ++r) {
    RefState& state = open.refs[r];
    const RefSpec& spec = open.launch->kernel->refs()[r];
    if (state.here || spec.role != RefSpec::input) continue;
    const Operand& operand = open.launch->operands[r];
    if (early && tensors_[static_cast<size_t>(operand.tensor)].written_by == kernel_) continue;
    if (operand.in_vmem ? !operand.load : spec.stays) {
      if (!early) {
        state.here = true;
        state.block = spec.map(first);
      }
      continue;
    }
    state.block = spec.map(first);
    fetch(open, r, state.block, 0, kernel);
    state.here = true;
  }
}

void Recording::flush_writes() {
  for (const PendingWrite& p : pending_) {
    const double cycles = static_cast<double>(p.bytes) / bytes_per_cycle_;
    Append append(stream_, Kind::write_back, p.label, p.kernel);
    append.part(dma_out, cycles).part(hbm, cycles).write(p.to).issued(token_).latency(hbm_latency_).bytes(p.bytes);
    read_all(append, p.from);
  }
  pending_.clear();
}

void Recording::close_outputs(Open& open, const Dims* next_index) {
  const Launch& launch = *open.launch;
  for (size_t r = 0; r < open.refs.size(); ++r) {
    const RefSpec& spec = launch.kernel->refs()[r];
    RefState& state = open.refs[r];
    if (spec.role != RefSpec::output) continue;
    const Dims next = next_index ? spec.map(*next_index) : Dims{};
    if (next_index && next == state.block) {
      state.changed = false;
      continue;
    }
    const Operand& operand = launch.operands[r];
    if (operand.store && (operand.in_vmem || !spec.stays)) {
      const int64_t grain = chip_.hbm.granularity;
      const int64_t bytes = (block_bytes(spec, block_extent(spec, state.block), chip_) + grain - 1) / grain * grain;
      pending_.push_back(
          {state.buffers[state.turn], tensors_[static_cast<size_t>(operand.tensor)].hbm, bytes, launch.all, kernel_});
    }
    if (next_index) {
      state.block = next;
      state.turn ^= 1;
      state.changed = true;
    }
  }
}

void Recording::run(const Launch& launch, const Launch* next) {
  const Kernel& kernel = *launch.kernel;
  ++kernel_;
  last_label_ = launch.all;
  stream_.kernels = kernel_ + 1;
  current_ = next_.opened && next_.launch == &launch ? std::move(next_) : open(launch);
  next_ = Open{};

  const Dims& grid = kernel.grid();
  Dims index = Dims::filled(grid.size(), 0);
  const int64_t steps = kernel.steps();
  for (size_t r = 0; r < current_.refs.size(); ++r)
    if (kernel.refs()[r].role == RefSpec::output) {
      current_.refs[r].block = kernel.refs()[r].map(index);
      current_.refs[r].here = true;
      tensors_[static_cast<size_t>(launch.operands[r].tensor)].written_by = kernel_;
    }

  for (int64_t s = 0; s < steps; ++s) {
    Dims following = index;
    for (int64_t axis = grid.size() - 1; axis >= 0; --axis) {
      if (++following[axis] < grid[axis]) break;
      following[axis] = 0;
    }
    // The scalar unit: the step's overhead once the body before it is issued, then the transfers.
    std::vector<size_t> moving;
    for (size_t r = 0; r < current_.refs.size(); ++r) {
      const RefSpec& spec = kernel.refs()[r];
      if (spec.role == RefSpec::input && s + 1 < steps && !launch.operands[r].in_vmem &&
          !(spec.map(following) == spec.map(index)))
        moving.push_back(r);
    }
    const double issue =
        static_cast<double>((moving.size() + pending_.size()) * static_cast<size_t>(chip_.overhead.dma_issue_cycles));
    Append(stream_, Kind::step, launch.all, kernel_).part(scalar, step_cycles_ + issue).write(token_);
    if (s == 0) prefetch(current_, kernel_, false);
    for (size_t r : moving) {
      RefState& state = current_.refs[r];
      state.next_block = kernel.refs()[r].map(following);
      fetch(current_, r, state.next_block, state.turn ^ 1, kernel_);
      state.next_fetched = true;
    }
    if (s + 1 == steps && next) {
      next_ = open(*next);
      const int64_t room = std::min(launch.vmem_bytes, next->vmem_bytes);
      if (working_bytes(kernel, launch.operands, chip_) + working_bytes(*next->kernel, next->operands, chip_) <= room)
        prefetch(next_, kernel_ + 1, true);
    }
    flush_writes();
    {
      Append wait(stream_, Kind::wait, launch.all, kernel_);
      wait.part(scalar, 0).write(token_);
      for (size_t r = 0; r < current_.refs.size(); ++r)
        if (kernel.refs()[r].role == RefSpec::input) {
          const RefState& state = current_.refs[r];
          for (int32_t i = 0; i < state.buffers[state.turn].count; ++i)
            wait.glance(state.buffers[state.turn].first + i);
        }
    }

    Step step;
    step.index_ = index;
    step.grid_ = grid;
    step.kernel_ = &kernel;
    step.recording_ = this;
    kernel.run(step);

    close_outputs(current_, s + 1 < steps ? &following : nullptr);
    for (size_t r = 0; r < current_.refs.size(); ++r) {
      RefState& state = current_.refs[r];
      if (kernel.refs()[r].role != RefSpec::input) continue;
      state.changed = state.next_fetched;
      if (!state.next_fetched) continue;
      state.block = state.next_block;
      state.turn ^= 1;
      state.next_fetched = false;
    }
    index = following;
  }
}

const Stream& Recording::finish() {
  Append(stream_, Kind::step, last_label_, kernel_).part(scalar, 0).write(token_);
  flush_writes();
  return stream_;
}

}  // namespace backbeat::sim
