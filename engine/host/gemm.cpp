#include "engine/host/gemm.hpp"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "engine/error.hpp"
#include "engine/host/instruction_set.hpp"
#include "engine/host/kernels.hpp"
#include "engine/host/pack.hpp"
#include "engine/host/scratch.hpp"

namespace backbeat::host {

namespace {

constexpr int64_t default_tile = 256;
constexpr int64_t block_k = 384;                // K tiles are walked together up to this depth
constexpr int64_t block_a_bytes = 256 << 10;    // a packed block of A stays in L2
constexpr int64_t block_b_bytes = 2 << 20;      // and one of B in L3
constexpr double parallel_products = 2.5e6;     // about 100 us on one core

thread_local Scratch a_panels, b_panels, ranges, flags, ends;

template <class T>
const GemmKernels<T>& gemm_kernels() {
  if constexpr (sizeof(T) == 8) return kernels().f64;
  else return kernels().f32;
}

// An operand seen from its panels: `minor` runs across a panel, `major` along k.
template <class From>
struct Side {
  const From* base;
  const int64_t* minor;
  const int64_t* major;
  int part;
};

template <class From, class T>
struct Problem {
  int64_t m, n, k;
  Side<From> a, b;
  IndexedOut<T> c;
  std::span<const int64_t> tiles;
  bool accumulate, matrix_unit, exact_products;
};

bool ascends(const int64_t* table, int64_t n) {
  for (int64_t i = 1; i < n; ++i)
    if (table[i] != table[i - 1] + 1) return false;
  return true;
}

template <class From, class T>
void pack_side(const Side<From>& side, int64_t start, int64_t count, int64_t width, int64_t k0, int64_t k1, bool matrix_unit,
               T* panels, float* range) {
  const int64_t depth = k1 - k0, size = width * depth;
  constexpr int64_t most_together = 16;
  for (int64_t i = 0; i < count;) {
    const int64_t* minor = side.minor + start + i;
    int64_t together = 0;
    while (together < most_together && i + (together + 1) * width <= count && ascends(minor, (together + 1) * width)) ++together;
    if (together > 0) {
      pack_contiguous(side.base + minor[0], together, width, side.major + k0, depth, panels);
    } else {
      together = 1;
      pack(side.base, minor, std::min(width, count - i), width, side.major + k0, depth, panels);
    }
    if constexpr (sizeof(T) == 4)
      for (int64_t p = 0; p < together && matrix_unit; ++p, range += 2) {
        // The last register may reach beyond the panel: zeros stand there meanwhile.
        T* panel = panels + p * size;
        T beyond[16];
        std::copy_n(panel + size, 16, beyond);
        std::fill_n(panel + size, 16, T(0));
        kernels().prepare_panel(panel, size, side.part, range);
        std::copy_n(beyond, 16, panel + size);
      }
    panels += together * size;
    i += together * width;
  }
}

// The rectangle [m0, m1) x [n0, n1) of C, on this thread.
template <class From, class T>
void rectangle(const Problem<From, T>& p, int64_t m0, int64_t m1, int64_t n0, int64_t n1) {
  const GemmKernels<T>& kernel = gemm_kernels<T>();
  const int64_t aw = kernel.a_width, bw = kernel.b_width, size = static_cast<int64_t>(sizeof(T));
  const auto round_up = [](int64_t x, int64_t to) { return (x + to - 1) / to * to; };
  size_t tile = 0;
  for (int64_t k0 = 0; k0 < p.k;) {
    size_t last = tile + 1;
    while (last < p.tiles.size() && p.tiles[last] - k0 <= block_k) ++last;
    const int64_t k1 = p.tiles[last - 1], depth = k1 - k0;
    const int64_t mc = std::max(aw, block_a_bytes / (size * depth) / aw * aw);
    const int64_t nc = std::max(bw, block_b_bytes / (size * depth) / bw * bw);
    const int64_t m_most = round_up(std::min(mc, m1 - m0), aw), n_most = round_up(std::min(nc, n1 - n0), bw);
    T* a = a_panels.reserve_for<T>(m_most * depth + 16);
    T* b = b_panels.reserve_for<T>(n_most * depth + 16);
    float* a_range = ranges.reserve_for<float>((m_most / aw + n_most / bw) * 2);
    float* b_range = a_range + m_most / aw * 2;
    auto* contiguous = flags.reserve_for<uint8_t>(n_most / bw);
    auto* tile_ends = ends.reserve_for<int64_t>(static_cast<int64_t>(last - tile));
    for (size_t t = tile; t < last; ++t) tile_ends[t - tile] = p.tiles[t] - k0;
    for (int64_t j = n0; j < n1; j += nc) {
      const int64_t n = std::min(nc, n1 - j);
      pack_side(p.b, j, n, bw, k0, k1, p.matrix_unit, b, b_range);
      for (int64_t v = 0; v < n; v += bw) contiguous[v / bw] = ascends(p.c.column + j + v, std::min(bw, n - v));
      for (int64_t i = m0; i < m1; i += mc) {
        const int64_t m = std::min(mc, m1 - i);
        pack_side(p.a, i, m, aw, k0, k1, p.matrix_unit, a, a_range);
        kernel.block({m, n, depth, a, b, p.c.base, p.c.row + i, p.c.column + j, contiguous, tile_ends,
                      static_cast<int64_t>(last - tile), tile > 0 || p.accumulate, p.matrix_unit, p.exact_products, a_range,
                      b_range});
      }
    }
    k0 = k1;
    tile = last;
  }
}

// How many threads share rows and how many columns: the smallest largest piece, packing counted as 16 products an element.
std::pair<int64_t, int64_t> grid(int64_t m, int64_t n, int64_t aw, int64_t bw, int64_t threads) {
  std::pair<int64_t, int64_t> best{1, 1};
  double least = std::numeric_limits<double>::max();
  for (int64_t rows = 1; rows <= threads; ++rows) {
    const int64_t columns = threads / rows;
    const double pm = static_cast<double>((m + rows * aw - 1) / (rows * aw) * aw);
    const double pn = static_cast<double>((n + columns * bw - 1) / (columns * bw) * bw);
    const double cost = pm * pn + 16 * (pm + pn);
    if (cost < least) least = cost, best = {rows, columns};
  }
  return best;
}

double unit_steps(const int64_t* table, int64_t n) {
  int64_t steps = 0;
  for (int64_t i = 1; i < n; ++i) steps += table[i] == table[i - 1] + 1;
  return n > 1 ? static_cast<double>(steps) / static_cast<double>(n - 1) : 1.0;
}

template <class T>
void clear(int64_t m, int64_t n, IndexedOut<T> c) {
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) c.base[c.row[i] + c.column[j]] = T(0);
}

void check(int64_t k, const GemmOptions& o, bool f32) {
  int64_t end = 0;
  for (int64_t t : o.k_tiles) {
    if (t <= end || t > k) fail("gemm", "K tiles must ascend and end at ", k, ", got an end of ", t);
    end = t;
  }
  if (!o.k_tiles.empty() && end != k) fail("gemm", "K tiles end at ", end, ", K is ", k);
  if (!f32 && o.matrix_unit) fail("gemm", "the matrix unit has no f64");
  if (!o.matrix_unit && (o.a_part != Part::whole || o.b_part != Part::whole))
    fail("gemm", "parts of an operand belong to the matrix unit");
}

template <class From, class T>
void run(int64_t m, int64_t n, int64_t k, Indexed<From> a, Indexed<From> b, IndexedOut<T> c, const GemmOptions& o) {
  check(k, o, sizeof(T) == 4);
  if (m <= 0 || n <= 0) return;
  if (k <= 0) {
    if (!o.accumulate) clear(m, n, c);
    return;
  }
  thread_local std::vector<int64_t> default_tiles;
  std::span<const int64_t> tiles = o.k_tiles;
  if (tiles.empty()) {
    default_tiles.clear();
    for (int64_t end = default_tile; end < k; end += default_tile) default_tiles.push_back(end);
    default_tiles.push_back(k);
    tiles = default_tiles;
  }
  const bool exact = is_half(dtype_of<From>()) || (o.a_part != Part::whole && o.b_part != Part::whole);
  Problem<From, T> p{m, n, k, {a.base, a.row, a.column, static_cast<int>(o.a_part)}, {b.base, b.column, b.row, static_cast<int>(o.b_part)},
                     c, tiles, o.accumulate, o.matrix_unit, exact};
  const GemmKernels<T>& kernel = gemm_kernels<T>();
  // C' = B' A' has the same sums. It is better when C' is the one with contiguous rows, and for a matrix times a vector.
  if ((n * 4 <= kernel.b_width && m > n) || unit_steps(c.row, m) > unit_steps(c.column, n) + 0.25) {
    std::swap(p.m, p.n);
    std::swap(p.a, p.b);
    std::swap(p.c.row, p.c.column);
  }
  const double work = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) * (sizeof(T) / 4.0);
  int64_t threads = o.threads > 0 ? o.threads : omp_get_max_threads();
  if (omp_in_parallel() || work < parallel_products) threads = 1;
  threads = std::min<int64_t>(threads, 1 + static_cast<int64_t>(work / parallel_products));
  if (threads == 1) return rectangle(p, 0, p.m, 0, p.n);
  const auto [rows, columns] = grid(p.m, p.n, kernel.a_width, kernel.b_width, threads);
  const auto cut = [](int64_t size, int64_t width, int64_t pieces, int64_t i) {
    return std::min(size, (size + width - 1) / width * i / pieces * width);
  };
#pragma omp parallel for schedule(static) num_threads(static_cast<int>(rows * columns))
  for (int64_t t = 0; t < rows * columns; ++t) {
    const int64_t i = t / columns, j = t % columns;
    const int64_t m0 = cut(p.m, kernel.a_width, rows, i), m1 = cut(p.m, kernel.a_width, rows, i + 1);
    const int64_t n0 = cut(p.n, kernel.b_width, columns, j), n1 = cut(p.n, kernel.b_width, columns, j + 1);
    if (m0 < m1 && n0 < n1) rectangle(p, m0, m1, n0, n1);
  }
}

}  // namespace

