// dot_general and convolution: shape rules after StableHLO.
#include "engine/ops/record.hpp"

namespace backbeat {

namespace {

void check_dims(Tensor x, const char* side, const Dims& batch, const Dims& contracting) {
  for (const Dims* dims : {&batch, &contracting})
    for (int64_t i = 0; i < dims->size(); ++i) {
      const int64_t d = (*dims)[i];
      if (d < 0 || d >= x.rank()) fail("dot_general", side, ' ', x, " has no dim ", d);
      for (int64_t j = 0; j < i; ++j)
        if ((*dims)[j] == d) fail("dot_general", side, ' ', x, " dim ", d, " is named twice in ", *dims);
    }
  for (int64_t i = 0; i < contracting.size(); ++i)
    if (batch.contains(contracting[i])) fail("dot_general", side, " dim ", contracting[i], " is both batch and contracting");
}

void check_pairs(Tensor lhs, Tensor rhs, const char* kind, const Dims& l, const Dims& r) {
  if (l.size() != r.size()) fail("dot_general", kind, " dimensions differ in number: lhs ", l, ", rhs ", r);
  for (int64_t i = 0; i < l.size(); ++i)
    if (lhs.dim(l[i]) != rhs.dim(r[i]))
      fail("dot_general", kind, " dimensions differ: lhs ", lhs, " dim ", l[i], " is ", lhs.dim(l[i]), ", rhs ", rhs, " dim ",
           r[i], " is ", rhs.dim(r[i]));
}

void check_layout(const char* operand, const Shape& shape, const ConvLayout& layout, int64_t spatial) {
  Dims seen{layout.batch, layout.feature};
  for (int64_t d : layout.spatial) seen.push_back(d);
  bool fits = layout.spatial.size() == spatial && seen.size() == shape.size();
  for (int64_t d = 0; fits && d < shape.size(); ++d) fits = seen.contains(d);
  if (!fits)
    fail("convolution", operand, ' ', shape, " does not fit the layout batch ", layout.batch, ", feature ", layout.feature,
         ", spatial ", layout.spatial);
}

}  // namespace

Tensor dot_general(Operand lhs, Operand rhs, const DotDims& dims) {
  const RecordedAt at(lhs.where);
  check_same_tape(Op::dot_general, lhs, rhs);
  if (lhs.dtype() != rhs.dtype() || lhs.dtype() == DType::boolean)
    fail("dot_general", "expected two operands of one dtype of numbers, got ", lhs, " and ", rhs);
  const DType dtype = dims.accumulation.value_or(lhs.dtype());
  if (is_float(dtype) != is_float(lhs.dtype()) || dtype == DType::boolean || size_of(dtype) < size_of(lhs.dtype()))
    fail("dot_general", "cannot add up products of ", lhs.dtype(), " in ", dtype, ": expected the same kind, at least as wide");
  check_dims(lhs, "lhs", dims.lhs_batch, dims.lhs_contracting);
  check_dims(rhs, "rhs", dims.rhs_batch, dims.rhs_contracting);
  check_pairs(lhs, rhs, "batch", dims.lhs_batch, dims.rhs_batch);
  check_pairs(lhs, rhs, "contracting", dims.lhs_contracting, dims.rhs_contracting);
  Shape shape;
  for (int64_t d : dims.lhs_batch) shape.push_back(lhs.dim(d));
  for (int64_t d = 0; d < lhs.rank(); ++d)
    if (!dims.lhs_batch.contains(d) && !dims.lhs_contracting.contains(d)) shape.push_back(lhs.dim(d));
  for (int64_t d = 0; d < rhs.rank(); ++d)
    if (!dims.rhs_batch.contains(d) && !dims.rhs_contracting.contains(d)) shape.push_back(rhs.dim(d));
  return append(Op::dot_general, lhs, {lhs.id(), rhs.id()}, std::make_shared<const DotDims>(dims), shape, dtype);
}

Tensor matmul(Operand lhs, Operand rhs, Precision precision) {
  const RecordedAt at(lhs.where);
  if (!lhs.defined() || !rhs.defined()) fail("matmul", "an operand is no tensor (an input without a cotangent?)");
  if (lhs.rank() != 2 || rhs.rank() != 2) fail("matmul", "expected two matrices, got ", lhs, " and ", rhs);
  return dot_general(lhs, rhs, {{}, {}, {1}, {0}, precision});
}

Shape convolution_shape(const Shape& lhs, const Shape& kernel, const ConvDims& d) {
  const int64_t spatial = d.strides.size();
  for (const Dims* dims : {&d.pad_low, &d.pad_high, &d.lhs_dilation, &d.kernel_dilation})
    if (dims->size() != spatial) fail("convolution", "expected ", spatial, " values for each spatial attribute, got ", *dims);
  check_layout("lhs", lhs, d.lhs, spatial);
  check_layout("kernel", kernel, d.kernel, spatial);
  const int64_t batch = lhs[d.lhs.batch], features = lhs[d.lhs.feature], outputs = kernel[d.kernel.batch];
  if (d.feature_groups < 1 || d.batch_groups < 1 || (d.feature_groups > 1 && d.batch_groups > 1))
    fail("convolution", "feature groups ", d.feature_groups, " and batch groups ", d.batch_groups,
         " must be at least 1, and one of them 1");
  if (features != kernel[d.kernel.feature] * d.feature_groups)
    fail("convolution", "lhs ", lhs, " has ", features, " features, the kernel ", kernel, " expects ", kernel[d.kernel.feature],
         " x ", d.feature_groups, " groups");
  if (outputs % d.feature_groups != 0 || outputs % d.batch_groups != 0 || batch % d.batch_groups != 0)
    fail("convolution", "kernel ", kernel, " with ", outputs, " output features and lhs ", lhs, " with batch ", batch,
         " cannot be split into ", d.feature_groups, " feature and ", d.batch_groups, " batch groups");
  Shape out = Shape::filled(lhs.size(), 0);
  for (int64_t d_out : {d.out.batch, d.out.feature})
    if (d_out < 0 || d_out >= lhs.size()) fail("convolution", "the result has no dim ", d_out);
  out[d.out.batch] = batch / d.batch_groups;
  out[d.out.feature] = outputs;
  for (int64_t i = 0; i < spatial; ++i) {
    if (d.strides[i] < 1 || d.lhs_dilation[i] < 1 || d.kernel_dilation[i] < 1)
      fail("convolution", "strides ", d.strides, " and dilations ", d.lhs_dilation, d.kernel_dilation, " must be at least 1");
    const int64_t padded = dilated_size(lhs[d.lhs.spatial[i]], d.lhs_dilation[i]) + d.pad_low[i] + d.pad_high[i];
    const int64_t window = dilated_size(kernel[d.kernel.spatial[i]], d.kernel_dilation[i]);
    out[d.out.spatial[i]] = padded < window ? 0 : (padded - window) / d.strides[i] + 1;
  }
  check_layout("result", out, d.out, spatial);
  return out;
}

Tensor convolution(Operand lhs, Operand kernel, const ConvDims& dims) {
  const RecordedAt at(lhs.where);
  check_same_tape(Op::convolution, lhs, kernel);
  if (lhs.dtype() != kernel.dtype() || !is_float(lhs.dtype()))
    fail("convolution", "expected two operands of one floating-point dtype, got ", lhs, " and ", kernel);
  const Shape shape = convolution_shape(lhs.shape(), kernel.shape(), dims);
  return append(Op::convolution, lhs, {lhs.id(), kernel.id()}, std::make_shared<const ConvDims>(dims), shape, lhs.dtype());
}

}  // namespace backbeat
