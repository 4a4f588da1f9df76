// Chip: what a simulated chip is made of. A chip is a TOML page in sim/chips/, one number a line, each with its source
// or marked `{ estimate = x, range = [low, high] }`; this is that page in memory.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace backbeat::sim {

struct Chip {
  std::string name, title;
  double clock_hz = 0;

  struct {
    int64_t count = 1, rows = 1, columns = 1;
    double rows_per_cycle = 1, latch_rows_per_cycle = 1, transposed_latch_rows_per_cycle = 1;
    bool double_buffered = true;
    bool accumulates_in_vmem = true;  // false: accumulators under the array
    int64_t pipeline_latency = 0;
  } mxu;
  struct {
    int64_t sublanes = 8, lanes = 128, alus = 1, latency = 1;
    double medium_slots = 1, dear_slots = 1, random_slots = 1;
  } vpu;
  struct {
    double cycles_per_vreg = 1;
    int64_t latency = 1;
  } eup;
  struct {
    double transpose_cycles_per_vreg = 1, reduce_cycles_per_vreg = 1;
    int64_t latency = 1;
  } xlu;
  struct {
    int64_t bytes = 0;
    double loads_per_cycle = 1, stores_per_cycle = 1;
    int64_t latency = 1;
  } vmem;
  struct {
    int64_t bytes = 0;
    double bandwidth = 1, efficiency = 1, latency_seconds = 0;  // bandwidth in bytes a second
    int64_t granularity = 1;
  } hbm;
  struct {
    double launch_seconds = 0;
    int64_t step_cycles = 0, dma_issue_cycles = 1;
    double address_cycles = 1;
  } overhead;
  struct {
    double f64_slots = 1, i64_slots = 1, f64_passes = 1;
  } emulation;

  // Where each number comes from, by key ("mxu.rows").
  struct Source {
    bool estimate = false;
    double low = 0, high = 0;  // of an estimate, in the unit of the page
    std::string note;          // the comment beside the number
  };
  std::map<std::string, Source> sources;

  int64_t cycles(double seconds) const;  // rounded up
  double hbm_bytes_per_cycle() const { return hbm.bandwidth * hbm.efficiency / clock_hz; }
  double peak_flops() const {  // of the matrix units, at one bf16 pass
    return 2.0 * static_cast<double>(mxu.count * mxu.rows * mxu.columns) * mxu.rows_per_cycle * clock_hz;
  }
  double vector_flops() const { return static_cast<double>(vpu.sublanes * vpu.lanes * vpu.alus) * clock_hz; }
  double ridge_flops_per_byte() const { return peak_flops() / (hbm.bandwidth * hbm.efficiency); }
};

// A preset by name ("tpu-v3") or the path of a TOML file. Errors are one line, `FILE:LINE: KEY ...`.
Chip load_chip(const std::string& name_or_path);
Chip parse_chip(const std::string& text, const std::string& file);
std::vector<std::string> chip_names();

// set(chip, "mxu.rows=64"), set(chip, "hbm.bandwidth=900 GB/s").
void set(Chip& chip, const std::string& assignment);
// Several at once, checked as a whole.
void set(Chip& chip, const std::vector<std::string>& assignments);

std::string describe(const Chip& chip);       // a page to read
std::string describe_json(const Chip& chip);  // the same for programs

// One row a key, in the order of the page: what describe, parse and set walk through.
struct ChipField {
  const char* key;
  enum Unit { count, cycles, per_cycle, bytes, bandwidth, seconds, frequency, fraction, flag, accumulator } unit;
  double least, most;
  const char* meaning;
};
const std::vector<ChipField>& chip_fields();
double get(const Chip& chip, const std::string& key);    // flags as 0 and 1; in base units
std::string show(const ChipField& field, double value);  // "16 GiB", "450 GB/s", "0.6 us"

}  // namespace backbeat::sim
