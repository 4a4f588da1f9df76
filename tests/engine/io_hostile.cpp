// Hostile files: small valid ones of every format, cut off at each length and with each bit flipped. Each is an answer or
// one Error of one line; never a crash, a hang, another exception or an allocation out of proportion.
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <new>

#include "engine/io/file.hpp"
#include "engine/io/idx.hpp"
#include "engine/io/image.hpp"
#include "engine/io/npy.hpp"
#include "engine/io/npz.hpp"
#include "engine/io/safetensors.hpp"
#include "models/checkpoint.hpp"
#include "models/data/labelled_images.hpp"
#include "sim/chip.hpp"
#include "tests/engine/io.hpp"
#include "tests/memory_file.hpp"

using namespace backbeat;

namespace {

constexpr int64_t largest_growth = 48 << 20;  // bytes: the files are a few kilobytes at most, and DEFLATE gains 1032 times
constexpr unsigned longest_reading = 10;      // seconds

// What the child process that reads leaves for its parent, whatever becomes of it.
struct Outcome {
  int64_t changes, answered, answered_cuts;
  char at[64];      // the change it is at
  char wrong[400];  // the first one that was neither
  int64_t largest;  // bytes of one allocation, where the address sanitizer counts them
};
Outcome* outcome = nullptr;

template <class Read>
void read_changed(MemoryFile& file, const Bytes& bytes, Read&& read) {
  std::string wrong;
  ::alarm(longest_reading);
  ++outcome->changes;
  try {
    read(file.holding(bytes));
    ++outcome->answered;
  } catch (const Error& error) {
    const std::string text = error.what();
    if (text.empty() || text.find('\n') != std::string::npos) wrong = "not one line: " + text;
  } catch (const std::exception& error) {
    wrong = std::string("not an Error: ") + error.what();
  }
  if (!wrong.empty() && outcome->wrong[0] == '\0')
    std::snprintf(outcome->wrong, sizeof outcome->wrong, "%s: %s", outcome->at, wrong.c_str());
}

template <class Read>
void read_all_changes(const Bytes& whole, Read&& read) {
  MemoryFile file;
  const auto at = [](const char* what, size_t position) {
    std::snprintf(outcome->at, sizeof outcome->at, "%s %zu", what, position);
  };
  for (size_t count = 0; count < whole.size(); ++count) {
    at("cut off at byte", count);
    read_changed(file, first(whole, count), read);
  }
  outcome->answered_cuts = outcome->answered;
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    at("flipped bit", bit);
    Bytes changed = whole;
    changed[bit / 8] = static_cast<uint8_t>(changed[bit / 8] ^ (1 << bit % 8));
    read_changed(file, changed, read);
  }
}

void limit_memory() {
#ifndef __SANITIZE_ADDRESS__
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit limit{};
  limit.rlim_cur = limit.rlim_max = static_cast<rlim_t>(pages * ::getpagesize() + largest_growth);
  if (::setrlimit(RLIMIT_AS, &limit) != 0) ::_exit(3);
#endif
}

// In a child of its own, so that a crash is a finding and not the end of the tests.
// `answered_cuts`: the lengths at which the file, cut off, is a shorter file of its format.
template <class Read>
void survives(const std::string& name, const Bytes& whole, int64_t answered_cuts, Read&& read) {
  CAPTURE(name);
  void* shared = ::mmap(nullptr, sizeof(Outcome), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(shared != MAP_FAILED);
  outcome = new (shared) Outcome{};
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    for (int signal : {SIGABRT, SIGSEGV, SIGFPE, SIGILL}) ::signal(signal, SIG_DFL);  // the parent reports
    limit_memory();
    read_all_changes(whole, read);
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  const Outcome seen = *outcome;
  outcome = nullptr;
  ::munmap(shared, sizeof(Outcome));
  CHECK_MESSAGE(status == 0, "the reader died with status ", status, ", ", seen.at);
  CHECK(std::string(seen.wrong) == "");
  CHECK(seen.largest <= largest_growth);
  CHECK(seen.changes == static_cast<int64_t>(9 * whole.size()));
  CHECK(seen.answered_cuts == answered_cuts);
}

template <class Read>
void survives_made(const std::string& name, Read&& read, int64_t answered_cuts = 0) {
  const std::string path = made(name);
  REQUIRE_NOTHROW(read(path));
  survives(name, read_file("test", path), answered_cuts, read);
}

}  // namespace

#ifdef __SANITIZE_ADDRESS__
extern "C" void __sanitizer_malloc_hook(const volatile void*, size_t size) {
  if (outcome != nullptr && static_cast<int64_t>(size) > outcome->largest) outcome->largest = static_cast<int64_t>(size);
}
#endif

TEST_CASE("hostile files: arrays") {
  for (const char* name : {"npy/f4.npy", "npy/fortran.npy", "npy/b1.npy", "npy/version_2.npy"})
    survives_made(name, read_npy);
  for (const char* name : {"npz/stored.npz", "npz/deflated.npz"}) survives_made(name, read_npz);
  for (const char* name : {"idx/u8.idx", "idx/f64.idx", "idx/u8.idx.gz"}) survives_made(name, read_idx);
  survives_made("safetensors/every.safetensors", read_safetensors);
  survives_made("checkpoint/small.safetensors", load_checkpoint);
}

TEST_CASE("hostile files: pictures and digits") {
  for (const char* name : {"l.png", "rgba.png", "one_bit.png", "palette.png", "interlaced.png", "grey.jpg", "rgb.jpg",
                           "progressive.jpg"})
    survives_made(concat("image/", name), read_image);
  survives_made("digits/two.csv.gz", read_digits);
  survives_made("digits/two.csv", read_digits, 3);  // after either line, and before the last line feed
}

TEST_CASE("hostile files: CIFAR-10, whose pixels may be anything") {
  const Bytes whole = read_file("test", made("cifar10/one.bin"));
  MemoryFile file;
  for (size_t count = 0; count < whole.size(); ++count)
    CHECK(contains(error_of([&] { read_cifar10(file.holding(first(whole, count))); }), "records of 3073 bytes, got "));
  for (int bit = 0; bit < 8; ++bit) {
    Bytes changed = whole;
    changed[0] = static_cast<uint8_t>(changed[0] ^ (1 << bit));
    const bool label = changed[0] < 10;
    CHECK((error_of([&] { read_cifar10(file.holding(changed)); }) == "no error") == label);
  }
}

TEST_CASE("hostile files: a chip's page") {
  std::ifstream page(std::string(std::getenv("BACKBEAT_TEST_DATA")) + "/../../sim/chips/edu-8x8.toml");
  std::string text, line;
  while (std::getline(page, line)) {  // without its comments, which would only take time
    line = line.substr(0, line.find('#'));
    text += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
  }
  const Bytes whole(text.begin(), text.end());
  MemoryFile file;
  REQUIRE(sim::load_chip(file.holding(whole)).mxu.rows == 8);
  survives("chip", whole, 2, sim::load_chip);  // before the last line feed, and before the last digit of its number
}
