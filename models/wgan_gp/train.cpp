#include "models/wgan_gp/train.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "devices/nonfinite.hpp"
#include "engine/io/file.hpp"
#include "models/checkpoint.hpp"
#include "report/plots.hpp"

namespace backbeat::wgan_gp {

namespace {

namespace fs = std::filesystem;

constexpr int64_t score_samples = 4000, grid_columns = 10, grid_images = 100, plotted_points = 1000;
constexpr uint32_t evaluation_draw = 0xffffffffu;  // noise that no training step uses

std::string describe(const std::vector<PrecisionRule>& rules) {
  std::string text;
  for (const PrecisionRule& rule : rules)
    text += concat(", precision of ", rule.scope, rule.order < 0 ? "" : concat(" order ", rule.order), ' ', name_of(rule.precision));
  return text;
}

std::string recipe_of(const Model& model, const TrainOptions& o) {
  const Config& c = model.config();
  return concat("wgan-gp ", c.data, ", batch ", c.batch, ", lambda ", exact(c.lambda), ", penalty ", name_of(c.penalty), ", activation ",
                name_of(c.activation), ", precision ", name_of(c.precision), ", ", describe(c.optimizer), ", critic steps ",
                o.critic_steps, ", seed ", c.seed, ", ", o.device_recipe, describe(o.precisions));
}

constexpr const char* csv_header = "iteration,wasserstein,critic_loss,penalty,norm_mean,norm_spread,generator_loss\n";

void write_losses(const std::string& path, const std::vector<Losses>& losses) {
  std::ostringstream text;
  text.precision(17);
  text << csv_header;
  for (const Losses& l : losses)
    text << l.iteration << ',' << l.wasserstein << ',' << l.critic << ',' << l.penalty << ',' << l.norm_mean << ','
         << l.norm_spread << ',' << l.generator << '\n';
  write_file_atomically("losses", path, text.str());
}

std::vector<Losses> read_losses(const std::string& path, int64_t iterations) {
  std::ifstream in(path);
  std::string line;
  std::vector<Losses> losses;
  std::getline(in, line);
  while (static_cast<int64_t>(losses.size()) < iterations && std::getline(in, line)) {
    Losses l;
    if (std::sscanf(line.c_str(), "%ld,%lf,%lf,%lf,%lf,%lf,%lf", &l.iteration, &l.wasserstein, &l.critic, &l.penalty,
                    &l.norm_mean, &l.norm_spread, &l.generator) != 7)
      break;
    losses.push_back(l);
  }
  if (static_cast<int64_t>(losses.size()) != iterations)
    fail("losses", path, ": expected ", iterations, " iterations as in the checkpoint beside it, got ", losses.size(),
         "; --overwrite begins anew");
  return losses;
}

// One run: its compiled programs, its state, its directory.
class Run {
 public:
  Run(const Model& model, Device& device, const Dataset& data, const TrainOptions& options, const Observer& observer)
      : model_(model), device_(device), data_(data), options_(options), observer_(observer), state_(model.initial_state()) {
    check_data();
    open_directory();
    critic_ = compile(model.critic_step());
    generator_ = compile(model.generator_step());
    generate_ = compile(model.generate(model.config().batch));
    make_directory();
  }

  TrainResult go() {
    result_.resumed_at = done_;
    observer_.begin(done_);
    auto last_save = std::chrono::steady_clock::now();
    while (done_ < options_.iterations && !result_.interrupted) {
      iterate();
      result_.interrupted = observer_.interrupted();
      const auto now = std::chrono::steady_clock::now();
      if (std::chrono::duration<double>(now - last_save).count() >= options_.checkpoint_seconds) save(), last_save = now;
    }
    save();
    if (!result_.interrupted) evaluate();
    result_.iterations = done_;
    result_.parameters_sha256 = sha256_of(state_, model_.parameter_names());
    if (done_ > result_.resumed_at || device_.name() == "tpu") result_.critic_cost = critic_.executable->cost();
    return std::move(result_);
  }

