#include "engine/host/elementwise.hpp"

#include "engine/error.hpp"
#include "engine/host/kernels.hpp"

namespace backbeat::host {

UnaryKernel unary_f32(Op op) {
  const Kernels& k = kernels();
  switch (op) {
    case Op::negate: return k.unary[u_negate];
    case Op::abs: return k.unary[u_abs];
    case Op::sign: return k.unary[u_sign];
    case Op::exp: return k.unary[u_exp];
    case Op::expm1: return k.unary[u_expm1];
    case Op::log: return k.unary[u_log];
    case Op::log1p: return k.unary[u_log1p];
    case Op::sqrt: return k.unary[u_sqrt];
    case Op::rsqrt: return k.unary[u_rsqrt];
    case Op::tanh: return k.unary[u_tanh];
    case Op::logistic: return k.unary[u_logistic];
    case Op::erf: return k.unary[u_erf];
    case Op::sine: return k.unary[u_sine];
    case Op::cosine: return k.unary[u_cosine];
    case Op::floor: return k.unary[u_floor];
    case Op::ceil: return k.unary[u_ceil];
    case Op::round_nearest_even: return k.unary[u_round];
    default: fail("elementwise", "no f32 kernel of one operand for ", op);
  }
}

BinaryKernel binary_f32(Op op) {
  const Kernels& k = kernels();
  switch (op) {
    case Op::add: return k.binary[b_add];
    case Op::subtract: return k.binary[b_subtract];
    case Op::multiply: return k.binary[b_multiply];
    case Op::divide: return k.binary[b_divide];
    case Op::maximum: return k.binary[b_maximum];
    case Op::minimum: return k.binary[b_minimum];
    case Op::power: return k.binary[b_power];
    default: fail("elementwise", "no f32 kernel of two operands for ", op);
  }
}

CompareKernel compare_f32(Direction direction) { return kernels().compare[static_cast<int>(direction)]; }

void select_f32(const uint8_t* condition, const float* a, const float* b, float* out, int64_t n) {
  kernels().select(condition, a, b, out, n);
}
void clamp_f32(const float* low, const float* x, const float* high, float* out, int64_t n) {
  kernels().clamp(low, x, high, out, n);
}
void round_to_half(DType half, const float* in, float* out, int64_t n) {
  (half == DType::bf16 ? kernels().round_to_bf16 : kernels().round_to_f16)(in, out, n);
}

void widen(DType from, const void* in, double* out, int64_t n) {
  visit(from, [&]<class From>() {
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<double>(static_cast<const From*>(in)[i]);
  });
}

void widen(DType half, const void* in, float* out, int64_t n) {
  (half == DType::bf16 ? kernels().bf16_to_f32 : kernels().f16_to_f32)(static_cast<const uint16_t*>(in), out, n);
}
void narrow(DType half, const float* in, void* out, int64_t n) {
  (half == DType::bf16 ? kernels().f32_to_bf16 : kernels().f32_to_f16)(in, static_cast<uint16_t*>(out), n);
}

}  // namespace backbeat::host
