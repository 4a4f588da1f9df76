// The devices that tests run on, and how a test runs a Program: the one list to extend when there is another device.
#pragma once
#include "autodiff/check_grads.hpp"
#include "devices/device.hpp"

namespace backbeat::test {

struct NamedDevice {
  const char* name;
  std::unique_ptr<Device> (*make)();
};

inline std::vector<NamedDevice> all_devices() {
  return {
      {"reference", make_reference_device},
      {"cpu", make_cpu_device},
  };
}

inline std::vector<Array> run(const Program& program, const std::vector<Array>& inputs = {},
                              const NamedDevice& device = all_devices()[0]) {
  StateStore state;
  return device.make()->compile(program)->run(inputs, state);
}

// What check_grads asks for, on the reference device.
inline std::vector<Array> on_reference(const Program& program, std::span<const Array> inputs) {
  StateStore state;
  return make_reference_device()->compile(program)->run(inputs, state);
}

}  // namespace backbeat::test
