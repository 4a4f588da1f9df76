// Records kernels as a stream of instructions: the pipeline of a grid, its transfers, and what bodies issue.
#pragma once
#include <vector>

#include "sim/kernel.hpp"
#include "sim/machine.hpp"

namespace backbeat::sim {

// What a ref of a launched kernel is bound to.
struct Operand {
  int32_t tensor = -1;
  bool in_vmem = false;  // the whole tensor lies in VMEM while the kernel runs
  bool load = false;     // ... and this kernel fetches it, once, before its first step
  bool store = true;     // of an output: written to main memory
};

struct Launch {
  const Kernel* kernel = nullptr;
  std::vector<Operand> operands;      // by ref; those of scratch are ignored
  Label all = 0, head = 0, rest = 0;  // who pays, see Payer
  int64_t vmem_bytes = 0;             // for blocks: what residents leave
};

// VMEM that a kernel needs for its blocks: two of each that changes, one of each that stays.
int64_t working_bytes(const Kernel& kernel, const std::vector<Operand>& operands, const Chip& chip);
int64_t block_bytes(const RefSpec& spec, const Dims& extent, const Chip& chip);  // padded to whole registers

class Recording {
 public:
  explicit Recording(const Chip& chip);

  int32_t new_tensor();
  Label new_label(std::vector<Stream::Share> shares);
  void start_program(Label label);  // the launch
  // `next`, if any, is the launch that will be run after this one, the same object: its first blocks are fetched early
  // where they can be.
  void run(const Launch& launch, const Launch* next);
  const Stream& finish();  // what is still to be written back
  Stream& stream() { return stream_; }

 private:
  friend class Step;
  struct Slots {
    Slot first = -1;
    int32_t count = 1;
  };
  struct RefState {
    Slots buffers[2];
    int turn = 0;
    Dims block;         // index of the current block
    bool here = false;  // a block has been fetched or made
    bool changed = true;
    Dims next_block;
    bool next_fetched = false;
  };
  struct Open {
    const Launch* launch = nullptr;
    std::vector<RefState> refs;
    bool opened = false;
  };
  struct Tensor {
    Slot hbm = -1;
    Slots vmem;
    int32_t written_by = -1;
  };
  struct PendingWrite {
    Slots from;
    Slot to;
    int64_t bytes;
    Label label;
    int32_t kernel;
  };

  Open open(const Launch& launch);
  void prefetch(Open& open, int32_t kernel, bool early);
  void fetch(Open& open, size_t ref, const Dims& block, int buffer, int32_t kernel);
  void flush_writes();
  void close_outputs(Open& open, const Dims* next_index);
  bool changes(const Kernel& kernel, size_t ref) const;

  // --- what Step calls
  Slots slots(Ref ref) const;
  double vregs(Ref ref) const;      // of the current block
  double transfers(Ref ref) const;  // registers to load or store: narrow types share one
  Label label(Payer payer) const;
  Append body(Kind kind, Payer payer);
  void read_all(Append& append, Slots slots);
  void write_all(Append& append, Slots slots, Engine writer);
  void fill(const Step& step, Ref out);
  void matmul(const Step& step, Ref c, Ref a, Ref b, const Product& product);
  void matvec(const Step& step, Ref c, Ref a, Ref b, Ref matrix, const ReduceWork& work);
  void convolve(const Step& step, Ref c, Ref x, Ref w, const Convolution& convolution);
  void begin_sums(Ref c, bool accumulate);
  void array_product(Payer payer, Slots c, Slots a, Slots b, double m, int64_t n, const std::vector<int64_t>& k_tiles,
                     double passes, bool accumulate, bool transposed_latch, double register_share,
                     bool packs_result = false);
  void vector(const Step& step, const VectorWork& work, const std::vector<Ref>& inputs,
              const std::vector<Ref>& outputs);
  void reduce(const Step& step, Ref out, Ref in, const ReduceWork& work);
  void transpose(const Step& step, Ref out, Ref in);
  void copy(const Step& step, Ref out, const std::vector<Ref>& parts, const CopyWork& work);
  bool in_main_memory(Ref ref) const;
  void rows(const Step& step, Ref to, Ref from, const RowWork& work);
  void array(const Step& step, Ref out, const std::vector<Ref>& operands, const ArrayWork& work);
  void random(const Step& step, Ref out, Ref key);
  void split(const Step& step, Ref parts, Ref in, Precision precision);

  Chip chip_;
  Stream stream_;
  std::vector<Tensor> tensors_;
  std::vector<Slot> weights_;  // two (or one) a matrix unit
  std::vector<int> weights_turn_;
  std::vector<Engine> slot_writer_;  // the matrix unit that wrote a slot last; -1: another engine
  std::vector<PendingWrite> pending_;
  Open current_, next_;
  int32_t kernel_ = -1;
  Label last_label_ = 0;
  Slot token_ = -1;
  double step_cycles_ = 0, bytes_per_cycle_ = 1;
  int64_t hbm_latency_ = 0;
};

}  // namespace backbeat::sim
