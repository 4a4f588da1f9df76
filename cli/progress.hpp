// A progress bar with rate and time left: redrawn in place on a terminal, a line now and then elsewhere.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>

namespace backbeat::cli {

class Progress {
 public:
  Progress(int64_t done, int64_t total);
  void show(int64_t done, const std::string& text);  // text: what is worth watching, for example losses
  void finish();                                     // leaves the last state on its own line

 private:
  std::string line(int64_t done, const std::string& text) const;

  int64_t first_, total_;
  bool terminal_, drawn_ = false;
  std::chrono::steady_clock::time_point start_, last_;
};

}  // namespace backbeat::cli
