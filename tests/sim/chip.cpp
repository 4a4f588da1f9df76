#include "sim/chip.hpp"

#include <doctest/doctest.h>

#include <functional>

#include "engine/error.hpp"
#include "sim/presets.hpp"

using namespace backbeat;

namespace {
std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}
std::string page_with(const std::string& from, const std::string& to) {
  for (const sim::Preset& preset : sim::presets) {
    std::string text = preset.text;
    if (std::string(preset.name) != "tpu-v3") continue;
    const size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    return text.replace(at, from.size(), to);
  }
  return "";
}
}  // namespace

TEST_CASE("chips: peaks follow from the description") {
  const sim::Chip v3 = sim::load_chip("tpu-v3");
  CHECK(v3.peak_flops() == doctest::Approx(123.2e12 / 2).epsilon(0.001));  // half of the published chip
  CHECK(v3.hbm.bytes == int64_t{16} << 30);
  CHECK(v3.hbm.bandwidth == 450e9);
  CHECK(v3.cycles(1e-6) == 940);
  const sim::Chip edu = sim::load_chip("edu-8x8");
  CHECK(edu.peak_flops() == 2 * 64 * 100e6);
  CHECK(edu.hbm_bytes_per_cycle() == 32);
}

TEST_CASE("chips: every number has a source or is an estimate with a range, and is shown so") {
  for (const std::string& name : sim::chip_names()) {
    const sim::Chip chip = sim::load_chip(name);
    const std::string page = sim::describe(chip), json = sim::describe_json(chip);
    for (const sim::ChipField& field : sim::chip_fields()) {
      CAPTURE(field.key);
      const sim::Chip::Source& source = chip.sources.at(field.key);
      CHECK((source.estimate || !source.note.empty()));
      CHECK(json.find(std::string("\"") + field.key + "\"") != std::string::npos);
    }
    CHECK(page.find("ridge") != std::string::npos);
  }
  CHECK(sim::describe(sim::load_chip("tpu-v3")).find("estimate, from 1 to 8") != std::string::npos);
}

TEST_CASE("chips: a broken page gets one line with file, line and key") {
  struct Row {
    const char *from, *to, *expected;
  };
  const Row rows[] = {
      {"\nrows = 128", "\nrows = 0", "mxu.rows must be at least 1, got 0"},
      {"\nrows = 128", "\nrows = 12.5", "mxu.rows must be a whole number, got 12.5"},
      {"\nrows = 128", "\nrwos = 128", "unknown key mxu.rwos, did you mean mxu.rows?"},
      {"[xlu]", "[xlv]", "unknown key xlv"},
      {"[xlu]", "[}xlu]", ""},
      {"\nrows = 128", "\n", "1: mxu.rows is missing (rows of an array: the contraction it holds)"},
      {"\"450 GB/s\"", "\"450 GiB\"", "hbm.bandwidth must be a rate such as \"450 GB/s\", got \"450 GiB\""},
      {"\"450 GB/s\"", "[450]", "hbm.bandwidth must be a rate such as \"450 GB/s\""},
      {"double_buffered = true", "double_buffered = 1", "mxu.double_buffered must be true or false"},
      {"range = [1, 8]", "range = [5, 8]", "mxu.latch_rows_per_cycle: the estimate 4 lies outside its range [5, 8]"},
      {", range = [1, 8]", "", "mxu.latch_rows_per_cycle: an estimate needs range = [low, high]"},
      {"\"16 MiB\"", "\"16 KiB\"", "vmem.bytes must hold at least 16 vector registers"},
      {"name = \"tpu-v3\"", "name = \"tpu-v3", ""},
      {"name = \"tpu-v3\"", "", "1: name is missing"},
  };
  for (const Row& row : rows) {
    const std::string message = message_of([&] { sim::parse_chip(page_with(row.from, row.to), "x.toml"); });
    CAPTURE(message);
    // The line of the change; what is missing has none and is reported at the first.
    const std::string page = page_with(row.from, row.to);
    std::string expected = row.expected;
    if (expected.rfind("1: ", 0) != 0) {
      size_t line = 1, at = page_with("", "").find(row.from) + (row.from[0] == '\n');
      for (size_t i = 0; i < at; ++i) line += page[i] == '\n';
      expected = std::to_string(line) + ": " + expected;
    }
    CAPTURE(expected);
    CHECK(message.rfind("x.toml:" + expected, 0) == 0);
    CHECK(message.find('\n') == std::string::npos);
  }
  CHECK(message_of([] { sim::load_chip("tpu-v33"); }).find("did you mean tpu-v3?") != std::string::npos);
  CHECK(message_of([] { sim::load_chip("/nowhere/x.toml"); }) == "/nowhere/x.toml: cannot be read");
}

TEST_CASE("chip: an error stays on one line whatever the page's strings hold") {
  try {
    sim::parse_chip("name = \"x\"\nclock = \"47\\n kHz\"\n", "x.toml");
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find('\n') == std::string::npos);
    CHECK(std::string(error.what()).rfind("x.toml:2: clock", 0) == 0);
  }
}

TEST_CASE("chips: --set") {
  sim::Chip chip = sim::load_chip("tpu-v3");
  sim::set(chip, "mxu.rows=64");
  sim::set(chip, "hbm.bandwidth=900 GB/s");
  sim::set(chip, "mxu.double_buffered=false");
  CHECK(chip.mxu.rows == 64);
  CHECK(chip.hbm.bandwidth == 900e9);
  CHECK(!chip.mxu.double_buffered);
  CHECK(message_of([&] { sim::set(chip, "mxu.rows=0"); }) == "--set mxu.rows=0: mxu.rows must be at least 1, got 0");
  CHECK(message_of([&] { sim::set(chip, "rows=3"); }) == "--set rows=3: unknown key rows, did you mean mxu.rows?");
  CHECK(message_of([&] { sim::set(chip, "mxu.rows"); }) == "--set mxu.rows: expected KEY=VALUE, such as mxu.rows=64");
  CHECK(chip.mxu.rows == 64);
}
