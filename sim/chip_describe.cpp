#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>

#include "sim/chip.hpp"

namespace backbeat::sim {

namespace {
std::string padded(std::string text, size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}
std::string rounded(double value, const char* format) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}
}  // namespace

std::string describe(const Chip& chip) {
  std::ostringstream out;
  out << chip.name << ": " << chip.title << "\n\n";
  out << "  matrix units      " << chip.mxu.count << " x " << chip.mxu.rows << "x" << chip.mxu.columns << " at "
      << rounded(chip.clock_hz / 1e6, "%g MHz") << " and " << rounded(chip.mxu.rows_per_cycle, "%g")
      << " row a cycle: " << rounded(chip.peak_flops() / 1e12, "%.4g TFLOP/s") << " in one bf16 pass\n"
      << "  vector unit       " << chip.vpu.sublanes << "x" << chip.vpu.lanes << " x " << chip.vpu.alus
      << " ALUs: " << rounded(chip.vector_flops() / 1e9, "%.4g GFLOP/s") << '\n'
      << "  main memory       " << rounded(chip.hbm.bandwidth * chip.hbm.efficiency / 1e9, "%.4g GB/s") << " reached, "
      << rounded(chip.hbm_bytes_per_cycle(), "%.4g bytes a cycle") << '\n'
      << "  ridge             " << rounded(chip.ridge_flops_per_byte(), "%.4g FLOP a byte")
      << ": below it a program waits for memory, above it for the matrix units\n";
  std::string section;
  for (const ChipField& field : chip_fields()) {
    const std::string key = field.key;
    const size_t dot = key.find('.');
    const std::string group = dot == std::string::npos ? "" : key.substr(0, dot);
    if (group != section || section.empty()) out << "\n[" << (group.empty() ? "chip" : group) << "]\n";
    section = group.empty() ? "chip" : group;
    const Chip::Source& source = chip.sources.at(key);
    out << "  " << padded(dot == std::string::npos ? key : key.substr(dot + 1), 32)
        << padded(show(field, get(chip, key)), 12) << field.meaning << '\n';
    if (source.estimate)
      out << std::string(34, ' ') << "estimate, from " << show(field, source.low) << " to " << show(field, source.high)
          << (source.note.empty() ? "" : ": ") << source.note << '\n';
    else if (!source.note.empty())
      out << std::string(34, ' ') << source.note << '\n';
  }
  return out.str();
}

std::string describe_json(const Chip& chip) {
  nlohmann::ordered_json page;
  page["name"] = chip.name;
  page["title"] = chip.title;
  page["derived"] = {{"peak_flops", chip.peak_flops()},
                     {"vector_flops", chip.vector_flops()},
                     {"hbm_bytes_per_cycle", chip.hbm_bytes_per_cycle()},
                     {"ridge_flops_per_byte", chip.ridge_flops_per_byte()}};
  nlohmann::ordered_json values = nlohmann::ordered_json::array();
  for (const ChipField& field : chip_fields()) {
    const Chip::Source& source = chip.sources.at(field.key);
    nlohmann::ordered_json row = {
        {"key", field.key},         {"value", get(chip, field.key)}, {"text", show(field, get(chip, field.key))},
        {"meaning", field.meaning}, {"estimate", source.estimate},   {"source", source.note}};
    if (source.estimate) row["range"] = {source.low, source.high};
    values.push_back(row);
  }
  page["values"] = values;
  return page.dump(2) + "\n";
}

}  // namespace backbeat::sim