void gemm(int64_t m, int64_t n, int64_t k, Indexed<double> a, Indexed<double> b, IndexedOut<double> c, const GemmOptions& o) {
  run(m, n, k, a, b, c, o);
}
void gemm(int64_t m, int64_t n, int64_t k, Indexed<float> a, Indexed<float> b, IndexedOut<float> c, const GemmOptions& o) {
  run(m, n, k, a, b, c, o);
}
void gemm(int64_t m, int64_t n, int64_t k, Indexed<bf16> a, Indexed<bf16> b, IndexedOut<float> c, const GemmOptions& o) {
  run(m, n, k, a, b, c, o);
}
void gemm(int64_t m, int64_t n, int64_t k, Indexed<f16> a, Indexed<f16> b, IndexedOut<float> c, const GemmOptions& o) {
  run(m, n, k, a, b, c, o);
}

// The definition -------------------------------------------------------------------------------------------------------

float part_of(float x, Part part) {
  if (part == Part::whole) return x;
  const float high = static_cast<float>(bf16(x));
  if (part == Part::bf16_high) return high;
  if (!std::isfinite(high)) return 0;
  const float rest = x - high, middle = static_cast<float>(bf16(rest));
  return part == Part::bf16_middle ? middle : static_cast<float>(bf16(rest - middle));
}

