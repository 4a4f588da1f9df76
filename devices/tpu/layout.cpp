#include "devices/tpu/layout.hpp"

#include <algorithm>

namespace backbeat::tpu {

namespace {
int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
}  // namespace

bool is_line(const Shape& shape) {
  int64_t long_ones = 0;
  for (int64_t d : shape) long_ones += d != 1;
  return long_ones <= 1;
}

int64_t vregs(const Shape& shape, Tiling tiling, const sim::Chip& chip) {
  const int64_t elements = element_count(shape);
  if (elements == 0) return 0;
  if (is_line(shape) || tiling.lane < 0)
    return std::max<int64_t>(1, ceil_div(elements, chip.vpu.sublanes * chip.vpu.lanes));
  int64_t count = ceil_div(shape[tiling.lane], chip.vpu.lanes) *
                  (tiling.sublane >= 0 ? ceil_div(shape[tiling.sublane], chip.vpu.sublanes) : 1);
  for (int64_t d = 0; d < shape.size(); ++d)
    if (d != tiling.lane && d != tiling.sublane) count *= shape[d];
  return count;
}

int64_t bytes(const Shape& shape, DType dtype, Tiling tiling, const sim::Chip& chip) {
  return vregs(shape, tiling, chip) * chip.vpu.sublanes * chip.vpu.lanes * size_of(dtype);
}

Tiling smallest(const Shape& shape, const sim::Chip& chip) {
  if (is_line(shape)) return {};
  Tiling best{shape.size() - 2, shape.size() - 1};
  int64_t least = vregs(shape, best, chip);
  for (int64_t lane = shape.size() - 1; lane >= 0; --lane)
    for (int64_t sublane = shape.size() - 1; sublane >= 0; --sublane) {
      if (lane == sublane) continue;
      const int64_t count = vregs(shape, {sublane, lane}, chip);
      if (count < least) {
        least = count;
        best = {sublane, lane};
      }
    }
  return best;
}

bool same(const Shape& shape, Tiling a, Tiling b) {
  if (is_line(shape)) return true;
  const auto place = [&](int64_t d) {
    return d >= 0 && shape[d] == 1 ? -1 : d;
  };  // where a dimension of 1 lies does not matter
  return place(a.lane) == place(b.lane) && place(a.sublane) == place(b.sublane);
}

Tiling transposed(Tiling tiling, const Dims& permutation) {
  Tiling out;
  for (int64_t d = 0; d < permutation.size(); ++d) {
    if (permutation[d] == tiling.lane) out.lane = d;
    if (permutation[d] == tiling.sublane) out.sublane = d;
  }
  return out;
}

std::optional<Tiling> reshaped(const Shape& from, Tiling tiling, const Shape& to) {
  if (is_line(from) && is_line(to)) return Tiling{};
  if (is_line(from) || is_line(to)) return std::nullopt;
  // Runs of dimensions with equal products; a dimension keeps its place if it is a run of its own (but for ones beside
  // it).
  Tiling out;
  int64_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    int64_t a = 1, b = 1, i_end = i, j_end = j;
    if (i_end < from.size()) a *= from[i_end++];
    if (j_end < to.size()) b *= to[j_end++];
    while (a != b) {
      if (a < b) {
        if (i_end == from.size()) return std::nullopt;
        a *= from[i_end++];
      } else {
        if (j_end == to.size()) return std::nullopt;
        b *= to[j_end++];
      }
    }
    const auto only = [](const Shape& s, int64_t begin, int64_t end) {
      int64_t found = -1;
      for (int64_t d = begin; d < end; ++d)
        if (s[d] != 1) {
          if (found >= 0) return int64_t{-2};
          found = d;
        }
      return found;
    };
    for (int64_t d = i; d < i_end; ++d) {
      if (from[d] == 1 || (d != tiling.lane && d != tiling.sublane)) continue;
      const int64_t x = only(from, i, i_end), y = only(to, j, j_end);
      if (x != d || y < 0) return std::nullopt;
      (d == tiling.lane ? out.lane : out.sublane) = y;
    }
    i = i_end;
    j = j_end;
  }
  if (out.lane < 0) {  // the lanes held a dimension of 1: it stays one
    for (int64_t d = to.size() - 1; d >= 0; --d)
      if (d != out.sublane && to[d] == 1) {
        out.lane = d;
        break;
      }
    if (out.lane < 0) return std::nullopt;
  }
  if (out.sublane < 0)
    for (int64_t d = to.size() - 1; d >= 0; --d)
      if (d != out.lane && to[d] == 1) {
        out.sublane = d;
        break;
      }
  return out;
}

}  // namespace backbeat::tpu
