// What a person types wrong, and what the program answers: one line, exit 2, nothing written.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "autodiff/grad.hpp"
#include "cli/cli.hpp"
#include "engine/ops.hpp"

using namespace backbeat;

namespace {

struct Answer {
  int status;
  std::string out, err;
};

// Runs the command line in this process, with both streams caught.
Answer backbeat_says(const std::vector<std::string>& words) {
  std::vector<const char*> argv{"backbeat"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  std::ostringstream out, err;
  std::streambuf* const old_out = std::cout.rdbuf(out.rdbuf());
  std::streambuf* const old_err = std::cerr.rdbuf(err.rdbuf());
  const int status = cli::run(static_cast<int>(argv.size()), argv.data());
  std::cout.rdbuf(old_out);
  std::cerr.rdbuf(old_err);
  return {status, out.str(), err.str()};
}

std::filesystem::path scratch() {
  return std::filesystem::temp_directory_path() / ("backbeat-requests-" + std::to_string(::getpid()));
}

std::string file(const std::string& name, const std::string& text) {
  std::filesystem::create_directories(scratch());
  const std::string path = (scratch() / name).string();
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

// Models with the mistakes that a person makes, registered as a user's own would be.
void register_mistaken_models() {
  static const bool once = [] {
    const auto add = [](const char* name, void (*step)(Recorder&)) {
      register_model({name, {"critic"},
                      [step](const ModelOptions&, const std::string&) {
                        return std::vector<std::pair<Program, int64_t>>{{record("step", step), 1}};
                      },
                      [](const ModelOptions&) { return StateStore(); }, [](const ModelOptions&) { return int64_t{3}; }});
    };
    add("detached", [](Recorder& r) {
      const Tensor w = r.state("w", DType::f32, {2}), x = r.input("x", DType::f32, {3, 2});
      const Tensor slope = stop_gradient(grad(sum(x * w), x));
      r.output("g", grad(mean(square(norm(slope, {1}) - 1.0)), w));
    });
    add("outside", [](Recorder& r) {
      const Tensor w = r.state("w", DType::f32, {2});
      static Program other;
      other = record("other", [](Recorder& inner) {
        const Tensor x = inner.input("x", DType::f32, {3, 2});
        inner.output("slope", grad(sum(square(x)), x));
      });
      const Tensor slope(other.tape, other.outputs[0].node);
      r.output("g", grad(mean(square(norm(slope, {1}) - 1.0)) * sum(w), w));
    });
    add("unused", [](Recorder& r) {
      const Tensor w = r.state("w", DType::f32, {2}), x = r.input("x", DType::f32, {3, 2});
      r.output("g", grad(sum(x), w));
    });
    add("vector", [](Recorder& r) {
      const Tensor x = r.input("x", DType::f32, {3, 2});
      r.output("g", grad(square(x), x));
    });
    return true;
  }();
  (void)once;
}

}  // namespace

TEST_CASE("cli: a wrong request gets one line and exit 2") {
  register_mistaken_models();
  const std::string out = (scratch() / "run").string();
  const std::string truncated = (scratch() / "images").string();
  std::filesystem::create_directories(truncated);
  std::ofstream(truncated + "/train-images-idx3-ubyte", std::ios::binary) << std::string("\0\0\x08\x03\0\0\0\x05\0\0\0\x1c\0\0\0\x1c!", 17);
  std::ofstream(truncated + "/train-labels-idx1-ubyte", std::ios::binary) << std::string("\0\0\x08\x01\0\0\0\x05" "abcde", 13);

  struct Row {
    std::vector<std::string> words;
    const char* says;
  };
  const Row rows[] = {
      {{"anatomy", "detached"}, "[grad] y"},
      {{"anatomy", "outside"}, "two tapes"},
      {{"anatomy", "unused"}, "does not depend on x number 0"},
      {{"anatomy", "vector"}, "[grad] y is f32[3,2]: expected a scalar, or a cotangent"},
      {{"anatomy", "wgan-gp", "--batch", "1000000", "--timing-only"}, "does not fit"},
      {{"anatomy", "wgan-gp", "--frobnicate"}, "--frobnicate"},
      {{"anatomy", "wgan-pg"}, "unknown model 'wgan-pg', expected one of wgan-gp"},
      {{"anatomy", "wgan-gp", "--step", "x"}, "unknown step 'x'"},
      {{"anatomy", "wgan-gp", "--chip", "tpu-v33"}, "tpu-v33"},
      {{"anatomy", "wgan-gp", "--chip", file("broken.toml", "name = \"x\"\n[mxu]\nrows = 0\n")}, "broken.toml:3"},
      {{"anatomy", "wgan-gp", "--set", "mxu.rowz=3"}, "mxu.rowz"},
      {{"anatomy", "wgan-gp", "--device", "gpu"}, "unknown device 'gpu'"},
      {{"anatomy", "wgan-gp", "--device", "cpu", "--chip", "tpu-v3"}, "--chip"},
      {{"anatomy", "wgan-gp", "--device", "cpu", "--timing-only"}, "--timing-only"},
      {{"anatomy", "wgan-gp", "--precision", "double"}, "unknown precision 'double'"},
      {{"anatomy", "wgan-gp", "--data", "8gausians"}, "unknown data set '8gausians'"},
      {{"anatomy", "wgan-gp", "--batch", ""}, "is empty"},
      {{"anatomy", "wgan-gp", "--set", "hbm.bandwidth=900"}, "450 GB/s"},
      {{"anatomy", "wgan-gp", "--chip", "/tmp"}, "this is a directory"},
      {{"anatomy", "wgan-gp", "--device", "cpu", "--precision", "high"}, "has one precision"},
      {{"anatomy", "wgan-gp", "--precision-of", "order:2"}, "expected SCOPE=NAME"},
      {{"anatomy", "wgan-gp", "--precision-of", "decoder=high"}, "no product has that scope and order"},
      {{"anatomy", "wgan-gp", "--device", "cpu", "--precision-of", "critic=high"}, "has one precision"},
      {{"train", "wgan-gp", "--precision-of", "critic=high", "--data", "8gaussians", "--out", out}, "has one precision"},
      {{"anatomy", "wgan-gp", "--tape", "/tmp"}, "[tape] /tmp: expected a file"},
      {{"anatomy", "wgan-gp", "--tape", "/nowhere/step.dot"}, "[tape] /nowhere/step.dot: there is no folder /nowhere"},
      {{"anatomy", "wgan-gp", "--json", "/nowhere/step.json"}, "[json] /nowhere/step.json: there is no folder /nowhere"},
      {{"anatomy", "wgan-gp", "--passes", "dce,xyz"}, "unknown pass 'xyz'"},
      {{"train", "wgan-gp", "--penalty", "three-sided", "--out", out}, "unknown penalty 'three-sided'"},
      {{"train", "wgan-gp", "--data", truncated, "--out", out}, "train-images-idx3-ubyte"},
      {{"train", "wgan-gp", "--data", "9gaussians", "--out", out}, "9gaussians"},
      {{"train", "wgan-gp", "--data", "8gaussians", "--batch", "-1", "--out", out}, "expected at least 1, got '-1'"},
      {{"train", "wgan-gp", "--data", "8gaussians", "--steps", "x", "--out", out}, "--steps"},
      {{"train", "wgan-gp", "--data", "8gaussians", "--optimizer", "adam", "--clip", "1", "--out", out}, "adam has no --clip"},
      {{"train", "wgan-gp", "--data", "8gaussians", "--seed", "-1", "--out", out}, "--seed"},
      {{"train", "wgan-gp", "--data", "8gaussians", "--threads", "100000", "--out", out}, "expected 1 to 1024, got 100000"},
      {{"train", "wgan-gp", "--data", "8gaussians", "--critic-steps", "0", "--out", out}, "expected at least 1, got '0'"},
      {{"train", "wgan-gp", "--data", "8gaussians", "--json", "/", "--out", out}, "expected a file"},
      {{"train", "wgan-gp", "--data", "8gaussians", "--out", "/dev/null"}, "expected a directory"},
      {{"train", "wgan-gp", "--data", "8gaussians", "--batch", "100000000", "--chip", "tpu-v3", "--out", out}, "does not fit"},
      {{"anatomy", "wgan-gp", "--batch", "9000000000000000000"}, "at most 4294967296"},
      {{"train", "wgan-gp", "--resume"}, "--resume needs --out"},
      {{"train"}, "model is required"},
      {{"fly"}, "unknown verb 'fly', expected train, anatomy, chips or devices"},
      {{"chips", "nope"}, "nope"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.words.back());
    const Answer answer = backbeat_says(row.words);
    CHECK(answer.status == 2);
    CHECK(answer.out == "");
    CHECK_MESSAGE(answer.err.find(row.says) != std::string::npos, answer.err);
    CHECK(std::count(answer.err.begin(), answer.err.end(), '\n') == 1);
    CHECK(!std::filesystem::exists(out));
  }
  std::filesystem::remove_all(scratch());
}

TEST_CASE("cli: the tape of a step, as text and as a graph; precision of some products") {
  const std::string graph = (scratch() / "step.dot").string();
  std::filesystem::create_directories(scratch());
  const std::vector<std::string> small{"anatomy", "wgan-gp", "--data", "8gaussians", "--batch", "8", "--timing-only"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), small.begin(), small.end());
    return backbeat_says(more);
  };
  const Answer drawn = with({"--tape", graph}), printed = with({"--tape", "-", "--precision-of", "order:2=highest"});
  CHECK(drawn.out.find("wrote " + graph + "; draw it with dot -Tsvg") != std::string::npos);
  std::ifstream in(graph);
  std::string first;
  std::getline(in, first);
  CHECK(first == "digraph \"critic_step\" {");
  CHECK(printed.out.find(" highest   # second_backward, ") != std::string::npos);
  CHECK(printed.out.find("default and highest precision") != std::string::npos);
  std::filesystem::remove_all(scratch());
}

TEST_CASE("cli: a training run that blows up says where, and exits 1") {
  const std::vector<std::string> run{"train", "wgan-gp", "--data", "8gaussians", "--batch", "8", "--steps", "20", "--optimizer", "sgd", "--rate", "1e6"};
  const Answer plain = backbeat_says(run);
  CHECK(plain.status == 1);
  CHECK(plain.err.find("the loss is not finite at iteration 1 ") != std::string::npos);
  std::vector<std::string> looking = run;
  looking.push_back("--check-finite");
  const Answer found = backbeat_says(looking);
  CHECK(found.status == 1);
  CHECK(found.err.find("[train] iteration 1, critic step 2: ") != std::string::npos);
  CHECK(found.err.find(" of finite operands (node ") != std::string::npos);
  CHECK(found.err.find("loss.cpp:") != std::string::npos);
}

TEST_CASE("cli: help, lists and a chip explained") {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"--help"}, {"train", "--help"}, {"anatomy", "--help"}, {"chips"}, {"chips", "tpu-v3"}, {"chips", "edu-8x8", "--json", "-"}, {"devices"}}) {
    const Answer answer = backbeat_says(words);
    CAPTURE(words.back());
    CHECK(answer.status == 0);
  }
}
