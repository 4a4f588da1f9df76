#include "engine/host/instruction_set.hpp"

#include <cstdlib>

#include "engine/error.hpp"
#include "engine/host/kernels.hpp"

namespace backbeat::host {

namespace {
using Fill = void (*)(Kernels&);
struct Level {
  std::string_view name;
  bool (*available)();
  Fill f32, gemm;
};
// The best first.
const Level levels[] = {
    {"avx512",
     [] {
       return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
              __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma");
     },
     avx512::fill_f32, avx512::fill_gemm},
    {"avx2", [] { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }, avx2::fill_f32, avx2::fill_gemm},
    {"sse2", [] { return true; }, sse2::fill_f32, sse2::fill_gemm},
};

Kernels choose() {
  const char* forced = std::getenv("BACKBEAT_ISA");
  for (const Level& level : levels) {
    if (forced && *forced ? level.name != forced : !level.available()) continue;
    if (!level.available()) fail("BACKBEAT_ISA", "this processor has no ", level.name);
    Kernels k{};
    level.f32(k);
    level.gemm(k);
    k.name = level.name.data();
    return k;
  }
  fail("BACKBEAT_ISA", "unknown level '", forced, "', expected sse2, avx2 or avx512");
}
}  // namespace

const Kernels& kernels() {
  static const Kernels chosen = choose();
  return chosen;
}

std::string_view instruction_set() { return kernels().name; }
bool has_fma() { return kernels().f32.fused; }

}  // namespace backbeat::host
