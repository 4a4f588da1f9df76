// What the tape costs: nanoseconds a recorded node and a node that grad appends, to third order; and how many allocations
// a step of a compiled program makes. Both are claims of docs/architecture.md.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "autodiff/grad.hpp"
#include "devices/device.hpp"
#include "devices/tpu/tpu.hpp"
#include "engine/passes.hpp"
#include "models/registry.hpp"

namespace {
std::atomic<int64_t> allocations{0};

void* allocated(size_t bytes, size_t alignment) {
  ++allocations;
  void* p = alignment <= alignof(std::max_align_t) ? std::malloc(bytes) : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (!p) throw std::bad_alloc();
  return p;
}
}  // namespace

void* operator new(size_t bytes) { return allocated(bytes, alignof(std::max_align_t)); }
void* operator new(size_t bytes, std::align_val_t alignment) { return allocated(bytes, static_cast<size_t>(alignment)); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { std::free(p); }

using namespace backbeat;

namespace {

using Clock = std::chrono::steady_clock;
double nanoseconds_since(Clock::time_point start) { return std::chrono::duration<double, std::nano>(Clock::now() - start).count(); }

// A chain as models have them: products, broadcasts, activations, a reduction; about eight nodes a layer.
Tensor network(Tensor x, Tensor w, Tensor b, int layers) {
  for (int i = 0; i < layers; ++i) x = tanh(matmul(x, w) + b) * 0.5 + x;
  return mean(square(x));
}

struct Timing {
  double record = 1e30, grads[3] = {1e30, 1e30, 1e30};
  NodeId nodes = 0, appended[3] = {0, 0, 0};
};

void time_once(Timing& best) {
  Program program;
  Recorder r(program);
  const Tensor x = r.input("x", DType::f32, {64, 32}), w = r.input("w", DType::f32, {32, 32}), b = r.input("b", DType::f32, {32});
  Clock::time_point start = Clock::now();
  Tensor y = network(x, w, b, 1000);
  best.nodes = program.tape.size();
  best.record = std::min(best.record, nanoseconds_since(start) / best.nodes);
  for (int order = 0; order < 3; ++order) {
    const NodeId before = program.tape.size();
    start = Clock::now();
    const Tensor g = grad(y, x);
    const double elapsed = nanoseconds_since(start);
    best.appended[order] = program.tape.size() - before;
    best.grads[order] = std::min(best.grads[order], elapsed / best.appended[order]);
    y = sum(square(g));
  }
}

void steps_of(Device& device, const char* data) {
  ModelOptions options;
  options.data = data;
  const RegisteredModel& model = find_model("wgan-gp");
  StateStore state = model.initial_state(options);
  const Program program = optimize(model.programs(options, "critic")[0].first);
  const auto executable = device.compile(program);
  std::vector<Array> inputs;
  for (const Program::Port& port : program.inputs)
    inputs.push_back(Array::zeros(program.tape[port.node].dtype, program.tape[port.node].shape));
  for (int warm = 0; warm < 3; ++warm) executable->run(inputs, state);
  const int64_t before = allocations;
  constexpr int runs = 5;
  size_t outputs = 0;
  for (int i = 0; i < runs; ++i) outputs = executable->run(inputs, state).size();
  // What a run returns is the caller's: a vector, and for each output the book-keeping of its buffer.
  const double own = static_cast<double>(allocations - before) / runs - static_cast<double>(outputs + 1);
  std::printf("%-9s wgan-gp critic step on %-13s  %5d nodes  %4.1f allocations a run, beside the %zu arrays that it returns\n",
              device.name().c_str(), data, program.tape.size(), own, outputs);
}

}  // namespace

int main() {
  Timing best;
  for (int i = 0; i < 10; ++i) time_once(best);
  std::printf("record    %8d nodes  %6.0f ns a node\n", best.nodes, best.record);
  for (int order = 0; order < 3; ++order)
    std::printf("grad %d    %8d nodes  %6.0f ns a node appended\n", order + 1, best.appended[order], best.grads[order]);
  for (const char* data : {"8gaussians", "fashion-mnist"}) steps_of(*make_cpu_device(), data);
  steps_of(*make_tpu_device(sim::load_chip("tpu-v3")), "8gaussians");
}
