// The machine's time: a stream of instructions, recorded once, and the max-plus recurrence that says when each one
// starts.
//
// An instruction starts when all engines it needs are free, its operands are ready and its destination is no longer
// read. It occupies each of its engines for a number of cycles of its own; its duration is the longest of them, as in a
// software pipelined loop; its result is ready when its duration and its latency have passed. Engines take instructions
// in the order of the stream. Nothing else sets a time: every overlap and every stall comes out of these rules.
#pragma once
#include <string>
#include <vector>

#include "engine/cost.hpp"
#include "sim/chip.hpp"

namespace backbeat::sim {

using Slot = int32_t;    // a piece of memory, or a token, that one instruction writes and others read
using Engine = int32_t;  // an index into engine_names()
using Label = int32_t;   // who pays: an index into Stream::labels

// The engines of every chip come first; matrix units follow, each with the port that latches its weights.
enum FixedEngine : Engine { scalar, dma_in, dma_out, hbm, vpu, eup, xlu, vmem_load, vmem_store, first_mxu };
inline Engine mxu(int64_t unit) { return first_mxu + 2 * static_cast<Engine>(unit); }
inline Engine mxu_weights(int64_t unit) { return mxu(unit) + 1; }
std::vector<std::string> engine_names(const Chip& chip);  // "scalar", ..., "mxu0", "mxu0.weights", ...

enum class Kind : uint8_t { step, wait, fetch, write_back, latch, matmul, vector, reduce, transpose, launch };

struct Part {
  Engine engine;
  int32_t occupancy;
};

struct Instruction {
  int32_t first_part, first_read, first_write;  // into the pools of the stream
  int16_t parts, reads, writes;
  Kind kind;
  int32_t latency;  // beyond the duration
  Slot issued;      // the token after which the instruction is in its queue; -1: from the start
  Label label;
  int32_t kernel;  // -1: the launch
  int64_t bytes;   // of main memory
};

struct Stream {
  std::vector<Instruction> instructions;
  std::vector<Part> parts;
  std::vector<Slot> reads;  // ~slot: the read does not hold the slot against its next writer
  std::vector<Slot> writes;
  Slot slots = 0;
  int32_t kernels = 0;
  int32_t engines = 0;

  // The nodes behind a label and their shares, which sum to 1.
  struct Share {
    NodeId node;
    double share;
  };
  std::vector<std::vector<Share>> labels;

  Slot new_slot() { return slots++; }
};

// Writes one instruction after the other into a stream.
class Append {
 public:
  Append(Stream& stream, Kind kind, Label label, int32_t kernel);
  Append& part(Engine engine, double cycles);  // rounded up
  Append& read(Slot slot);
  Append& glance(Slot slot);  // waits for the slot without holding it
  Append& write(Slot slot);
  Append& issued(Slot token);
  Append& latency(int64_t cycles);
  Append& bytes(int64_t bytes);

 private:
  Instruction& last() { return stream_.instructions.back(); }
  Stream& stream_;
};

// Factors on durations: 0 removes, 0.5 makes twice as fast. Empty: all 1.
struct Scaling {
  std::vector<double> by_label, by_engine;
};

// engine: its own work before it; issue: the step was not open yet; hbm: data on its way; weights: a latch; operands:
// results of other engines; buffers: its destination was still read; ports: another engine that it needs as well was
// busy.
enum class Cause : uint8_t { none, engine, issue, hbm, weights, operands, buffers, ports };
constexpr int cause_count = 8;
std::string_view name_of(Cause cause);  // "issue", "hbm", ...; an engine's own work has none

// When everything happened.
struct Times {
  Cycles total = 0;
  std::vector<Cycles> start, end;   // by instruction; end = when its result is ready
  std::vector<int32_t> waited_for;  // the instruction that set the start; -1: none
  std::vector<Cause> cause;         // why the first engine stood still before it
  std::vector<Cycles> stalled;      // for how long, after the instruction was issued
  std::vector<EngineCost> engines;  // busy + stalled + idle = total
};

Cycles total_cycles(const Stream& stream, const Scaling& scaling = {});  // the fast recurrence
Times simulate(const Stream& stream, const Chip& chip,
               const Scaling& scaling = {});  // the same one, with the books kept

// Who set the pace: walking back from the end along `waited_for`, the cycles of each kernel by engine.
struct PathSegment {
  int32_t instruction;
  Cycles begin, end;
};
std::vector<PathSegment> critical_path(const Stream& stream, const Times& times);  // from the end to the start

// Splits `total` in proportion to the weights, to the last unit, by the largest remainders.
std::vector<int64_t> apportion(int64_t total, const std::vector<double>& weights);

}  // namespace backbeat::sim
