// dot_general: offset tables over the operands as they lie, one GEMM a batch element. No transpose is ever made. Floats are
// added up in f32, or in f64 where the operands or the result are f64: operands that are narrower are widened first.
#include <omp.h>

#include <algorithm>

#include "devices/cpu/step.hpp"
#include "engine/host/elementwise.hpp"
#include "engine/host/gemm.hpp"

namespace backbeat::cpu {

namespace {

// Offsets of all indices over the given dimensions, the last of them fastest.
std::vector<int64_t> offsets(const Shape& shape, const Dims& dims) {
  const Dims strides = row_major_strides(shape);
  std::vector<int64_t> table{0};
  for (int64_t d : dims) {
    std::vector<int64_t> longer;
    longer.reserve(table.size() * static_cast<size_t>(shape[d]));
    for (int64_t base : table)
      for (int64_t i = 0; i < shape[d]; ++i) longer.push_back(base + i * strides[d]);
    table = std::move(longer);
  }
  return table;
}

Dims free_dims(const Shape& shape, const Dims& batch, const Dims& contracting) {
  Dims free;
  for (int64_t i = 0; i < shape.size(); ++i)
    if (!batch.contains(i) && !contracting.contains(i)) free.push_back(i);
  return free;
}

struct Tables {
  std::vector<int64_t> a_batch, a_row, a_column, b_batch, b_row, b_column, c_row, c_column;
};

}  // namespace

Step dot_step(const Tape& tape, NodeId id) {
  const Node& node = tape[id];
  const DotDims& dims = *std::get<std::shared_ptr<const DotDims>>(node.attributes);
  const NodeId lhs = node.operands[0], rhs = node.operands[1];
  const Shape &a = tape[lhs].shape, &b = tape[rhs].shape;
  const DType from = tape[lhs].dtype, to = node.dtype;

  auto tables = std::make_shared<Tables>();
  tables->a_batch = offsets(a, dims.lhs_batch);
  tables->b_batch = offsets(b, dims.rhs_batch);
  tables->a_row = offsets(a, free_dims(a, dims.lhs_batch, dims.lhs_contracting));
  tables->a_column = offsets(a, dims.lhs_contracting);
  tables->b_row = offsets(b, dims.rhs_contracting);
  tables->b_column = offsets(b, free_dims(b, dims.rhs_batch, dims.rhs_contracting));
  const auto batch = static_cast<int64_t>(tables->a_batch.size()), m = static_cast<int64_t>(tables->a_row.size()),
             n = static_cast<int64_t>(tables->b_column.size()), k = static_cast<int64_t>(tables->a_column.size());
  for (int64_t i = 0; i < m; ++i) tables->c_row.push_back(i * n);
  for (int64_t j = 0; j < n; ++j) tables->c_column.push_back(j);

  Step step{{id}, {lhs, rhs}, {id}, {}, 0, {}};
  if (is_half(to)) step.scratch_bytes = batch * m * n * 4;  // adds in f32, rounds once
  const int64_t lhs_count = element_count(a), rhs_count = element_count(b);
  const bool widens = to == DType::f64 && from != DType::f64;
  if (widens) step.scratch_bytes = (lhs_count + rhs_count) * 8;
  // Many small products run side by side, few large ones are split inside.
  const double products = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  const bool batch_threads = batch > 1 && products < 2.5e6 && products * static_cast<double>(batch) > 2.5e6;

  step.work = [=](const Memory& memory) {
    const Tables& t = *tables;
    const auto each = [&]<class From, class To>(const From* x, const From* y, To* z) {
#pragma omp parallel for schedule(static) if (batch_threads && !omp_in_parallel())
      for (int64_t i = 0; i < batch; ++i) {
        const From* left = x + t.a_batch[static_cast<size_t>(i)];
        const From* right = y + t.b_batch[static_cast<size_t>(i)];
        host::gemm(m, n, k, host::Indexed<From>{left, t.a_row.data(), t.a_column.data()},
                   host::Indexed<From>{right, t.b_row.data(), t.b_column.data()},
                   host::IndexedOut<To>{z + i * m * n, t.c_row.data(), t.c_column.data()});
      }
    };
    if (is_integer(to)) {
      for (size_t i = 0; i < t.a_batch.size(); ++i)
        host::gemm_integers(
            m, n, k, from, {memory.at(lhs) + t.a_batch[i] * size_of(from), t.a_row.data(), t.a_column.data()},
            {memory.at(rhs) + t.b_batch[i] * size_of(from), t.b_row.data(), t.b_column.data()}, to,
            memory.at(id) + static_cast<int64_t>(i) * m * n * size_of(to), t.c_row.data(), t.c_column.data());
      return;
    }
    if (widens) {
      double* x = reinterpret_cast<double*>(memory.scratch);
      host::widen(from, memory.at(lhs), x, lhs_count);
      host::widen(from, memory.at(rhs), x + lhs_count, rhs_count);
      return each(static_cast<const double*>(x), static_cast<const double*>(x + lhs_count), memory.at<double>(id));
    }
    if (to == DType::f64) return each(memory.at<double>(lhs), memory.at<double>(rhs), memory.at<double>(id));
    float* sums = is_half(to) ? reinterpret_cast<float*>(memory.scratch) : memory.at<float>(id);
    if (from == DType::bf16) each(memory.at<bf16>(lhs), memory.at<bf16>(rhs), sums);
    else if (from == DType::f16) each(memory.at<f16>(lhs), memory.at<f16>(rhs), sums);
    else each(memory.at<float>(lhs), memory.at<float>(rhs), sums);
    if (is_half(to)) host::narrow(to, sums, memory.at(id), batch * m * n);
  };
  return step;
}

}  // namespace backbeat::cpu
