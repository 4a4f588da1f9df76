#include "cli/progress.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace backbeat::cli {

namespace {

double seconds_between(std::chrono::steady_clock::time_point a, std::chrono::steady_clock::time_point b) {
  return std::chrono::duration<double>(b - a).count();
}

std::string clock(double seconds) {
  const auto s = static_cast<long>(std::lround(seconds));
  char text[32];
  if (s >= 3600) std::snprintf(text, sizeof text, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
  else std::snprintf(text, sizeof text, "%ld:%02ld", s / 60, s % 60);
  return text;
}

size_t terminal_width() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 100;
}

}  // namespace

Progress::Progress(int64_t done, int64_t total)
    : first_(done), total_(total), terminal_(isatty(STDERR_FILENO)), start_(std::chrono::steady_clock::now()) {}

std::string Progress::line(int64_t done, const std::string& text) const {
  const double elapsed = seconds_between(start_, std::chrono::steady_clock::now());
  const double rate = elapsed > 0 ? static_cast<double>(done - first_) / elapsed : 0;
  const auto filled = static_cast<size_t>(total_ > 0 ? 20 * done / total_ : 20);
  char numbers[96];
  std::snprintf(numbers, sizeof numbers, "] %ld/%ld  %.3g it/s  %s left", static_cast<long>(done), static_cast<long>(total_), rate,
                rate > 0 ? clock(static_cast<double>(total_ - done) / rate).c_str() : "?");
  return "[" + std::string(filled, '#') + std::string(20 - filled, '.') + numbers + "  " + text;
}

void Progress::show(int64_t done, const std::string& text) {
  const auto now = std::chrono::steady_clock::now();
  const bool last = done >= total_;
  if (drawn_ && !last && seconds_between(last_, now) < (terminal_ ? 0.1 : 5)) return;
  drawn_ = true, last_ = now;
  std::string out = line(done, text);
  if (terminal_) std::fprintf(stderr, "\r\033[K%s", out.substr(0, std::max<size_t>(terminal_width(), 2) - 1).c_str());
  else std::fprintf(stderr, "%s\n", out.c_str());
  std::fflush(stderr);
}

void Progress::finish() {
  if (terminal_ && drawn_) std::fputc('\n', stderr);
}

}  // namespace backbeat::cli