 private:
  std::string path(const char* file) const { return (fs::path(options_.out) / file).string(); }

  void check_data() const {
    int64_t wanted = element_count(model_.networks().sample_shape), got = element_count(data_.sample_shape);
    if (wanted != got)
      fail("wgan-gp", "the model makes samples ", model_.networks().sample_shape, ", data set ", data_.name, " has ", data_.sample_shape);
    if (data_.sample_count > 0 && data_.sample_count < model_.config().batch)
      fail("wgan-gp", "a batch of ", model_.config().batch, " is more than the ", data_.sample_count, " samples of ", data_.name);
  }

  void open_directory() {
    if (options_.out.empty()) return;
    if (fs::exists(options_.out) && !fs::is_directory(options_.out))
      fail("train", options_.out, ": expected a directory for --out, got a file");
    const bool exists = fs::exists(path("checkpoint.safetensors"));
    if (exists && !options_.resume && !options_.overwrite)
      fail("train", options_.out, " holds a run already: pass --resume to go on with it, or --overwrite to begin anew");
    if (!exists || !options_.resume) return;
    Checkpoint checkpoint = load_checkpoint(path("checkpoint.safetensors"));
    if (checkpoint.recipe != recipe_of(model_, options_))
      fail("train", "the checkpoint in ", options_.out, " was made by \"", checkpoint.recipe, "\", this is \"",
           recipe_of(model_, options_), '"');
    result_.losses = read_losses(path("losses.csv"), checkpoint.iteration);
    done_ = checkpoint.iteration;
    saved_ = true;
    state_ = std::move(checkpoint.state);
    observer_.note(concat("resumed at iteration ", done_, " from ", path("checkpoint.safetensors")));
  }

  // Once nothing else can be wrong with the request, and before the time is spent.
  void make_directory() const {
    if (options_.out.empty()) return;
    std::error_code error;
    fs::create_directories(options_.out, error);
    if (error) fail("train", options_.out, ": cannot make the directory: ", error.message());
  }

  struct Compiled {
    Program program;
    std::unique_ptr<Executable> executable;
  };

  Compiled compile(const Program& program) {
    ++result_.compiled_programs;
    Program changed = program;
    override_precision(changed, options_.precisions);
    Program optimized = optimize(changed, options_.passes);
    auto executable = device_.compile(optimized, options_.compile);
    return {std::move(optimized), std::move(executable)};
  }

  // `when` is put into words only for an error.
  template <class When>
  std::vector<Array> run(const Compiled& compiled, std::span<const Array> inputs, When&& when) {
    if (!options_.check_finite) return compiled.executable->run(inputs, state_);
    StateStore before;  // the run writes in place
    for (const auto& [name, array] : state_.arrays()) before.set(name, array.clone());
    std::vector<Array> outputs = compiled.executable->run(inputs, state_);
    bool finite = std::all_of(outputs.begin(), outputs.end(), all_finite);
    for (const Program::State& s : compiled.program.states) finite = finite && (!s.write || all_finite(state_.at(s.name)));
    if (finite) return outputs;
    const auto found = find_nonfinite(device_, compiled.program, inputs, before, options_.compile);
    throw RunError(concat("[train] ", when(), ": ", found ? found->text : "a result is not finite, and was when computed again", kept()));
  }

  std::string kept() const { return saved_ ? "; the last checkpoint is kept in " + options_.out : ""; }

  Array draw(uint32_t which) const { return Array::scalar(which); }

