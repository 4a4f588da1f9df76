// The program itself, killed while it trains.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

namespace {

namespace fs = std::filesystem;

pid_t start(const std::vector<std::string>& words) {
  const char* program = std::getenv("BACKBEAT_PROGRAM");
  REQUIRE_MESSAGE(program != nullptr, "BACKBEAT_PROGRAM must name the program");
  std::vector<char*> argv{const_cast<char*>(program)};
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    const int null = open("/dev/null", O_WRONLY);
    dup2(null, 1), dup2(null, 2);
    execv(program, argv.data());
    _exit(127);
  }
  return child;
}

int finish(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string hash_of(const fs::path& json) {
  std::ifstream in(json);
  return nlohmann::json::parse(in)["parameters_sha256"];
}

}  // namespace

TEST_CASE("train: killed at ten random moments and resumed equals an undisturbed run") {
  for (const std::string device : {"cpu", "tpu"}) {
    CAPTURE(device);
    const fs::path folder = fs::temp_directory_path() / ("backbeat-kill-" + device + std::to_string(getpid()));
    fs::remove_all(folder);
    fs::create_directories(folder);
    std::vector<std::string> words{"train", "wgan-gp", "--data", "8gaussians", "--batch", "16", "--steps", "60", "--device", device,
                                   "--checkpoint-seconds", "0.01"};
    const auto with = [&](std::vector<std::string> more) {
      std::vector<std::string> all = words;
      all.insert(all.end(), more.begin(), more.end());
      return all;
    };
    const fs::path whole = folder / "whole.json", pieces = folder / "pieces.json";
    const auto begin = std::chrono::steady_clock::now();
    REQUIRE(finish(start(with({"--json", whole.string()}))) == 0);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();

    std::mt19937 random(7);  // moments over the length of a whole run, some of them before the first checkpoint
    int killed = 0;
    for (int i = 0; i < 10; ++i) {
      const pid_t child = start(with({"--out", (folder / "run").string(), "--resume", "--json", pieces.string()}));
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds * 0.15 * std::uniform_real_distribution<>(0.1, 1.0)(random)));
      kill(child, SIGKILL);
      killed += finish(child) == -1;
    }
    CHECK(killed >= 5);
    CHECK(finish(start(with({"--out", (folder / "run").string(), "--resume", "--json", pieces.string()}))) == 0);
    CHECK(hash_of(pieces) == hash_of(whole));
    fs::remove_all(folder);
  }
}

TEST_CASE("train: an interrupt keeps what was done and exits 130") {
  const fs::path folder = fs::temp_directory_path() / ("backbeat-interrupt-" + std::to_string(getpid()));
  fs::remove_all(folder);
  const pid_t child = start({"train", "wgan-gp", "--data", "8gaussians", "--batch", "16", "--steps", "1000000", "--out", folder.string(),
                             "--checkpoint-seconds", "0.01"});
  for (int i = 0; i < 400 && !fs::exists(folder / "checkpoint.safetensors"); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  kill(child, SIGINT);
  CHECK(finish(child) == 130);
  CHECK(fs::exists(folder / "checkpoint.safetensors"));
  fs::remove_all(folder);
}
