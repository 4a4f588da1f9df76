// backbeat anatomy: the cost of one step, and the same step without its penalty beside it.
#include <nlohmann/json.hpp>

#include "cli/cli.hpp"
#include "engine/io/file.hpp"
#include "engine/print.hpp"
#include "report/anatomy.hpp"

namespace backbeat::cli {

namespace {

// The step as the device compiles it.
std::string tape_text(const std::vector<std::pair<Program, int64_t>>& parts, const AnatomyRequest& request, bool graph) {
  std::ostringstream text;
  for (const auto& [program, times] : parts) {
    const Program optimized = prepared(program, request.device);
    if (graph) text << graphviz(optimized);
    else text << optimized << '\n';
  }
  return text.str();
}

}  // namespace

int anatomy(const AnatomyRequest& request) {
  check_output(request.output);
  check_file("tape", request.tape);
  const RegisteredModel& model = find_model(request.model);
  const std::string step = request.step.empty() ? model.steps.front() : request.step;
  const auto parts = model.programs(request.options, step);
  check_precisions(parts, request.device);
  ChosenDevice chosen = choose_device(request.device, "tpu-v3");
  if (request.device.timing_only && chosen.device->name() != "tpu")
    fail("anatomy", "--timing-only needs a simulated chip: the time of ", chosen.device->name(), " is measured by running");
  const bool asks_precision = request.options.precision != "default" || !request.device.precisions.empty();
  if (asks_precision && chosen.device->name() != "tpu")
    fail("anatomy", request.options.precision != "default" ? "--precision " + request.options.precision : "--precision-of", " is of a simulated chip's products; ", chosen.device->name(), " has one precision");
  StateStore state = model.initial_state(request.options);
  const Cost cost = cost_of(parts, *chosen.device, request.device, state);

  AnatomyTitle title{request.model, step, model.batch(request.options), {}};
  if (request.options.penalty != "none") {
    ModelOptions without = request.options;
    without.penalty = "none";
    DeviceOptions timing = request.device;
    timing.timing_only = chosen.device->name() == "tpu";
    StateStore fresh = model.initial_state(without);
    title.without_penalty = cost_of(model.programs(without, step), *chosen.device, timing, fresh).cycles;
  }

  const bool to_file = !request.tape.empty() && request.tape != "-";
  if (request.tape == "-") print_text(request.output, tape_text(parts, request, false));
  if (to_file) write_file_atomically("tape", request.tape, tape_text(parts, request, request.tape.ends_with(".dot")));
  print_text(request.output, anatomy_text(cost, title));
  write_json(request.output, anatomy_json(cost, title).dump(1));
  if (to_file) print_text(request.output, "wrote " + request.tape + (request.tape.ends_with(".dot") ? "; draw it with dot -Tsvg\n" : "\n"));
  if (!request.output.json.empty() && request.output.json != "-") print_text(request.output, "wrote " + request.output.json + "\n");
  return 0;
}

}  // namespace backbeat::cli
