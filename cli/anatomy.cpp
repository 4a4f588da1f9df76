// backbeat anatomy: the cost of one step, and the same step without its penalty beside it.
#include <nlohmann/json.hpp>

#include "cli/cli.hpp"
#include "report/anatomy.hpp"

namespace backbeat::cli {

int anatomy(const AnatomyRequest& request) {
  check_output(request.output);
  const RegisteredModel& model = find_model(request.model);
  const std::string step = request.step.empty() ? model.steps.front() : request.step;
  const auto parts = model.programs(request.options, step);
  ChosenDevice chosen = choose_device(request.device, "tpu-v3");
  if (request.device.timing_only && chosen.device->name() != "tpu")
    fail("anatomy", "--timing-only needs a simulated chip: the time of ", chosen.device->name(), " is measured by running");
  if (request.options.precision != "default" && chosen.device->name() != "tpu")
    fail("anatomy", "--precision ", request.options.precision, " is of a simulated chip's products; ", chosen.device->name(), " has one precision");
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

  print_text(request.output, anatomy_text(cost, title));
  write_json(request.output, anatomy_json(cost, title).dump(1));
  if (!request.output.json.empty() && request.output.json != "-") print_text(request.output, "wrote " + request.output.json + "\n");
  return 0;
}

}  // namespace backbeat::cli