namespace {

constexpr float smallest_normal = 0x1p-126f;
float flushed(float x) { return std::fabs(x) < smallest_normal ? std::copysign(0.0f, x) : x; }

// Flushed if the product, rounded as if exponents had no end, is below the smallest normal number.
float flushed_product(float a, float b) {
  const double exact = static_cast<double>(a) * static_cast<double>(b);
  if (std::fabs(exact) < 0x1p-125 && std::fabs(static_cast<float>(exact * 0x1p64)) < 0x1p-62f)
    return std::copysign(0.0f, static_cast<float>(exact));
  return static_cast<float>(exact);
}

template <class From, class T>
void plain(int64_t m, int64_t n, int64_t k, Indexed<From> a, Indexed<From> b, IndexedOut<T> c, const GemmOptions& o) {
  check(k, o, sizeof(T) == 4);
  if (!o.accumulate) clear(m, n, c);
  const bool fused = has_fma();
  const auto element = [&](const From* base, int64_t at, Part part) -> T {
    if constexpr (std::is_same_v<From, double>) return base[at];
    else {
      const float x = part_of(static_cast<float>(base[at]), part);
      return o.matrix_unit ? flushed(x) : x;
    }
  };
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      T& out = c.base[c.row[i] + c.column[j]];
      int64_t at = 0;
      for (size_t tile = 0; at < k; ++tile) {
        const int64_t end = o.k_tiles.empty() ? std::min(k, at + default_tile) : o.k_tiles[tile];
        T sum = 0;
        for (; at < end; ++at) {
          const T x = element(a.base, a.row[i] + a.column[at], o.a_part), y = element(b.base, b.row[at] + b.column[j], o.b_part);
          if constexpr (sizeof(T) == 4) {
            if (o.matrix_unit) {
              sum = flushed(sum + flushed_product(x, y));
              continue;
            }
          }
          sum = fused ? std::fma(x, y, sum) : sum + x * y;
        }
        if constexpr (sizeof(T) == 4) {
          if (o.matrix_unit) {
            const float total = flushed(flushed(out) + sum);
            out = std::isnan(total) ? std::bit_cast<float>(0x7fc00000u) : total;
            continue;
          }
        }
        out += sum;
      }
    }
}

}  // namespace

void gemm_plain(int64_t m, int64_t n, int64_t k, Indexed<double> a, Indexed<double> b, IndexedOut<double> c,
                const GemmOptions& o) {
  plain(m, n, k, a, b, c, o);
}
void gemm_plain(int64_t m, int64_t n, int64_t k, Indexed<float> a, Indexed<float> b, IndexedOut<float> c,
                const GemmOptions& o) {
  plain(m, n, k, a, b, c, o);
}
void gemm_plain(int64_t m, int64_t n, int64_t k, Indexed<bf16> a, Indexed<bf16> b, IndexedOut<float> c,
                const GemmOptions& o) {
  plain(m, n, k, a, b, c, o);
}
void gemm_plain(int64_t m, int64_t n, int64_t k, Indexed<f16> a, Indexed<f16> b, IndexedOut<float> c, const GemmOptions& o) {
  plain(m, n, k, a, b, c, o);
}

}  // namespace backbeat::host
