// A kernel: a grid, blocks of its operands, and a body that issues instructions on them.
//
//   Kernel k("matmul", {m / bm, n / bn, d / bk});
//   Ref a = k.in("a", {DType::f32, {m, d}}, {bm, bk}, at(0, 2));    // block index = grid axes 0 and 2
//   Ref b = k.in("b", {DType::f32, {d, n}}, {bk, bn}, at(2, 1));
//   Ref c = k.out("c", {DType::f32, {m, n}}, {bm, bn}, at(0, 1));
//   k.body([=](Step& s) { s.matmul(c, a, b, {.accumulate = !s.first(2)}); });
//
// The grid runs in lexicographic order, the last axis fastest. While a step's body runs the pipeline fetches the blocks
// of the next step into the other of two buffers; a block whose index does not change stays; an output block is written
// back when its index changes. The same body runs in two modes: for time (instructions are recorded, sim/recording.hpp)
// and for values (instructions compute at once, sim/evaluation.hpp).
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/dims.hpp"
#include "engine/dtype.hpp"
#include "engine/host/array_operation.hpp"
#include "engine/primitive.hpp"
#include "sim/chip.hpp"
#include "sim/values.hpp"

namespace backbeat::sim {

struct Ref {
  int32_t index = -1;
};

using IndexMap = std::function<Dims(const Dims& grid_index)>;
// Dimension i of the block index is grid axis axes[i]; -1: always block 0.
IndexMap at(const Dims& axes);
template <class... Axes>
IndexMap at(int first, Axes... axes) {
  return at(Dims{first, axes...});
}
IndexMap whole();  // always the first block

struct ArraySpec {
  DType dtype = DType::f32;
  Shape shape;  // the last two dimensions lie on sublanes and lanes
};

// What a ref is to its kernel. Blocks need not divide the shape: the last ones are cut.
struct RefSpec {
  enum Role : uint8_t { input, output, scratch };
  std::string name;
  Role role = input;
  ArraySpec array;
  Dims block;
  IndexMap map;
  bool stays = false;  // has no blocks: it stays where it is, and bodies move rows of it
};

// Which nodes pay for an instruction of a fused kernel: all of it, the product at its head, or the rest.
enum class Payer : uint8_t { all, head, rest };

// How one block-level product runs on the arrays.
struct Product {
  bool accumulate = false;  // add to what `c` holds
  Precision precision = Precision::standard;
  int64_t pass = -1;                          // one pass of those of the precision; -1: all, one after the other
  bool a_transposed = false;                  // `a` is [k, m]: the XLU turns it
  bool b_transposed = false;                  // `b` is [n, k]: latched transposed
  double emulated_passes = 0;                 // f64, i64, f16: that many passes
  Ref a_from{}, b_from{};                     // scratch that holds the turned or split operand, if any
  bool swapped = false;                       // `plan` calls `b` its first operand
  std::shared_ptr<const ProductPlan> plan{};  // values of the collapsed kernel
};

// One phase of a convolution in a block: output positions that use the same taps.
struct ConvolutionPhase {
  std::vector<int64_t> k_tiles;  // rows of the array in use, tile by tile
  double positions = 0;          // rows streamed for each image of the block
};
struct Convolution {
  bool accumulate = false;
  int64_t pass = -1;  // as in Product
  Precision precision = Precision::standard;
  int64_t images = 1, columns = 1;  // of this block: lhs batch entries, output features
  int64_t groups = 1;
  bool streams_kernel = false;    // positions are latched and output features streamed: for few features
  bool transposed_latch = false;  // the contracted dimension lies on the lanes of what is latched
  double turned_vregs = 0;        // registers of what is streamed that the XLU has to turn in this block
  bool packs_result = false;      // features are few: the XLU packs positions onto the lanes
  const std::vector<ConvolutionPhase>* phases = nullptr;
  std::shared_ptr<const ConvolutionPlan> plan{};
};

// A register program over a block. Slots and pushes are per vector register of the iteration space.
struct VectorWork {
  double vregs = 0;  // of the iteration space in this block; 0: those of the first output
  double alu_slots = 0, eup_pushes = 0;
  double lane_broadcasts = 0;  // registers of this block that are spread over the lanes first
  std::shared_ptr<const VectorPlan> plan{};
};
// A reduction of `vregs` registers: added up lane by lane; then `lane_reductions` registers across their lanes and
// `sublane_reductions` across their sublanes.
struct ReduceWork {
  double vregs = 0, lane_reductions = 0, sublane_reductions = 0;
  bool source_in_registers = false;  // the end of a chain: nothing is loaded
  std::shared_ptr<const ReducePlan> plan{};
};
struct CopyWork {
  double vregs = 0;         // loaded and stored; 0: those of the output
  double turned_vregs = 0;  // through the XLU: transposes, rotations across lanes and sublanes
  std::shared_ptr<const CopyPlan> plan{};
};
// Rows (slices at computed places) moved one after the other.
struct RowWork {
  double rows = 0, addresses = 0;  // how many, and what the scalar unit computes for them
  double vregs = 0;                // registers of a row: loaded and stored where both ends are in VMEM
  double pieces = 1;               // of contiguous main memory in a row,
  int64_t piece_bytes = 0;         // each so long before it is rounded up to the granularity
};
// Windows, scans, sorts, places that are computed: all of one block.
struct ArrayWork {
  double slots = 0;                          // vector operations
  double lane_turns = 0, sublane_turns = 0;  // registers rotated or reduced along lanes, along sublanes
  double loads = 0, stores = 0;              // registers
  double loop = 0;                           // cycles of the scalar unit, which walks over rows
  double in_sequence = 0;                    // cycles of the longest chain of operations that wait for each other
  Ref landed{};                              // rows that were moved for it
  std::shared_ptr<const host::ArrayOperation> operation{};
};

// What a register program costs on a chip, for one vector register of its iteration space.
VectorWork work_of(const host::VectorProgram& program, const Chip& chip);
// The same of one node of a fused group, in vector slots: how a fused kernel's time is shared.
double slots_of(Op op, DType dtype, const Chip& chip);

class Kernel;
class Recording;
class Evaluation;

// One step of the grid, as the body sees it.
class Step {
 public:
  int64_t index(int64_t axis) const { return index_[axis]; }
  bool first(int64_t axis) const { return index_[axis] == 0; }
  bool last(int64_t axis) const { return index_[axis] == grid_[axis] - 1; }
  bool changed(Ref ref) const;  // the block came with this step
  Dims extent(Ref ref) const;   // of the block, cut at the edge
  void pays(Payer payer) { payer_ = payer; }

