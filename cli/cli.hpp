// The command line as a function, so that tests call what people call.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "devices/device.hpp"
#include "engine/passes.hpp"
#include "models/registry.hpp"

namespace backbeat::sim {
struct Chip;
}

namespace backbeat::cli {

// Exit status: 0 done, 1 the run failed, 2 the request was wrong (one line on standard error), 130 interrupted.
int run(int argc, const char* const* argv);

// What several verbs share.
struct DeviceOptions {
  std::string device, chip;           // a chip implies the device tpu
  std::vector<std::string> settings;  // mxu.rows=64
  int64_t threads = 0;                // 0: all cores
  bool no_fusion = false, no_residency = false, timing_only = false;
  std::string passes = "all";
  std::vector<std::string> precisions;  // order:2=highest

  CompileOptions compile() const { return {!no_fusion, !no_residency, timing_only}; }
};

struct OutputOptions {
  std::string json;  // a path, or "-" for standard output
};

struct TrainRequest {
  std::string model;
  ModelOptions options;
  DeviceOptions device;
  OutputOptions output;
  int64_t steps = 100;
  std::string out;
  bool resume = false, overwrite = false, check_finite = false;
  double checkpoint_seconds = 20;
};

struct AnatomyRequest {
  std::string model, step;
  std::string tape;  // a path, .dot for Graphviz, else text; or "-" for standard output
  ModelOptions options;
  DeviceOptions device;
  OutputOptions output;
};

int train(const TrainRequest& request);
int anatomy(const AnatomyRequest& request);
int chips(const std::string& name, const std::vector<std::string>& settings, const OutputOptions& output);
int devices(const OutputOptions& output);

// --- for the verbs

// The device that was asked for, or `fallback` ("cpu", or a chip's name).
struct ChosenDevice {
  std::unique_ptr<Device> device;
  std::string recipe;  // what of it decides the numbers
};
ChosenDevice choose_device(const DeviceOptions& options, const std::string& fallback);

// A chip with the changes of --set, which its name then tells wherever it is shown.
sim::Chip edited_chip(const std::string& name, const std::vector<std::string>& settings);

// The Program as the device gets it: precisions changed as asked, then the passes.
Program prepared(const Program& program, const DeviceOptions& options);
// Error for a rule of --precision-of that names no product of these.
void check_precisions(const std::vector<std::pair<Program, int64_t>>& parts, const DeviceOptions& options);

// The cost of one step: each Program is compiled, run once (unless timing_only), and counted as often as the step runs it.
Cost cost_of(const std::vector<std::pair<Program, int64_t>>& parts, Device& device, const DeviceOptions& options, StateStore& state);

// Text for people goes to standard output, or to standard error when the JSON takes that place.
void print_text(const OutputOptions& output, const std::string& text);
void write_json(const OutputOptions& output, const std::string& json);
// Error if the file of a flag could not be written, before the time is spent. The folder of a run is made by the run.
void check_file(const char* flag, const std::string& path, bool folder_comes_later = false);
void check_output(const OutputOptions& output, bool folder_comes_later = false);

}  // namespace backbeat::cli
