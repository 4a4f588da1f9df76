// A gradient penalty in forty lines: record a critic, differentiate its gradient, run the result on two devices.
// Build it in this tree with `ninja -C build examples/gradient_penalty`, or against the installed library:
//   g++ -std=c++20 gradient_penalty.cpp $(pkg-config --cflags --libs backbeat) -o gradient_penalty
#include <cstdio>

#include "autodiff/grad.hpp"
#include "devices/tpu/tpu.hpp"
#include "engine/passes.hpp"
#include "sim/chip.hpp"

using namespace backbeat;

int main() {
  // critic(x) = tanh(x W) v, on 256 samples of 128 numbers
  const Program program = record("penalty", [](Recorder& r) {
    const Tensor w = r.state("w", DType::f32, {128, 512}), v = r.state("v", DType::f32, {512, 1});
    const Tensor x = r.input("x", DType::f32, {256, 128});
    const Tensor slope = grad(sum(matmul(tanh(matmul(x, w)), v)), x);       // order 1
    const Tensor penalty = mean(square(norm(slope, {1}) - 1.0));
    const Tensor dw = grad(penalty, w);                                      // order 2
    r.output("penalty", penalty);
    r.output("dw", dw);
  });
  const Program optimized = optimize(program);

  StateStore state;
  Array w(DType::f32, {128, 512}), v(DType::f32, {512, 1}), x(DType::f32, {256, 128});
  const auto fill = [](Array& a, double scale) {
    for (int64_t i = 0; i < a.size(); ++i) a.set(i, scale * static_cast<double>(i * 7919 % 1009 - 504) / 504);
  };
  fill(w, 0.1), fill(v, 0.3), fill(x, 1);
  state.set("w", w), state.set("v", v);

  std::unique_ptr<Device> devices[] = {make_cpu_device(), make_tpu_device(sim::load_chip("tpu-v3"))};
  for (const auto& device : devices) {
    const auto executable = device->compile(optimized);
    const std::vector<Array> out = executable->run(std::span(&x, 1), state);
    std::printf("%-4s penalty %.6f, dw[0] % .6e\n", device->name().c_str(), out[0].item(), out[1].at(0));
    const Cost cost = executable->cost();
    for (const CostRow& row : cost.by_phase)
      std::printf("     %-16s %10ld %s, %5.1f %% of the step\n", row.key.c_str(), static_cast<long>(row.cycles),
                  cost.chip.empty() ? "ns" : "cycles", 100.0 * static_cast<double>(row.cycles) / static_cast<double>(cost.cycles));
  }
}
