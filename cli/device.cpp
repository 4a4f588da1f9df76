// Choosing a device, and measuring a step on it.
#include <omp.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iostream>

#include "cli/cli.hpp"
#include "engine/precision.hpp"
#include "devices/tpu/tpu.hpp"
#include "engine/host/instruction_set.hpp"
#include "engine/io/file.hpp"
#include "models/data/rng.hpp"
#include "sim/chip.hpp"

namespace backbeat::cli {

sim::Chip edited_chip(const std::string& name, const std::vector<std::string>& settings) {
  sim::Chip chip = sim::load_chip(name);
  sim::set(chip, settings);
  for (const std::string& setting : settings) chip.name += ' ' + setting;
  return chip;
}

ChosenDevice choose_device(const DeviceOptions& o, const std::string& fallback) {
  constexpr int64_t most_threads = 1024;
  if (o.threads < 0 || o.threads > most_threads) fail("threads", "expected 1 to ", most_threads, ", got ", o.threads);
  if (o.threads > 0) omp_set_num_threads(static_cast<int>(o.threads));
  std::string name = o.device, chip_name = o.chip;
  if (name.empty() && chip_name.empty()) (fallback == "cpu" ? name : chip_name) = fallback;
  if (name.empty()) name = "tpu";
  if (name != "tpu" && !chip_name.empty()) fail("device", "--chip ", chip_name, " needs the device tpu, got --device ", name);
  if (name != "tpu" && !o.settings.empty()) fail("device", "--set changes a chip, but --device is ", name);
  if (name == "cpu") return {make_cpu_device(), concat("cpu ", host::instruction_set())};
  if (name == "reference") return {make_reference_device(), "reference"};
  if (name != "tpu") fail("device", "unknown device '", name, "', expected cpu, reference or tpu");
  sim::Chip chip = edited_chip(chip_name.empty() ? "tpu-v3" : chip_name, o.settings);
  std::string recipe = concat("tpu ", chip.name, ", ", chip.mxu.rows, " rows");  // sums are cut by the rows of the array
  return {make_tpu_device(std::move(chip)), recipe};
}

namespace {

std::vector<Array> random_inputs(const Program& program) {
  std::vector<Array> inputs;
  for (const Program::Port& port : program.inputs) {
    const Node& node = program.tape[port.node];
    Array value = Array::zeros(node.dtype, node.shape);
    HostRandom random(0, static_cast<uint32_t>(inputs.size()), 0);
    if (is_float(node.dtype))
      for (int64_t i = 0; i < value.size(); ++i) value.set(i, random.uniform());
    inputs.push_back(value);
  }
  return inputs;
}

void scale(Cost& cost, int64_t times) {
  const auto scale_map = [&](auto& map) {
    for (auto& [key, value] : map) value *= times;
  };
  cost.cycles *= times, cost.launch_cycles *= times;
  for (EngineCost& e : cost.engines) e.busy *= times, e.stalled *= times, e.idle *= times;
  for (NodeCost& n : cost.nodes) {
    n.cycles *= times, n.flops *= times, n.flops_padded *= times;
    scale_map(n.bytes), scale_map(n.busy), scale_map(n.stalls);
  }
  for (auto* view : {&cost.by_phase, &cost.by_order, &cost.by_scope, &cost.by_op})
    for (CostRow& row : *view) {
      row.cycles *= times, row.removal_cycles *= times, row.flops *= times, row.flops_padded *= times;
      scale_map(row.bytes), scale_map(row.stalls), scale_map(row.bound_by);
    }
}

void add_view(std::vector<CostRow>& into, const std::vector<CostRow>& rows) {
  for (const CostRow& row : rows) {
    auto it = std::find_if(into.begin(), into.end(), [&](const CostRow& r) { return r.key == row.key; });
    if (it == into.end()) {
      into.push_back(row);
      continue;
    }
    it->nodes += row.nodes, it->cycles += row.cycles, it->removal_cycles += row.removal_cycles;
    it->flops += row.flops, it->flops_padded += row.flops_padded;
    for (auto& [key, value] : row.bytes) it->bytes[key] += value;
    for (auto& [key, value] : row.stalls) it->stalls[key] += value;
    for (auto& [key, value] : row.bound_by) it->bound_by[key] += value;
  }
}

// Programs that run one after another: times add, memory peaks do not.
void append(Cost& total, const Cost& part) {
  total.program += '+' + part.program;
  total.cycles += part.cycles, total.launch_cycles += part.launch_cycles;
  total.nodes.insert(total.nodes.end(), part.nodes.begin(), part.nodes.end());
  for (size_t i = 0; i < total.engines.size() && i < part.engines.size(); ++i) {
    total.engines[i].busy += part.engines[i].busy;
    total.engines[i].stalled += part.engines[i].stalled;
    total.engines[i].idle += part.engines[i].idle;
  }
  const int64_t vmem = std::max(total.memory.vmem_peak_bytes, part.memory.vmem_peak_bytes);
  if (part.memory.hbm_peak_bytes > total.memory.hbm_peak_bytes) total.memory = part.memory;
  total.memory.vmem_peak_bytes = vmem;
  add_view(total.by_phase, part.by_phase);
  add_view(total.by_order, part.by_order);
  add_view(total.by_scope, part.by_scope);
  add_view(total.by_op, part.by_op);
}

}  // namespace

Program prepared(const Program& program, const DeviceOptions& o) {
  Program changed = program;
  for (const std::string& text : o.precisions) {
    const PrecisionRule rule = precision_rule_from_text(text);
    override_precision(changed, std::span(&rule, 1));
  }
  return optimize(changed, passes_from_text(o.passes));
}

void check_precisions(const std::vector<std::pair<Program, int64_t>>& parts, const DeviceOptions& o) {
  for (const std::string& text : o.precisions) {
    const PrecisionRule rule = precision_rule_from_text(text);
    int64_t changed = 0;
    for (auto [program, times] : parts) changed += override_precision(program, std::span(&rule, 1));
    if (changed == 0) fail("precision", "--precision-of ", text, ": no product has that scope and order");
  }
}

Cost cost_of(const std::vector<std::pair<Program, int64_t>>& parts, Device& device, const DeviceOptions& o, StateStore& state) {
  std::optional<Cost> total;
  for (const auto& [program, times] : parts) {
    const Program optimized = prepared(program, o);
    const auto executable = device.compile(optimized, o.compile());
    // Of a measured device the fastest of some runs; a simulated one counts the same cycles each time.
    const int runs = o.timing_only ? 0 : device.name() == "tpu" ? 1 : 7;
    const std::vector<Array> inputs = runs > 0 ? random_inputs(optimized) : std::vector<Array>();
    std::optional<Cost> best;
    for (int run = 0; run < runs; ++run) {
      executable->run(inputs, state);
      if (Cost measured = executable->cost(); !best || measured.cycles < best->cycles) best = std::move(measured);
    }
    Cost cost = best ? std::move(*best) : executable->cost();
    scale(cost, times);
    if (total) append(*total, cost);
    else total = std::move(cost);
  }
  return std::move(*total);
}

void print_text(const OutputOptions& output, const std::string& text) {
  std::ostream& out = output.json == "-" ? std::cerr : std::cout;
  if (!(out << text << std::flush)) throw RunError("backbeat: the output cannot be written");
}

void check_file(const char* flag, const std::string& file, bool folder_comes_later) {
  namespace fs = std::filesystem;
  if (file.empty() || file == "-") return;
  const fs::path path(file), folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) fail(flag, file, ": expected a file, this is a directory");
  const bool exists = fs::exists(folder, ignored);
  if (!exists && !folder_comes_later) fail(flag, file, ": there is no folder ", folder.string());
  if (exists && access(folder.c_str(), W_OK) != 0) fail(flag, file, ": cannot write into ", folder.string());
}

void check_output(const OutputOptions& output, bool folder_comes_later) { check_file("json", output.json, folder_comes_later); }

void write_json(const OutputOptions& output, const std::string& json) {
  if (output.json.empty()) return;
  if (output.json == "-" && !(std::cout << json << '\n' << std::flush)) throw RunError("backbeat: the output cannot be written");
  if (output.json != "-") write_file_atomically("json", output.json, json + '\n');
}

}  // namespace backbeat::cli
