// Products: the cotangents of a dot_general are two dot_generals, those of a convolution two convolutions.
#include "autodiff/rules.hpp"

namespace backbeat::rules {

namespace {

using Dot = std::shared_ptr<const DotDims>;
using Conv = std::shared_ptr<const ConvDims>;

Dims free_dims(Tensor x, const Dims& batch, const Dims& contracting) {
  Dims free;
  for (int64_t d = 0; d < x.rank(); ++d)
    if (!batch.contains(d) && !contracting.contains(d)) free.push_back(d);
  return free;
}

// g has the dimensions [batch, free of lhs, free of rhs]. The cotangent of one side contracts g with the other side over the
// other side's free dimensions, which leaves [batch, own free, own contracting]: a transpose away from the operand.
Tensor dot_rule(const Applied& a, size_t i, Tensor g) {
  const DotDims& d = *a.attributes<Dot>();
  const bool left = i == 0;
  // Products that add up in a wider dtype have a wider cotangent: the other side is widened to it, the result narrowed.
  const Tensor mine = a.x(i), other = convert(a.x(1 - i), g.dtype());
  const Dims& my_batch = left ? d.lhs_batch : d.rhs_batch;
  const Dims& my_contracting = left ? d.lhs_contracting : d.rhs_contracting;
  const Dims& other_batch = left ? d.rhs_batch : d.lhs_batch;
  const Dims& other_contracting = left ? d.rhs_contracting : d.lhs_contracting;
  const Dims my_free = free_dims(mine, my_batch, my_contracting);
  const Dims other_free = free_dims(other, other_batch, other_contracting);

  Dims g_batch = Dims::range(my_batch.size()), g_other_free;
  const int64_t first = my_batch.size() + (left ? my_free.size() : 0);
  for (int64_t k = 0; k < other_free.size(); ++k) g_other_free.push_back(first + k);

  // What is left of `other` after the contraction, in its own order: its contracting dimensions, each of which is the
  // partner of one of mine.
  Dims remaining;
  for (int64_t dim = 0; dim < other.rank(); ++dim)
    for (int64_t k = 0; k < other_contracting.size(); ++k)
      if (other_contracting[k] == dim) remaining.push_back(my_contracting[k]);

  // Both orders of the operands give the same product with its dimensions in another order; the one that needs no
  // transpose is taken where there is one.
  const auto joined = [&](const Dims& first_part, const Dims& second_part) {
    Dims all = my_batch;
    for (const Dims* part : {&first_part, &second_part})
      for (int64_t dim : *part) all.push_back(dim);
    return all;
  };
  const Dims g_first = joined(my_free, remaining), other_first = joined(remaining, my_free);
  const bool take_g_first = g_first == Dims::range(mine.rank()) || (left && other_first != Dims::range(mine.rank()));
  const Dims& result = take_g_first ? g_first : other_first;  // which dimension of `mine` each dimension of the product is
  const Tensor product = take_g_first
                             ? dot_general(g, other, {g_batch, other_batch, g_other_free, other_free, d.precision})
                             : dot_general(other, g, {other_batch, g_batch, other_free, g_other_free, d.precision});
  Dims permutation = Dims::filled(result.size(), 0);
  for (int64_t k = 0; k < result.size(); ++k) permutation[result[k]] = k;
  return convert(transpose(product, permutation), mine.dtype());
}

// The derivative of a product of two: with one operand's tangent in its place, and then with the other's.
Tensor product_tangent(const Applied& a, std::span<const Tensor> t) {
  Tensor total;
  for (size_t i = 0; i < 2; ++i) {
    if (!t[i].defined()) continue;
    const Tensor part = i == 0 ? a.again({t[0], a.x(1)}) : a.again({a.x(0), t[1]});
    total = total.defined() ? total + part : part;
  }
  return total;
}

ConvLayout swapped(const ConvLayout& layout) { return {layout.feature, layout.batch, layout.spatial}; }

// [..., G*n, ...] at `from` and [..., m, ...] at `to` become [..., n, ...] and [..., G*m, ...]: groups move between features.
Tensor move_groups(Tensor x, int64_t from, int64_t to, int64_t groups) {
  if (groups == 1) return x;
  Shape split;
  Dims order;
  int64_t group_at = 0, position = 0;
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (d == from) group_at = split.size(), split.push_back(groups), split.push_back(x.dim(d) / groups);
    else split.push_back(x.dim(d));
  }
  Shape merged;
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (d == from) ++position;  // over the group
    if (d == to) order.push_back(group_at);
    order.push_back(position++);
    merged.push_back(d == from ? x.dim(d) / groups : d == to ? x.dim(d) * groups : x.dim(d));
  }
  return reshape(transpose(reshape(x, split), order), merged);
}