  void fill(Ref out, double value);
  void matmul(Ref c, Ref a, Ref b, const Product& product = {});
  // A matrix times a vector, in f32 on the vector unit. `matrix` is a or b; `work` reduces its registers.
  void matvec(Ref c, Ref a, Ref b, Ref matrix, const ReduceWork& work, std::shared_ptr<const ProductPlan> plan);
  void convolve(Ref c, Ref x, Ref w, const Convolution& convolution);
  void vector(const VectorWork& work, const std::vector<Ref>& inputs, const std::vector<Ref>& outputs);
  void vector(const host::VectorProgram& program, const std::vector<Ref>& inputs, const std::vector<Ref>& outputs);
  void reduce(Ref out, Ref in, const ReduceWork& work);
  void reduce(Ref out, Ref in, Reduction kind, int64_t axis);  // of the block; `out` keeps the axis with extent 1
  void transpose(Ref out, Ref in);                             // the last two dimensions
  void copy(Ref out, Ref in, const CopyWork& work = {});
  void gather(Ref out, const std::vector<Ref>& parts, const CopyWork& work);  // concatenate
  void rows(Ref to, Ref from, const RowWork& work);  // one of them may stay in main memory
  void array(Ref out, const std::vector<Ref>& operands, const ArrayWork& work);
  void random(Ref out, Ref key, std::shared_ptr<const RandomPlan> plan = {});
  void split(Ref parts, Ref in, Precision precision);  // into the bf16 parts of high and highest, for `matmul`

 private:
  friend class Recording;
  friend class Evaluation;
  Dims index_, grid_;
  const Kernel* kernel_ = nullptr;
  Recording* recording_ = nullptr;
  Evaluation* evaluation_ = nullptr;
  Payer payer_ = Payer::all;
};

class Kernel {
 public:
  Kernel() = default;
  Kernel(std::string name, const Dims& grid);
  Ref in(const std::string& name, const ArraySpec& array, const Dims& block, IndexMap map);
  Ref out(const std::string& name, const ArraySpec& array, const Dims& block, IndexMap map);
  Ref scratch(const std::string& name, const ArraySpec& array);
  Ref staying(const std::string& name, RefSpec::Role role, const ArraySpec& array);  // an operand without blocks
  void body(std::function<void(Step&)> body) { body_ = std::move(body); }
  // Values do not depend on how the grid cuts the arrays: they are computed in one step, over whole arrays.
  void collapse() { collapses_ = true; }

  const std::string& name() const { return name_; }
  const Dims& grid() const { return grid_; }
  int64_t steps() const { return element_count(grid_); }
  const std::vector<RefSpec>& refs() const { return refs_; }
  bool collapses() const { return collapses_; }
  void run(Step& step) const { body_(step); }

 private:
  Ref add(RefSpec spec);
  std::string name_;
  Dims grid_;
  std::vector<RefSpec> refs_;
  std::function<void(Step&)> body_;
  bool collapses_ = false;
};

// Elements, rounded up to whole registers' sublanes and lanes, of a block of that extent; a vector fills whole
// registers.
int64_t padded_elements(const Dims& extent, int64_t sublanes, int64_t lanes);
Dims block_extent(const RefSpec& spec, const Dims& block_index);

}  // namespace backbeat::sim
