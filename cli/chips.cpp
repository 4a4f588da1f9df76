// backbeat chips, backbeat devices: what can be simulated, and what can run here.
#include <omp.h>

#include <nlohmann/json.hpp>

#include "cli/cli.hpp"
#include "engine/host/instruction_set.hpp"
#include "sim/chip.hpp"

namespace backbeat::cli {

int chips(const std::string& name, const std::vector<std::string>& settings, const OutputOptions& output) {
  if (!name.empty()) {
    const sim::Chip chip = edited_chip(name, settings);
    print_text(output, sim::describe(chip));
    write_json(output, sim::describe_json(chip));
    return 0;
  }
  if (!settings.empty()) fail("chips", "--set needs the name of a chip");
  std::string text;
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const std::string& known : sim::chip_names()) {
    const sim::Chip chip = sim::load_chip(known);
    text += concat(known, std::string(known.size() < 12 ? 12 - known.size() : 1, ' '), chip.title, '\n');
    json.push_back({{"name", known}, {"title", chip.title}});
  }
  print_text(output, text + "\nbackbeat chips NAME explains one: every number, its source, peaks and ridge point.\n");
  write_json(output, json.dump(1));
  return 0;
}

int devices(const OutputOptions& output) {
  const std::string cpu = concat(omp_get_max_threads(), " threads, ", host::instruction_set());
  std::string chips;
  for (const std::string& name : sim::chip_names()) chips += (chips.empty() ? "" : ", ") + name;
  print_text(output, concat("cpu        this machine: ", cpu, "\nreference  plain and slow, the oracle of the tests\n",
                            "tpu        simulated: ", chips, '\n'));
  nlohmann::ordered_json json = {{{"device", "cpu"}, {"threads", omp_get_max_threads()}, {"instruction_set", host::instruction_set()}},
                                 {{"device", "reference"}},
                                 {{"device", "tpu"}, {"chips", sim::chip_names()}}};
  write_json(output, json.dump(1));
  return 0;
}

}  // namespace backbeat::cli
