#include "engine/host/vector_program.hpp"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/error.hpp"
#include "engine/host/elementwise.hpp"
#include "engine/host/scratch.hpp"
#include "engine/host/vector_values.hpp"
#include "engine/tape.hpp"

namespace backbeat::host {

namespace {

// Elements a chunk: so many that the registers of most programs stay in L1, those of the others in L2.
int64_t chunk_of(const VectorProgram& p) { return p.registers <= 12 ? 1024 : p.registers <= 24 ? 512 : 256; }
constexpr double parallel_ns = 60'000;     // below, threads cost more than they give

struct Region {
  int64_t r0, r1, c0, c1;
};

// How an input reaches its register: as memory itself, or copied once a run, once a row, once a block.
enum class Fetch : uint8_t { direct, once, row, block };

thread_local Scratch registers, pointers, fetches;

const char* at(const void* base, DType dtype, int64_t element) {
  return static_cast<const char*>(base) + element * size_of(dtype);
}

// rows x columns elements from memory into a register, element after element.
void load(DType dtype, const void* from, int64_t row_stride, int64_t column_stride, int64_t rows, int64_t columns, void* out) {
  visit(dtype, [&]<class T>() {
    using R = std::conditional_t<is_half(dtype_of<T>()), float, T>;
    R* to = static_cast<R*>(out);
    for (int64_t r = 0; r < rows; ++r, to += columns) {
      const T* in = static_cast<const T*>(from) + r * row_stride;
      if (column_stride == 0) {
        std::fill_n(to, columns, static_cast<R>(*in));
      } else if (column_stride == 1) {
        if constexpr (is_half(dtype_of<T>())) widen(dtype, in, to, columns);
        else std::memcpy(to, in, static_cast<size_t>(columns) * sizeof(T));
      } else {
        for (int64_t c = 0; c < columns; ++c) to[c] = static_cast<R>(in[c * column_stride]);
      }
    }
  });
}

void store(DType dtype, const void* in, int64_t rows, int64_t columns, void* to, int64_t row_stride, int64_t column_stride) {
  visit(dtype, [&]<class T>() {
    using R = std::conditional_t<is_half(dtype_of<T>()), float, T>;
    const R* from = static_cast<const R*>(in);
    for (int64_t r = 0; r < rows; ++r, from += columns) {
      T* out = static_cast<T*>(to) + r * row_stride;
      if (column_stride == 1) {
        if constexpr (is_half(dtype_of<T>())) narrow(dtype, from, out, columns);
        else std::memcpy(out, from, static_cast<size_t>(columns) * sizeof(T));
      } else {
        for (int64_t c = 0; c < columns; ++c) out[c * column_stride] = static_cast<T>(from[c]);
      }
    }
  });
}

void run_region(const VectorProgram& p, const Region& region, int64_t columns, std::span<const VectorInput> inputs,
                std::span<const VectorOutput> outputs) {
  const int64_t chunk = chunk_of(p);
  // A block is a piece of one row, or several whole rows where they are short.
  const int64_t width = std::min(region.c1 - region.c0, chunk);
  const bool whole_rows = region.c0 == 0 && region.c1 == columns && columns <= chunk / 2;
  const int64_t height = whole_rows ? std::min(region.r1 - region.r0, chunk / columns) : 1;
  const int64_t most = width * height;

  char* const memory = registers.reserve_for<char>(static_cast<int64_t>(p.registers) * chunk * 8);
  const void** value = pointers.reserve_for<const void*>(p.registers);
  Fetch* fetch = fetches.reserve_for<Fetch>(p.inputs);
  const auto own = [&](int i) { return memory + static_cast<int64_t>(i) * chunk * 8; };
  for (int i = 0; i < p.registers; ++i) value[i] = own(i);

  for (int i = 0; i < p.inputs; ++i) {
    const VectorInput& in = inputs[static_cast<size_t>(i)];
    const DType dtype = p.input_dtypes[static_cast<size_t>(i)];
    const bool dense = in.column_stride == 1 && (height == 1 || in.row_stride == width);
    if (in.row_stride == 0 && (in.column_stride == 0 || height > 1)) {
      fetch[i] = Fetch::once;
      load(dtype, at(in.base, dtype, region.c0 * in.column_stride), 0, in.column_stride, height, width, own(i));
    } else if (dense && !is_half(dtype)) {
      fetch[i] = Fetch::direct;
    } else if (in.column_stride == 0 && height == 1) {
      fetch[i] = Fetch::row;
    } else {
      fetch[i] = Fetch::block;
    }
  }
  for (const VectorOp& op : p.ops)
    if (op.op == Op::constant) apply(op, most, nullptr, nullptr, nullptr, own(op.destination));

  // The last operation may write an output straight to memory: nothing is read after it.
  int straight = -1;
  if (!p.ops.empty() && p.ops.back().op != Op::constant)
    for (size_t o = 0; o < outputs.size() && straight < 0; ++o)
      if (p.outputs[o] == p.ops.back().destination && !is_half(p.output_dtypes[o]) && outputs[o].column_stride == 1 &&
          (height == 1 || outputs[o].row_stride == width) && outputs.size() == 1)
        straight = static_cast<int>(o);

  for (int64_t r = region.r0; r < region.r1; r += height) {
    const int64_t rows = std::min(height, region.r1 - r);
    for (int64_t c = region.c0; c < region.c1; c += width) {
      const int64_t count = std::min(width, region.c1 - c), n = rows * count;
      for (int i = 0; i < p.inputs; ++i) {
        if (fetch[i] == Fetch::once || (fetch[i] == Fetch::row && c != region.c0)) continue;
        const VectorInput& in = inputs[static_cast<size_t>(i)];
        const DType dtype = p.input_dtypes[static_cast<size_t>(i)];
        const void* from = at(in.base, dtype, r * in.row_stride + c * in.column_stride);
        if (fetch[i] == Fetch::direct) value[i] = from;
        else load(dtype, from, in.row_stride, in.column_stride, rows, fetch[i] == Fetch::row ? width : count, own(i));
      }
      const auto operand = [&](int i) { return i < 0 ? nullptr : value[i]; };
      for (const VectorOp& op : p.ops) {
        if (op.op == Op::constant) continue;
        void* out = own(op.destination);
        if (straight >= 0 && &op == &p.ops.back()) {
          const VectorOutput& to = outputs[static_cast<size_t>(straight)];
          out = const_cast<char*>(at(to.base, p.output_dtypes[static_cast<size_t>(straight)], r * to.row_stride + c));
        }
        apply(op, n, operand(op.a), operand(op.b), operand(op.c), out);
      }
      for (size_t o = 0; o < outputs.size(); ++o) {
        if (static_cast<int>(o) == straight) continue;
        const VectorOutput& to = outputs[o];
        const DType dtype = p.output_dtypes[o];
        store(dtype, value[p.outputs[o]], rows, count,
              const_cast<char*>(at(to.base, dtype, r * to.row_stride + c * to.column_stride)), to.row_stride, to.column_stride);
      }
    }
  }
}

void check(const VectorProgram& p, std::span<const VectorInput> inputs, std::span<const VectorOutput> outputs) {
  if (static_cast<int>(inputs.size()) != p.inputs || p.input_dtypes.size() != inputs.size())
    fail("vector_program", "takes ", p.inputs, " inputs, got ", inputs.size());
  if (outputs.size() != p.outputs.size() || p.output_dtypes.size() != outputs.size())
    fail("vector_program", "gives ", p.outputs.size(), " outputs, got room for ", outputs.size());
}

// True if a row continues where the one before ended, for all operands: the matrix is then one long row.
bool one_row(int64_t columns, std::span<const VectorInput> inputs, std::span<const VectorOutput> outputs) {
  for (const VectorInput& in : inputs)
    if (in.row_stride != columns * in.column_stride) return false;
  for (const VectorOutput& out : outputs)
    if (out.row_stride != columns * out.column_stride) return false;
  return true;
}

// A rough price an element, to decide whether threads are worth it.
double nanoseconds(const VectorProgram& p) {
  double ns = 0.25 * static_cast<double>(p.inputs + static_cast<int>(p.outputs.size()));
  for (const VectorOp& op : p.ops) {
    const double wide = op.dtype == DType::f64 ? 5 : 1;
    switch (op.op) {
      case Op::constant: break;
      case Op::exp: case Op::expm1: case Op::log: case Op::log1p: case Op::tanh: case Op::logistic: case Op::erf: case Op::sine:
      case Op::cosine: ns += 0.8 * wide; break;
      case Op::power: case Op::remainder: ns += 3 * wide; break;
      case Op::divide: case Op::sqrt: case Op::rsqrt: ns += 0.4; break;
      default: ns += 0.1;
    }
  }
  return ns;
}

}  // namespace

VectorOp vector_op(const Node& node, DType operand_dtype) {
  VectorOp op{.op = node.op, .dtype = node.dtype, .operand_dtype = operand_dtype};
  if (const Direction* direction = std::get_if<Direction>(&node.attributes)) op.direction = *direction;
  if (const FloatFormat* format = std::get_if<FloatFormat>(&node.attributes)) op.format = *format;
  return op;
}

bool is_immediate(const Node& node) {
  if (node.op != Op::constant || element_count(node.shape) != 1) return false;
  return node.dtype != DType::i64 || std::fabs(std::get<Array>(node.attributes).at(0)) < 0x1p53;
}

void run(const VectorProgram& p, int64_t rows, int64_t columns, std::span<const VectorInput> inputs,
         std::span<const VectorOutput> outputs) {
  check(p, inputs, outputs);
  if (rows <= 0 || columns <= 0) return;
  if (one_row(columns, inputs, outputs)) columns *= rows, rows = 1;
  run_region(p, {0, rows, 0, columns}, columns, inputs, outputs);
}

void run_parallel(const VectorProgram& p, int64_t rows, int64_t columns, std::span<const VectorInput> inputs,
                  std::span<const VectorOutput> outputs) {
  check(p, inputs, outputs);
  if (rows <= 0 || columns <= 0) return;
  if (one_row(columns, inputs, outputs)) columns *= rows, rows = 1;
  const double work = nanoseconds(p) * static_cast<double>(rows) * static_cast<double>(columns);
  const int64_t threads = omp_in_parallel() ? 1 : std::min<int64_t>(omp_get_max_threads(), 1 + static_cast<int64_t>(work / parallel_ns));
  if (threads == 1) return run_region(p, {0, rows, 0, columns}, columns, inputs, outputs);
  // Cuts between columns fall on cache lines whatever the dtype.
  const bool by_row = rows >= 4 * threads || columns < 128 * threads;
  const int64_t grains = by_row ? rows : (columns + 63) / 64;
  const auto cut = [&](int64_t i) { return by_row ? rows * i / threads : std::min(columns, grains * i / threads * 64); };
#pragma omp parallel for schedule(static) num_threads(static_cast<int>(threads))
  for (int64_t i = 0; i < threads; ++i) {
    const Region region = by_row ? Region{cut(i), cut(i + 1), 0, columns} : Region{0, rows, cut(i), cut(i + 1)};
    if (region.r0 < region.r1 && region.c0 < region.c1) run_region(p, region, columns, inputs, outputs);
  }
}

}  // namespace backbeat::host
