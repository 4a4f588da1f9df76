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
    case Op::log: return k.unary[u_log];
    case Op::sqrt: return k.unary[u_sqrt];
    case Op::rsqrt: return k.unary[u_rsqrt];
    case Op::tanh: return k.unary[u_tanh];
    case Op::logistic: return k.unary[u_logistic];
    case Op::sine: return k.unary[u_sine];
    case Op::cosine: return k.unary[u_cosine];
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
void round_to_bf16(const float* in, float* out, int64_t n) { kernels().round_to_bf16(in, out, n); }
void bf16_to_f32(const bf16* in, float* out, int64_t n) { kernels().bf16_to_f32(reinterpret_cast<const uint16_t*>(in), out, n); }
void f32_to_bf16(const float* in, bf16* out, int64_t n) { kernels().f32_to_bf16(in, reinterpret_cast<uint16_t*>(out), n); }

}  // namespace backbeat::host
