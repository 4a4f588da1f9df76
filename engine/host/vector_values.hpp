// One operation of a vector program on one chunk: operands and result are contiguous, in the type that a register has for
// a dtype: float for f32, bf16 and f16, its own for the others.
#pragma once
#include <cstdint>
#include <type_traits>

#include "engine/host/vector_program.hpp"

namespace backbeat::host {

// Calls the body with the register type of `dtype`.
template <class Body>
decltype(auto) visit_register(DType dtype, Body&& body) {
  return visit(dtype, [&]<class T>() -> decltype(auto) {
    return body.template operator()<std::conditional_t<is_half(dtype_of<T>()), float, T>>();
  });
}
int64_t register_size(DType dtype);  // bytes an element

void apply(const VectorOp& op, int64_t n, const void* a, const void* b, const void* c, void* out);
void fill(DType dtype, double value, int64_t n, void* out);

}  // namespace backbeat::host