  void iterate() {
    const Config& c = model_.config();
    Losses l;
    l.iteration = done_ + 1;
    for (int64_t k = 0; k < options_.critic_steps; ++k) {
      const int64_t step = done_ * options_.critic_steps + k;
      const Array which = draw(static_cast<uint32_t>(step));
      const auto when = [&] { return concat("iteration ", l.iteration, ", critic step ", k + 1); };
      const Array fake = run(generate_, std::span(&which, 1), when)[0];
      const Array inputs[] = {data_.batch(c.batch, c.seed, static_cast<uint64_t>(step)).reshaped(fake.shape()), fake};
      const std::vector<Array> out = run(critic_, inputs, when);
      l.wasserstein = out[0].item(), l.critic = out[1].item();
      if (c.penalty != Penalty::none) l.penalty = out[2].item(), l.norm_mean = out[3].item(), l.norm_spread = out[4].item();
    }
    l.generator = run(generator_, {}, [&] { return concat("iteration ", l.iteration, ", generator step"); })[0].item();
    if (!std::isfinite(l.critic) || !std::isfinite(l.generator))
      throw RunError(concat("[train] the loss is not finite at iteration ", l.iteration, " (critic ", l.critic, ", generator ",
                            l.generator, "; --check-finite finds the operation)", kept()));
    ++done_;
    result_.losses.push_back(l);
    observer_.iteration(l);
  }

  // Losses first: a checkpoint never is ahead of them.
  void save() {
    if (options_.out.empty()) return;
    // A run that begins anew: its losses must not stand beside the old run's checkpoint.
    if (!saved_) fs::remove(path("checkpoint.safetensors"));
    write_losses(path("losses.csv"), result_.losses);
    save_checkpoint(path("checkpoint.safetensors"), {done_, recipe_of(model_, options_), state_});
    saved_ = true;
  }

  // Through the batch-sized program, so that evaluating compiles nothing new.
  Array samples(int64_t count) {
    const int64_t batch = model_.config().batch, each = element_count(model_.networks().sample_shape);
    Shape shape{count};
    for (int64_t d : model_.networks().sample_shape) shape.push_back(d);
    Array all(DType::f32, shape);
    for (int64_t first = 0, k = 0; first < count; first += batch, ++k) {
      const Array which = draw(evaluation_draw - static_cast<uint32_t>(k));
      const Array some = generate_.executable->run(std::span(&which, 1), state_)[0];
      const int64_t taken = std::min(batch, count - first);
      std::copy_n(some.data<float>(), taken * each, all.data<float>() + first * each);
    }
    return all;
  }

  void evaluate() {
    if (is_toy(model_.config().data)) {
      const Array fake = samples(score_samples), real = data_.batch(score_samples, model_.config().seed, ~uint64_t{0});
      result_.score = ToyScore{sliced_wasserstein(fake, real), {}};
      if (const auto centres = mode_centres(data_.name); !centres.empty()) result_.score->modes = mode_coverage(fake, centres);
    }
    if (options_.out.empty()) return;
    for (const char* file : {"checkpoint.safetensors", "losses.csv"}) result_.written.push_back(path(file));
    if (is_toy(model_.config().data)) {
      const Array points = plot_grid();
      const Array values = compile(model_.criticize(points.shape()[0])).executable->run(std::span(&points, 1), state_)[0];
      const Array real = data_.batch(plotted_points, model_.config().seed, ~uint64_t{0});
      write_png(path("critic.png"), contour_plot(values, real, samples(plotted_points)));
      result_.written.push_back(path("critic.png"));
    } else {
      const Shape& s = model_.networks().sample_shape;
      write_png(path("samples.png"), image_grid(samples(grid_images).reshaped({grid_images, s[0], s[1]}), grid_columns, 2));
      result_.written.push_back(path("samples.png"));
    }
  }

  const Model& model_;
  Device& device_;
  const Dataset& data_;
  const TrainOptions& options_;
  const Observer& observer_;
  StateStore state_;
  TrainResult result_;
  Compiled critic_, generator_, generate_;
  int64_t done_ = 0;
  bool saved_ = false;  // there is a checkpoint of this run
};

}  // namespace

TrainResult train(const Model& model, Device& device, const Dataset& data, const TrainOptions& options, const Observer& observer) {
  if (options.iterations < 0 || options.critic_steps < 1)
    fail("train", "expected at least 0 iterations and 1 critic step, got ", options.iterations, " and ", options.critic_steps);
  return Run(model, device, data, options, observer).go();
}

}  // namespace backbeat::wgan_gp
