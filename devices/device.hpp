// Device: compiles a Program once and runs it many times.
#pragma once
#include <memory>
#include <span>
#include <string>

#include "engine/cost.hpp"
#include "engine/program.hpp"

namespace backbeat {

struct CompileOptions {
  bool fusion = true;
  bool residency = true;      // keep small tensors in the chip's VMEM between kernels
  bool timing_only = false;   // cost() works, run() does not
};

class Executable {
 public:
  virtual ~Executable() = default;
  // Inputs in the order of program.inputs; returns the outputs in the order of program.outputs and updates the state in
  // place. Shapes and dtypes that differ from the Program's are an Error. The returned arrays are the caller's.
  virtual std::vector<Array> run(std::span<const Array> inputs, StateStore& state) = 0;
  // Chips: the simulated cost of one run. Others: measured time of the last run by the same labels.
  virtual Cost cost() = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;
  virtual std::unique_ptr<Executable> compile(const Program& program, const CompileOptions& options = {}) = 0;
};

std::unique_ptr<Device> make_reference_device();  // plain xtensor, the oracle
std::unique_ptr<Device> make_cpu_device();

// What every device compiles: the Program without calls. Error if it expects more replicas than the one there is.
Program flattened(const Program& program, const std::string& device);

// Throws the Error that Executable::run promises for wrong inputs or state.
void check_run(const Program& program, std::span<const Array> inputs, const StateStore& state);

// For devices that update state in place: state that the Program writes gets a buffer of its own where it shares one with
// other state, an input or a constant. `states` lie in the order of program.states; `seen` is room to work in.
void separate_state(const Program& program, std::span<const Array> inputs, std::span<const Array> constants,
                    std::span<Array* const> states, std::vector<const void*>& seen);

}  // namespace backbeat
