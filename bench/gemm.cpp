// Our GEMM beside OpenBLAS, if the machine has it: interleaved, best of several, on one thread and on two.
// Run it alone, without OMP_WAIT_POLICY; unset OPENBLAS_CORETYPE, or OpenBLAS may run another core's kernels.
#include <dlfcn.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "engine/host/gemm.hpp"
#include "engine/host/instruction_set.hpp"

namespace {

using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int);

struct OpenBlas {
  Sgemm sgemm = nullptr;
  char* (*core)() = nullptr;
  void (*threads)(int) = nullptr;

  OpenBlas() {
    void* library = dlopen("libopenblas.so.0", RTLD_NOW);
    if (!library) return;
    sgemm = reinterpret_cast<Sgemm>(dlsym(library, "cblas_sgemm"));
    core = reinterpret_cast<char* (*)()>(dlsym(library, "openblas_get_corename"));
    threads = reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads"));
  }
};

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::vector<int64_t> steps(int64_t n, int64_t by) {
  std::vector<int64_t> v(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) v[static_cast<size_t>(i)] = i * by;
  return v;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace backbeat::host;
  const OpenBlas blas;
  const bool peer = blas.sgemm && blas.core && blas.threads;
  std::printf("f32 GEMM, GFLOP/s, best of several; ours: %s; OpenBLAS core: %s\n", instruction_set().data(),
              peer ? blas.core() : "not installed");
  if (std::getenv("OPENBLAS_CORETYPE")) std::printf("note: OPENBLAS_CORETYPE is set\n");
  std::printf("%6s %8s %10s %10s %7s\n", "n", "threads", "ours", "OpenBLAS", "ratio");
  std::vector<int64_t> sizes{64, 128, 256, 512, 1000, 1024, 2048};
  if (argc > 1) {
    sizes.clear();
    for (int i = 1; i < argc; ++i) sizes.push_back(std::atoll(argv[i]));
  }
  for (const int threads : {1, 2}) {
    if (threads > omp_get_num_procs()) continue;
    omp_set_num_threads(threads);
    if (peer) blas.threads(threads);
    for (const int64_t n : sizes) {
      std::vector<float> a(static_cast<size_t>(n * n)), b(a), c(a), d(a);
      for (size_t i = 0; i < a.size(); ++i) {
        a[i] = static_cast<float>(i % 17) / 17 - 0.5f;
        b[i] = static_cast<float>(i % 13) / 13 - 0.5f;
      }
      const auto row = steps(n, n), column = steps(n, 1);
      const double work = 2.0 * std::pow(static_cast<double>(n), 3);
      const int inner = std::max(1, static_cast<int>(2e7 / work));
      double ours = 1e9, theirs = 1e9;
      const double until = seconds() + 1.0;
      for (int round = 0; round < 5 || seconds() < until; ++round) {
        double t = seconds();
        for (int i = 0; i < inner; ++i)
          gemm(n, n, n, Indexed<float>{a.data(), row.data(), column.data()}, Indexed<float>{b.data(), row.data(), column.data()},
               IndexedOut<float>{c.data(), row.data(), column.data()});
        ours = std::min(ours, (seconds() - t) / inner);
        if (!peer) continue;
        const int m = static_cast<int>(n);
        t = seconds();
        for (int i = 0; i < inner; ++i) blas.sgemm(101, 111, 111, m, m, m, 1, a.data(), m, b.data(), m, 0, d.data(), m);
        theirs = std::min(theirs, (seconds() - t) / inner);
      }
      double worst = 0;
      for (size_t i = 0; peer && i < c.size(); ++i) worst = std::max(worst, std::fabs(static_cast<double>(c[i]) - d[i]));
      if (worst > 1e-3 * std::sqrt(static_cast<double>(n))) {
        std::fprintf(stderr, "results differ by %g at n = %lld\n", worst, static_cast<long long>(n));
        return 1;
      }
      if (peer)
        std::printf("%6lld %8d %10.1f %10.1f %7.2f\n", static_cast<long long>(n), threads, work / ours * 1e-9,
                    work / theirs * 1e-9, theirs / ours);
      else
        std::printf("%6lld %8d %10.1f\n", static_cast<long long>(n), threads, work / ours * 1e-9);
    }
  }
}