// The cotangent of the input: g, dilated by the strides, against the mirrored kernel with its features swapped.
Tensor input_cotangent(const Applied& a, const ConvDims& d, Tensor g) {
  const Tensor lhs = a.x(0), kernel = a.x(1);
  const int64_t groups = d.feature_groups > 1 ? d.feature_groups : d.batch_groups;
  ConvDims t{d.out, swapped(d.kernel), d.lhs, d.lhs_dilation, {}, {}, d.strides, d.kernel_dilation, groups, 1, d.precision};
  for (int64_t i = 0; i < d.strides.size(); ++i) {
    const int64_t window = dilated_size(kernel.dim(d.kernel.spatial[i]), d.kernel_dilation[i]);
    const int64_t low = window - d.pad_low[i] - 1;
    t.pad_low.push_back(low);
    t.pad_high.push_back(dilated_size(lhs.dim(d.lhs.spatial[i]), d.lhs_dilation[i]) + window - 1 -
                         dilated_size(g.dim(d.out.spatial[i]), d.strides[i]) - low);
  }
  Tensor result = convolution(g, reverse(move_groups(kernel, d.kernel.batch, d.kernel.feature, groups), d.kernel.spatial), t);
  // With batch groups the product has the groups in its features, where the input has them in its batch.
  if (d.batch_groups > 1) result = move_groups(result, d.lhs.feature, d.lhs.batch, d.batch_groups);
  return result;
}

// The cotangent of the kernel: the input with batch and features swapped, against g as the kernel.
Tensor kernel_cotangent(const Applied& a, const ConvDims& d, Tensor g) {
  const Tensor lhs = a.x(0), kernel = a.x(1);
  ConvDims t{swapped(d.lhs), swapped(d.out), swapped(d.kernel), d.kernel_dilation, d.pad_low, {}, d.lhs_dilation, d.strides,
             1, 1, d.precision};
  if (d.batch_groups > 1) t.feature_groups = d.batch_groups;
  else if (d.feature_groups > 1) t.batch_groups = d.feature_groups;
  for (int64_t i = 0; i < d.strides.size(); ++i) {
    const int64_t total = dilated_size(g.dim(d.out.spatial[i]), d.strides[i]) +
                          dilated_size(kernel.dim(d.kernel.spatial[i]), d.kernel_dilation[i]) - 1 -
                          dilated_size(lhs.dim(d.lhs.spatial[i]), d.lhs_dilation[i]);
    t.pad_high.push_back(total - d.pad_low[i]);
  }
  return convolution(lhs, g, t);
}

constexpr Row rows[] = {
    {Op::dot_general, dot_rule, product_tangent},
    {Op::convolution,
     [](const Applied& a, size_t i, Tensor g) {
       const ConvDims& d = *a.attributes<Conv>();
       return i == 0 ? input_cotangent(a, d, g) : kernel_cotangent(a, d, g);
     },
     product_tangent},
};

}  // namespace

std::span<const Row> contraction() { return rows; }

}  // namespace backbeat::rules
