// Which vector instructions this process uses: the best level the processor has, or a lower one forced by the environment
// variable BACKBEAT_ISA=sse2|avx2|avx512. Chosen once. An unknown or unavailable level is an Error.
#pragma once
#include <string_view>

namespace backbeat::host {

std::string_view instruction_set();  // "sse2", "avx2" or "avx512"
bool has_fma();                      // plain f32 and f64 products add with one rounding (avx2 and avx512)

}  // namespace backbeat::host
