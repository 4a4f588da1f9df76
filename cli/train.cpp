// backbeat train: real training with live losses, an interrupt that loses nothing, and the anatomy of a step at the end.
#include <csignal>
#include <cstdio>
#include <memory>

#include <nlohmann/json.hpp>

#include "cli/cli.hpp"
#include "cli/progress.hpp"
#include "models/wgan_gp/options.hpp"
#include "models/wgan_gp/train.hpp"
#include "report/anatomy.hpp"

namespace backbeat::cli {

namespace {

volatile std::sig_atomic_t interrupted = 0;

// While alive, the first Ctrl-C asks for a checkpoint and an end; the second one ends at once.
class InterruptGuard {
 public:
  InterruptGuard() {
    interrupted = 0;
    previous_ = std::signal(SIGINT, [](int) {
      interrupted = 1;
      std::signal(SIGINT, SIG_DFL);
    });
  }
  ~InterruptGuard() { std::signal(SIGINT, previous_); }

 private:
  void (*previous_)(int);
};

std::string show(const wgan_gp::Losses& l, bool penalty) {
  char text[160];
  if (penalty)
    std::snprintf(text, sizeof text, "wasserstein %.4g  penalty %.3g  |gradient| %.3g +- %.2g  generator %.4g", l.wasserstein, l.penalty,
                  l.norm_mean, l.norm_spread, l.generator);
  else std::snprintf(text, sizeof text, "wasserstein %.4g  generator %.4g", l.wasserstein, l.generator);
  return text;
}

nlohmann::ordered_json losses_json(const std::vector<wgan_gp::Losses>& losses) {
  auto out = nlohmann::ordered_json::array();
  for (const wgan_gp::Losses& l : losses)
    out.push_back({{"iteration", l.iteration}, {"wasserstein", l.wasserstein}, {"critic", l.critic}, {"penalty", l.penalty},
                   {"norm_mean", l.norm_mean}, {"norm_spread", l.norm_spread}, {"generator", l.generator}});
  return out;
}

std::string score_text(const wgan_gp::ToyScore& score) {
  std::string text = concat("sliced Wasserstein distance of 4000 samples: ", score.sliced_wasserstein, '\n');
  if (!score.modes.share.empty())
    text += concat("modes covered: ", score.modes.covered, " of ", score.modes.share.size(), " (each with at least 2 % of the samples); ",
                   100 * score.modes.near_a_mode, " % of the samples lie near a mode\n");
  return text;
}

}  // namespace

int train(const TrainRequest& request) {
  if (request.model != "wgan-gp") {
    find_model(request.model);
    fail("train", "model '", request.model, "' has no training; expected wgan-gp");
  }
  check_output(request.output, true);
  if (request.resume && request.out.empty()) fail("train", "--resume needs --out, the directory of the run");
  if (request.resume && request.overwrite) fail("train", "--resume and --overwrite exclude each other");
  const wgan_gp::Config config = wgan_gp::config_from(request.options);
  const wgan_gp::Model model(config);
  const Dataset data = open_dataset(model.config().data);
  ChosenDevice chosen = choose_device(request.device, "cpu");

  wgan_gp::TrainOptions options;
  options.iterations = request.steps;
  options.critic_steps = request.options.critic_steps;
  options.out = request.out;
  options.resume = request.resume;
  options.overwrite = request.overwrite;
  options.checkpoint_seconds = request.checkpoint_seconds;
  options.passes = passes_from_text(request.device.passes);
  options.compile = request.device.compile();
  options.device_recipe = chosen.recipe;
  options.check_finite = request.check_finite;
  for (const std::string& text : request.device.precisions) options.precisions.push_back(precision_rule_from_text(text));
  if (!options.precisions.empty() && chosen.device->name() != "tpu")
    fail("train", "--precision-of is of a simulated chip's products; ", chosen.device->name(), " has one precision");
  if (!options.precisions.empty()) check_precisions(find_model(request.model).programs(request.options, "iteration"), request.device);

  const InterruptGuard guard;
  std::unique_ptr<Progress> progress;
  wgan_gp::Observer observer;
  observer.note = [&](const std::string& text) { print_text(request.output, text + "\n"); };
  observer.interrupted = [] { return interrupted != 0; };
  observer.begin = [&](int64_t done) {  // a wrong request has been refused by now, in one line
    print_text(request.output, concat("wgan-gp on ", data.name, ", batch ", model.config().batch, ", ", request.steps, " iterations of ",
                                      options.critic_steps, " critic steps, ", chosen.recipe, "\n"));
    progress = std::make_unique<Progress>(done, request.steps);
  };
  observer.iteration = [&](const wgan_gp::Losses& l) {
    progress->show(l.iteration, show(l, config.penalty != wgan_gp::Penalty::none));
  };
  const wgan_gp::TrainResult result = wgan_gp::train(model, *chosen.device, data, options, observer);
  if (progress) progress->finish();

  if (result.interrupted) {
    print_text(request.output, concat("interrupted after iteration ", result.iterations,
                                      request.out.empty() ? "; nothing was kept (no --out)\n"
                                                          : "; the same command with --resume goes on from " + request.out + "\n"));
    return 130;
  }

  AnatomyTitle title{"wgan-gp", "critic", model.config().batch, {}};
  std::string text = "\n";
  nlohmann::ordered_json json;
  if (config.penalty != wgan_gp::Penalty::none && chosen.device->name() == "tpu") {
    wgan_gp::Config without = config;
    without.penalty = wgan_gp::Penalty::none;
    CompileOptions timing = options.compile;
    timing.timing_only = true;
    title.without_penalty =
        chosen.device->compile(optimize(wgan_gp::Model(without).critic_step(), options.passes), timing)->cost().cycles;
  }
  if (result.critic_cost) {
    text += anatomy_text(*result.critic_cost, title) + "\n";
    json = anatomy_json(*result.critic_cost, title);
  }
  if (!result.losses.empty())
    text += "last losses: " + show(result.losses.back(), config.penalty != wgan_gp::Penalty::none) + "\n";
  if (result.score) text += score_text(*result.score);
  text += "parameters sha256 " + result.parameters_sha256 + "\n";

  json["steps"] = result.iterations;
  json["losses"] = losses_json(result.losses);
  json["parameters_sha256"] = result.parameters_sha256;
  json["compiled_programs"] = result.compiled_programs;
  if (result.score) {
    json["sliced_wasserstein"] = result.score->sliced_wasserstein;
    json["mode_share"] = result.score->modes.share;
    json["modes_covered"] = result.score->modes.covered;
  }
  write_json(request.output, json.dump(1));

  for (const std::string& path : result.written) text += "wrote " + path + "\n";
  if (!request.output.json.empty() && request.output.json != "-") text += "wrote " + request.output.json + "\n";
  if (!result.written.empty())
    text += concat("look at ", result.written.back(), "; go on with --resume --steps ", 2 * std::max<int64_t>(request.steps, 1), '\n');
  print_text(request.output, text);
  return 0;
}

}  // namespace backbeat::cli
