// Flags, and which verb they go to.
#include "cli/cli.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>
#include <iostream>

namespace backbeat::cli {

namespace {

// A number of at least `least`, in a flag's own words.
std::function<std::string(const std::string&)> at_least(double least) {
  return [least](const std::string& text) {
    double value = 0;
    const bool number = CLI::detail::lexical_cast(text, value);
    return number && value >= least ? std::string() : concat("expected at least ", least, ", got '", text, "'");
  };
}

void add_model_flags(CLI::App& app, ModelOptions& o) {
  app.add_option("--data", o.data, "8gaussians, 25gaussians, swissroll, fashion-mnist, or a directory of IDX files")
      ->type_name("NAME|DIR");
  app.add_option("--batch", o.batch, "samples a step (default: the original code's, 50 images or 256 points)")
      ->type_name("N")->check(at_least(1));
  app.add_option("--penalty", o.penalty, "two-sided (default), one-sided or none")->type_name("KIND");
  app.add_option("--lambda", o.lambda, "weight of the penalty (default: 10 for images, 0.1 for toys)")->type_name("X");
  app.add_option("--critic-steps", o.critic_steps, "critic steps for each generator step (default 5)")->type_name("N")->check(at_least(1));
  app.add_option("--activation", o.activation, "of the toy: relu (default), leaky-relu or tanh")->type_name("NAME");
  app.add_option("--optimizer", o.optimizer, "adam (default), sgd or rmsprop")->type_name("NAME");
  app.add_option("--rate", o.rate, "learning rate (default: adam 1e-4, sgd 1e-3, rmsprop 5e-5)")->type_name("X");
  app.add_option("--momentum", o.momentum, "of sgd")->type_name("X");
  app.add_option("--clip", o.clip, "clip weights to +-X after each step (rmsprop)")->type_name("X");
  app.add_option("--precision", o.precision, "of products on a chip: default, high or highest (1, 3 or 6 passes)")
      ->type_name("NAME");
  app.add_option("--seed", o.seed, "fixes every random number (default 0)")->type_name("N")->check([](const std::string& text) {
    const bool whole = !text.empty() && text.size() < 20 && text.find_first_not_of("0123456789") == std::string::npos;
    return whole ? "" : "expected a whole number of at most 19 digits, got '" + text + "'";
  });
}

void add_device_flags(CLI::App& app, DeviceOptions& o) {
  app.add_option("--device", o.device, "cpu, reference or tpu (default: cpu to train, tpu for anatomy)")->type_name("NAME");
  app.add_option("--chip", o.chip, "simulated chip: a name (see `backbeat chips`; default tpu-v3) or a TOML file; implies --device tpu")
      ->type_name("NAME|FILE");
  app.add_option("--set", o.settings, "change a number of the chip, for example mxu.rows=64 (repeatable)")
      ->type_name("KEY=VALUE")->allow_extra_args(false)->take_all();
  app.add_option("--threads", o.threads, "CPU threads (default: all cores); never changes a result")
      ->type_name("N")->check(at_least(1));
  app.add_option("--passes", o.passes, "all (default), none, or a choice of dce,cse,fold,simplify")->type_name("LIST");
  app.add_option("--precision-of", o.precisions, "precision of some products on a chip: SCOPE=NAME, order:K=NAME or both, as critic,order:2=highest (repeatable)")
      ->type_name("RULE")->allow_extra_args(false)->take_all();
  app.add_flag("--no-fusion", o.no_fusion, "one kernel an operation");
  app.add_flag("--no-residency", o.no_residency, "every tensor goes through HBM");
}

void add_output_flags(CLI::App& app, OutputOptions& o) {
  app.add_option("--json", o.json, "write the result for programs to a file, or - for standard output")->type_name("FILE|-");
}

// A parse error in one line: which verb, what was wrong.
std::string one_line(const CLI::App& app, const CLI::ParseError& error) {
  std::string verb = app.get_subcommands().empty() ? "" : " " + app.get_subcommands().front()->get_name();
  std::string text = error.what();
  for (char& c : text)
    if (c == '\n') c = ' ';
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return "backbeat" + verb + ": " + text + " (see backbeat" + verb + " --help)";
}

}  // namespace

int run(int argc, const char* const* argv) {
  CLI::App app{"Backbeat: a tensor engine with a chip you can see inside.\n"
               "Trains on this machine's CPU or on a simulated TPU that computes the numbers and counts the cycles."};
  app.name("backbeat");
  app.require_subcommand(1);
  app.set_version_flag("--version", "backbeat 0.1.0");

  TrainRequest train_request;
  CLI::App* train_app = app.add_subcommand("train", "train a model for real; ends with the anatomy of a step");
  train_app->add_option("model", train_request.model, "wgan-gp")->required()->type_name("MODEL");
  train_app->add_option("--steps", train_request.steps, "outer iterations: generator steps (default 100)")->type_name("N")->check(at_least(0));
  train_app->add_option("--out", train_request.out, "directory for checkpoint, losses and pictures")->type_name("DIR");
  train_app->add_flag("--resume", train_request.resume, "go on from the checkpoint in --out, or begin if there is none");
  train_app->add_flag("--overwrite", train_request.overwrite, "begin anew even if --out holds a run");
  train_app->add_flag("--check-finite", train_request.check_finite,
                      "look at every result; when one is NaN or infinite, name the operation that made it");
  train_app->add_option("--checkpoint-seconds", train_request.checkpoint_seconds, "time between checkpoints (default 20)")
      ->type_name("S")->check(at_least(0));
  add_model_flags(*train_app, train_request.options);
  add_device_flags(*train_app, train_request.device);
  add_output_flags(*train_app, train_request.output);

  AnatomyRequest anatomy_request;
  CLI::App* anatomy_app = app.add_subcommand("anatomy", "where the time, bytes and memory of one step go");
  anatomy_app->add_option("model", anatomy_request.model, "wgan-gp")->required()->type_name("MODEL");
  anatomy_app->add_option("--step", anatomy_request.step, "critic (default), generator or iteration")->type_name("NAME");
  anatomy_app->add_option("--tape", anatomy_request.tape, "write the step's tape: FILE.dot for Graphviz, else text, - for standard output")
      ->type_name("FILE|-");
  anatomy_app->add_flag("--timing-only", anatomy_request.device.timing_only, "count the cycles without computing the numbers");
  add_model_flags(*anatomy_app, anatomy_request.options);
  add_device_flags(*anatomy_app, anatomy_request.device);
  add_output_flags(*anatomy_app, anatomy_request.output);

  std::string chip_name;
  std::vector<std::string> chip_settings;
  OutputOptions chips_output, devices_output;
  CLI::App* chips_app = app.add_subcommand("chips", "what can be simulated; with a name, that chip explained");
  chips_app->add_option("name", chip_name, "a chip's name or TOML file")->type_name("NAME|FILE");
  chips_app->add_option("--set", chip_settings, "change a number first")->type_name("KEY=VALUE")->allow_extra_args(false)->take_all();
  add_output_flags(*chips_app, chips_output);
  CLI::App* devices_app = app.add_subcommand("devices", "what can run here");
  add_output_flags(*devices_app, devices_output);

  try {
    for (int i = 1; i < argc; ++i)
      if (!*argv[i]) throw Error(concat("backbeat: argument ", i, " is empty, expected a value"));
    if (argc > 1 && argv[1][0] != '-' && app.get_subcommands([&](CLI::App* verb) { return verb->get_name() == argv[1]; }).empty())
      throw Error(concat("backbeat: unknown verb '", argv[1], "', expected train, anatomy, chips or devices (see backbeat --help)"));
    app.parse(argc, argv);
    if (train_app->parsed()) return train(train_request);
    if (anatomy_app->parsed()) return anatomy(anatomy_request);
    if (chips_app->parsed()) return chips(chip_name, chip_settings, chips_output);
    return devices(devices_output);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help
    std::cerr << one_line(app, error) << '\n';
    return 2;
  } catch (const Error& error) {
    std::cerr << error.what() << '\n';
    return 2;
  } catch (const RunError& error) {
    std::cerr << error.what() << '\n';
    return 1;
  } catch (const std::bad_alloc&) {
    std::cerr << "backbeat: there is not enough memory on this machine for the request\n";
    return 1;
  } catch (const std::exception& error) {
    std::cerr << "backbeat: " << error.what() << '\n';
    return 1;
  }
}

}  // namespace backbeat::cli
