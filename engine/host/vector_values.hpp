// One operation of a vector program on one chunk: operands and result are contiguous, in the type that a register has for
// a dtype (f32 and bf16: float; bool: one byte).
#pragma once
#include <cstdint>

#include "engine/host/vector_program.hpp"

namespace backbeat::host {

// Calls the body with the register type of `dtype`.
template <class Body>
decltype(auto) visit_register(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::f64: return body.template operator()<double>();
    case DType::f32:
    case DType::bf16: return body.template operator()<float>();
    case DType::i64: return body.template operator()<int64_t>();
    case DType::i32: return body.template operator()<int32_t>();
    case DType::u32: return body.template operator()<uint32_t>();
    case DType::boolean: break;
  }
  return body.template operator()<uint8_t>();
}
int64_t register_size(DType dtype);  // bytes an element

void apply(const VectorOp& op, int64_t n, const void* a, const void* b, const void* c, void* out);
void fill(DType dtype, double value, int64_t n, void* out);

}  // namespace backbeat::host
