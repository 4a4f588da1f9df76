// Products of integers: the operands are copied once, dense and in the width of the result, then multiplied row by row.
#include <algorithm>
#include <type_traits>

#include "engine/error.hpp"
#include "engine/host/gemm.hpp"
#include "engine/host/scratch.hpp"

namespace backbeat::host {

namespace {

thread_local Scratch left, right;

// Without sign, where products and sums wrap, and in 32 bits at least.
template <class To>
using Wrapping = std::common_type_t<std::make_unsigned_t<To>, unsigned>;

template <class W>
const W* dense(DType from, int64_t rows, int64_t columns, IntegerOperand x, Scratch& room) {
  W* out = room.reserve_for<W>(rows * columns);
  visit(from, [&]<class From>() {
    if constexpr (std::is_integral_v<From>)
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c)
          out[r * columns + c] = static_cast<W>(static_cast<const From*>(x.base)[x.row[r] + x.column[c]]);
  });
  return out;
}

template <class To>
void multiply(int64_t m, int64_t n, int64_t k, DType from, IntegerOperand a, IntegerOperand b, To* c, const int64_t* c_row,
              const int64_t* c_column) {
  using W = Wrapping<To>;
  const W* x = dense<W>(from, m, k, a, left);
  const W* y = dense<W>(from, k, n, b, right);
#pragma omp parallel for schedule(static) if (m > 1 && m * n * k > (1 << 20))
  for (int64_t i = 0; i < m; ++i) {
    thread_local Scratch line;
    W* sum = line.reserve_for<W>(n);
    std::fill_n(sum, n, W(0));
    for (int64_t l = 0; l < k; ++l)
      for (int64_t j = 0; j < n; ++j) sum[j] += x[i * k + l] * y[l * n + j];
    for (int64_t j = 0; j < n; ++j) c[c_row[i] + c_column[j]] = static_cast<To>(sum[j]);
  }
}

}  // namespace

void gemm_integers(int64_t m, int64_t n, int64_t k, DType from, IntegerOperand a, IntegerOperand b, DType to, void* c,
                   const int64_t* c_row, const int64_t* c_column) {
  if (!is_integer(from) || !is_integer(to)) fail("gemm", "expected integers, got ", from, " and ", to);
  visit(to, [&]<class To>() {
    if constexpr (std::is_integral_v<To> && !std::is_same_v<To, bool>)
      multiply(m, n, k, from, a, b, static_cast<To*>(c), c_row, c_column);
  });
}

}  // namespace backbeat::host
