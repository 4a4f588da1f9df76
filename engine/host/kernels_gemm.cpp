// The product of two packed blocks, compiled once an instruction set: a micro-kernel keeps a tile of C in registers while
// it walks down a K tile, one multiply-add an element and step.
#include "engine/host/kernels.hpp"
#include "engine/host/lanes.hpp"

#include "engine/host/definitions.hpp"

namespace backbeat::host::BACKBEAT_LEVEL {
namespace {

// Registers of a C tile: rows x vectors accumulators, plus the B vectors and a broadcast, fit 32 registers of AVX-512 and
// 16 of the others.
#if defined(__AVX512F__)
constexpr int tile_rows = 12, tile_vectors = 2;
#elif defined(__AVX2__)
constexpr int tile_rows = 6, tile_vectors = 2;
#else
constexpr int tile_rows = 4, tile_vectors = 2;
#endif

template <class V>
using Element = typename V::value_type;

// One K tile for `rows` x `vectors` registers of C. A full register row is added to C in place, else by way of `spill`.
template <class V, int rows, int vectors, bool fuse>
void micro(int64_t k, const Element<V>* a, const Element<V>* b, Element<V>* spill) {
  constexpr int64_t width = V::size, a_width = tile_rows, b_width = tile_vectors * width;
  V sum[rows][vectors];
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 16
    for (int v = 0; v < vectors; ++v) sum[r][v] = V(Element<V>(0));
  for (; k > 0; --k, a += a_width, b += b_width) {
    V right[vectors];
#pragma GCC unroll 16
    for (int v = 0; v < vectors; ++v) right[v] = V::load_aligned(b + v * width);
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
      const V left(a[r]);
#pragma GCC unroll 16
      for (int v = 0; v < vectors; ++v)
        sum[r][v] = fuse ? fused(left, right[v], sum[r][v]) : sum[r][v] + left * right[v];
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 16
    for (int v = 0; v < vectors; ++v) sum[r][v].store_aligned(spill + r * b_width + v * width);
}

template <class V>
using Micro = void (*)(int64_t, const Element<V>*, const Element<V>*, Element<V>*);

template <class V, bool fuse>
struct Table {
  Micro<V> by_vectors[tile_vectors][tile_rows];
};
template <class V, bool fuse, int vectors, int... r>
constexpr void fill(Table<V, fuse>& t, std::integer_sequence<int, r...>) {
  ((t.by_vectors[vectors - 1][r] = micro<V, r + 1, vectors, fuse>), ...);
}
template <class V, bool fuse>
constexpr Table<V, fuse> make_table() {
  Table<V, fuse> t{};
  fill<V, fuse, 1>(t, std::make_integer_sequence<int, tile_rows>());
  fill<V, fuse, 2>(t, std::make_integer_sequence<int, tile_rows>());
  return t;
}
template <class V, bool fuse>
constexpr Table<V, fuse> table = make_table<V, fuse>();

template <class T>
[[gnu::always_inline]] inline T same_nan(T x) {
  return x == x ? x : static_cast<T>(__builtin_bit_cast(float, 0x7fc00000));
}

// C tile = (first ? +0 : C tile) + spill, for `rows` x `columns` elements.
template <class V>
void add_tile(const BlockArguments<Element<V>>& x, int64_t i, int64_t j, int64_t rows, int64_t columns, bool contiguous,
              bool first, const Element<V>* spill) {
  using T = Element<V>;
  constexpr int64_t width = V::size, b_width = tile_vectors * width;
  const int64_t* column = x.column + j;
  for (int64_t r = 0; r < rows; ++r, spill += b_width) {
    T* out = x.c + x.row[i + r];
    if (contiguous) {
      out += column[0];
      int64_t c = 0;
      for (; c + width <= columns; c += width) {
        V v = (first ? V(T(0)) : V::load_unaligned(out + c)) + V::load_aligned(spill + c);
        if constexpr (sizeof(T) == 4)
          if (x.matrix_unit) v = xsimd::select(v == v, v, V(__builtin_bit_cast(float, 0x7fc00000)));
        v.store_unaligned(out + c);
      }
      for (; c < columns; ++c) {
        const T v = (first ? T(0) : out[c]) + spill[c];
        out[c] = x.matrix_unit ? same_nan(v) : v;
      }
    } else {
      for (int64_t c = 0; c < columns; ++c) {
        const T v = (first ? T(0) : out[column[c]]) + spill[c];
        out[column[c]] = x.matrix_unit ? same_nan(v) : v;
      }
    }
  }
}

template <class V>
void block(const BlockArguments<Element<V>>& x) {
  using T = Element<V>;
  constexpr int64_t width = V::size, a_width = tile_rows, b_width = tile_vectors * width;
  alignas(64) T spill[a_width * b_width];
  const unsigned saved = __builtin_ia32_stmxcsr();
  if (x.matrix_unit) __builtin_ia32_ldmxcsr(saved | 0x8040u);  // flush results to zero, take subnormals as zero
  for (int64_t j = 0; j < x.n; j += b_width) {
    const int64_t columns = x.n - j < b_width ? x.n - j : b_width, vectors = (columns + width - 1) / width;
    for (int64_t i = 0; i < x.m; i += a_width) {
      const int64_t rows = x.m - i < a_width ? x.m - i : a_width;
      bool fuse = can_fuse;
      if (x.matrix_unit) {
        // All products exact: none underflows, none overflows, so one rounding is the same as two.
        const float* ra = x.a_range + 2 * (i / a_width);
        const float* rb = x.b_range + 2 * (j / b_width);
        fuse = can_fuse && x.exact_products && ra[0] * rb[0] >= 0x1p-126f && ra[1] * rb[1] <= 0x1.fffffep127f;
      }
      const auto kernel = fuse ? table<V, can_fuse>.by_vectors[vectors - 1][rows - 1]
                               : table<V, false>.by_vectors[vectors - 1][rows - 1];
      const T* a = x.a + i * x.k;
      const T* b = x.b + j * x.k;
      int64_t start = 0;
      for (int64_t t = 0; t < x.tiles; ++t) {
        const int64_t end = x.tile_ends[t];
        kernel(end - start, a + start * a_width, b + start * b_width, spill);
        add_tile<V>(x, i, j, rows, columns, x.contiguous[j / b_width], t == 0 && !x.accumulate, spill);
        start = end;
      }
    }
  }
  if (x.matrix_unit) __builtin_ia32_ldmxcsr(saved);
}

// x rounded to bf16, to nearest even, still a float. NaN stays NaN.
[[gnu::always_inline]] inline Floats rounded(const Floats& x) {
  const Integers u = Lanes::bits(x);
  const Integers up = u + Integers(0x7fff) + ((u >> 16) & Integers(1));
  return xsimd::select(x == x, Lanes::value(up & Integers(-65536)), x);
}

void prepare_panel(float* panel, int64_t n, int part, float* range) {
  constexpr int64_t width = Floats::size;
  const Floats zero(0.0f), nan(__builtin_bit_cast(float, 0x7fc00000)), infinity(__builtin_bit_cast(float, 0x7f800000));
  Floats least = infinity, most = zero;
  for (int64_t i = 0; i < n; i += width) {  // the caller has padded the last register
    Floats x = Floats::load_unaligned(panel + i);
    if (part) {
      const Floats high = rounded(x);
      if (part == 1) {
        x = high;
      } else {
        const Floats rest = x - high, middle = rounded(rest);
        const Floats value = part == 2 ? middle : rounded(rest - middle);
        x = xsimd::select(define::absolute<Lanes>(high) < infinity, value, zero);
      }
    }
    Floats size = define::absolute<Lanes>(x);
    const auto tiny = size < Floats(0x1p-126f);
    x = xsimd::select(tiny, Lanes::value(Lanes::bits(x) & Integers(INT32_MIN)), x);
    x = xsimd::select(x == x, x, nan);
    x.store_unaligned(panel + i);
    size = xsimd::select(size < infinity, size, zero);  // infinities and NaN give the same sums either way
    most = xsimd::select(size > most, size, most);
    least = xsimd::select(tiny, least, xsimd::select(size < least, xsimd::select(size == zero, least, size), least));
  }
  alignas(64) float low[width], high[width];
  least.store_aligned(low);
  most.store_aligned(high);
  range[0] = low[0];
  range[1] = high[0];
  for (int64_t i = 1; i < width; ++i) {
    range[0] = low[i] < range[0] ? low[i] : range[0];
    range[1] = high[i] > range[1] ? high[i] : range[1];
  }
}

}  // namespace

void fill_gemm(Kernels& k) {
  k.f32 = {tile_rows, tile_vectors * static_cast<int64_t>(Floats::size), can_fuse, block<Floats>};
  k.f64 = {tile_rows, tile_vectors * static_cast<int64_t>(Doubles::size), can_fuse, block<Doubles>};
  k.prepare_panel = prepare_panel;
}

}  // namespace backbeat::host::BACKBEAT_LEVEL
