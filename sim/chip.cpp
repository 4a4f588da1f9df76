#include "sim/chip.hpp"

// Version 3.3 asserts what its next lines report as an error of the page: "[}" would end a build that has assertions.
#define TOML_ASSERT(condition) static_assert(true)
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>
#include <variant>

#include "engine/error.hpp"
#include "sim/presets.hpp"

namespace backbeat::sim {

namespace {

// A page's own strings, which an error repeats, may hold line breaks.
std::string on_one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}


using Place = std::variant<int64_t& (*)(Chip&), double& (*)(Chip&), bool& (*)(Chip&)>;
struct Row {
  ChipField field;
  Place place;
};
using F = ChipField;
constexpr double huge = 1e18;

#define BACKBEAT_PLACE(type, member)           \
  Place {                                      \
    +[](Chip& c) -> type& { return c.member; } \
  }
const std::vector<Row>& rows() {
  static const std::vector<Row> table = {
      {{"clock", F::frequency, 1, 1e12, "cycles a second"}, BACKBEAT_PLACE(double, clock_hz)},
      {{"mxu.count", F::count, 1, 64, "matrix units"}, BACKBEAT_PLACE(int64_t, mxu.count)},
      {{"mxu.rows", F::count, 1, 65536, "rows of an array: the contraction it holds"},
       BACKBEAT_PLACE(int64_t, mxu.rows)},
      {{"mxu.columns", F::count, 1, 65536, "columns of an array"}, BACKBEAT_PLACE(int64_t, mxu.columns)},
      {{"mxu.rows_per_cycle", F::per_cycle, 1e-3, 1024, "rows of the streamed operand accepted"},
       BACKBEAT_PLACE(double, mxu.rows_per_cycle)},
      {{"mxu.latch_rows_per_cycle", F::per_cycle, 1e-3, 65536, "rows of weights latched"},
       BACKBEAT_PLACE(double, mxu.latch_rows_per_cycle)},
      {{"mxu.transposed_latch_rows_per_cycle", F::per_cycle, 1e-3, 65536,
        "the same for weights that are transposed on the way"},
       BACKBEAT_PLACE(double, mxu.transposed_latch_rows_per_cycle)},
      {{"mxu.double_buffered", F::flag, 0, 1, "weights are latched while others are in use"},
       BACKBEAT_PLACE(bool, mxu.double_buffered)},
      {{"mxu.accumulate", F::accumulator, 0, 1, "where partial sums add up: vmem (by the vector unit) or unit"},
       BACKBEAT_PLACE(bool, mxu.accumulates_in_vmem)},
      {{"mxu.pipeline_latency", F::cycles, 0, 1e6, "latency beside the diagonal wave"},
       BACKBEAT_PLACE(int64_t, mxu.pipeline_latency)},
      {{"vpu.sublanes", F::count, 1, 1024, "sublanes of a vector register"}, BACKBEAT_PLACE(int64_t, vpu.sublanes)},
      {{"vpu.lanes", F::count, 1, 65536, "lanes of a vector register"}, BACKBEAT_PLACE(int64_t, vpu.lanes)},
      {{"vpu.alus", F::count, 1, 64, "operations a cycle on whole registers"}, BACKBEAT_PLACE(int64_t, vpu.alus)},
      {{"vpu.latency", F::cycles, 0, 1e6, "cycles until a result can be used"}, BACKBEAT_PLACE(int64_t, vpu.latency)},
      {{"vpu.medium_slots", F::count, 0, 1e6,
        "operations in a divide, exp, tanh, power beside the transcendental unit's"},
       BACKBEAT_PLACE(double, vpu.medium_slots)},
      {{"vpu.dear_slots", F::count, 0, 1e6, "operations in a sine or cosine"}, BACKBEAT_PLACE(double, vpu.dear_slots)},
      {{"vpu.random_slots", F::count, 0, 1e6, "operations in one random word: 10 rounds of Philox make four"},
       BACKBEAT_PLACE(double, vpu.random_slots)},
      {{"eup.cycles_per_vreg", F::cycles, 0, 1e6, "transcendentals of one register"},
       BACKBEAT_PLACE(double, eup.cycles_per_vreg)},
      {{"eup.latency", F::cycles, 0, 1e6, "cycles until the first result"}, BACKBEAT_PLACE(int64_t, eup.latency)},
      {{"xlu.transpose_cycles_per_vreg", F::cycles, 0, 1e6, "transpose of one register"},
       BACKBEAT_PLACE(double, xlu.transpose_cycles_per_vreg)},
      {{"xlu.reduce_cycles_per_vreg", F::cycles, 0, 1e6, "reduction of one register over its lanes"},
       BACKBEAT_PLACE(double, xlu.reduce_cycles_per_vreg)},
      {{"xlu.latency", F::cycles, 0, 1e6, "cycles until the first result"}, BACKBEAT_PLACE(int64_t, xlu.latency)},
      {{"vmem.bytes", F::bytes, 1, huge, "vector memory"}, BACKBEAT_PLACE(int64_t, vmem.bytes)},
      {{"vmem.loads_per_cycle", F::per_cycle, 1e-3, 1024, "vector registers loaded"},
       BACKBEAT_PLACE(double, vmem.loads_per_cycle)},
      {{"vmem.stores_per_cycle", F::per_cycle, 1e-3, 1024, "vector registers stored"},
       BACKBEAT_PLACE(double, vmem.stores_per_cycle)},
      {{"vmem.latency", F::cycles, 0, 1e6, "cycles of a load"}, BACKBEAT_PLACE(int64_t, vmem.latency)},
      {{"hbm.bytes", F::bytes, 1, huge, "main memory"}, BACKBEAT_PLACE(int64_t, hbm.bytes)},
      {{"hbm.bandwidth", F::bandwidth, 1, huge, "of main memory, both ways together"},
       BACKBEAT_PLACE(double, hbm.bandwidth)},
      {{"hbm.efficiency", F::fraction, 1e-6, 1, "of the bandwidth that transfers reach"},
       BACKBEAT_PLACE(double, hbm.efficiency)},
      {{"hbm.latency", F::seconds, 0, 1, "start-up of a transfer, beside its occupancy"},
       BACKBEAT_PLACE(double, hbm.latency_seconds)},
      {{"hbm.granularity", F::bytes, 1, 1 << 20, "smallest access"}, BACKBEAT_PLACE(int64_t, hbm.granularity)},
      {{"overhead.launch", F::seconds, 0, 1, "of a program, once a run"},
       BACKBEAT_PLACE(double, overhead.launch_seconds)},
      {{"overhead.step", F::cycles, 0, 1e9, "of a step of a kernel's grid, on the scalar unit"},
       BACKBEAT_PLACE(int64_t, overhead.step_cycles)},
      {{"overhead.dma_issue", F::cycles, 0, 1e6, "scalar cycles of starting a transfer"},
       BACKBEAT_PLACE(int64_t, overhead.dma_issue_cycles)},
      {{"overhead.address", F::cycles, 0, 1e6, "scalar cycles of an index: read, held inside, made an address"},
       BACKBEAT_PLACE(double, overhead.address_cycles)},
      {{"emulation.f64_slots", F::count, 1, 1e6, "vector operations in one on f64"},
       BACKBEAT_PLACE(double, emulation.f64_slots)},
      {{"emulation.i64_slots", F::count, 1, 1e6, "vector operations in one on i64"},
       BACKBEAT_PLACE(double, emulation.i64_slots)},
      {{"emulation.f64_passes", F::count, 1, 1e6, "passes of a product of f64"},
       BACKBEAT_PLACE(double, emulation.f64_passes)},
  };
  return table;
}
#undef BACKBEAT_PLACE

struct Suffix {
  F::Unit unit;
  const char* name;
  double factor;
};
const std::vector<Suffix> suffixes = {{F::bytes, "B", 1},           {F::bytes, "KiB", 1024},
                                      {F::bytes, "MiB", 1048576},   {F::bytes, "GiB", 1073741824.0},
                                      {F::bytes, "kB", 1e3},        {F::bytes, "MB", 1e6},
                                      {F::bytes, "GB", 1e9},        {F::bandwidth, "B/s", 1},
                                      {F::bandwidth, "MB/s", 1e6},  {F::bandwidth, "GB/s", 1e9},
                                      {F::bandwidth, "TB/s", 1e12}, {F::seconds, "s", 1},
                                      {F::seconds, "ms", 1e-3},     {F::seconds, "us", 1e-6},
                                      {F::seconds, "ns", 1e-9},     {F::frequency, "Hz", 1},
                                      {F::frequency, "kHz", 1e3},   {F::frequency, "MHz", 1e6},
                                      {F::frequency, "GHz", 1e9}};

// A rate, time or frequency without its unit is a slip: 900 would be 900 bytes a second.
bool needs_unit(F::Unit unit) { return unit == F::bandwidth || unit == F::seconds || unit == F::frequency; }

std::string expected(F::Unit unit) {
  switch (unit) {
    case F::bytes:
      return "a size such as \"16 GiB\"";
    case F::bandwidth:
      return "a rate such as \"450 GB/s\"";
    case F::seconds:
      return "a time such as \"1.5 us\"";
    case F::frequency:
      return "a frequency such as \"940 MHz\"";
    case F::flag:
      return "true or false";
    case F::accumulator:
      return "\"vmem\" or \"unit\"";
    default:
      return "a number";
  }
}

// "450 GB/s" -> 4.5e11. `suffix` tells which one was used, so that a range without units is read in the same one.
bool read_text(const ChipField& field, const std::string& text, double& value, double& factor) {
  if (field.unit == F::flag) {
    if (text != "true" && text != "false") return false;
    value = text == "true";
    return true;
  }
  if (field.unit == F::accumulator) {
    if (text != "vmem" && text != "unit") return false;
    value = text == "vmem";
    return true;
  }
  size_t used = 0;
  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) {
    return false;
  }
  std::string rest = text.substr(used);
  rest.erase(0, rest.find_first_not_of(' ') == std::string::npos ? rest.size() : rest.find_first_not_of(' '));
  while (!rest.empty() && rest.back() == ' ') rest.pop_back();
  factor = 1;
  if (rest.empty()) return std::isfinite(value) && !(needs_unit(field.unit) && value != 0);
  for (const Suffix& s : suffixes)
    if (s.unit == field.unit && rest == s.name) {
      factor = s.factor;
      value *= s.factor;
      return std::isfinite(value);
    }
  return false;
}

void put(Chip& chip, const Row& row, double value) {
  std::visit(
      [&](auto place) {
        auto& target = place(chip);
        using T = std::decay_t<decltype(target)>;
        if constexpr (std::is_same_v<T, int64_t>)
          target = std::llround(value);
        else if constexpr (std::is_same_v<T, bool>)
          target = value != 0;
        else
          target = value;
      },
      row.place);
}

std::string plain(double value) {
  std::ostringstream out;
  out.precision(12);
  out << value;
  return out.str();
}

// The first rule that `value` breaks, as the end of a sentence; empty if none.
std::string broken_rule(const Row& row, double value) {
  const ChipField& f = row.field;
  if (!(value >= f.least)) return concat("must be at least ", plain(f.least), ", got ", plain(value));
  if (value > f.most) return concat("must be at most ", plain(f.most), ", got ", plain(value));
  if (std::holds_alternative<int64_t& (*)(Chip&)>(row.place) && value != std::floor(value))
    return concat("must be a whole number, got ", plain(value));
  return "";
}

int64_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<int64_t> d(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) d[j] = static_cast<int64_t>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    int64_t diagonal = d[0];
    d[0] = static_cast<int64_t>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int64_t above = d[j];
      d[j] = std::min({d[j] + 1, d[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return d[b.size()];
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& known) {
  std::string best;
  int64_t distance = 4;
  for (const std::string& k : known) {
    const int64_t d = edit_distance(word, k);
    if (d < distance) {
      distance = d;
      best = k;
    }
  }
  return best.empty() ? "" : ", did you mean " + best + "?";
}

const Row* find_row(const std::string& key) {
  for (const Row& row : rows())
    if (key == row.field.key) return &row;
  return nullptr;
}

std::string unknown_key(const std::string& key) {
  std::vector<std::string> known = {"name", "title"};
  for (const Row& row : rows()) known.push_back(row.field.key);
  std::string hint = did_you_mean(key, known);
  if (hint.empty()) {  // rows -> mxu.rows
    for (const std::string& k : known)
      if (k.size() > key.size() && k.compare(k.size() - key.size() - 1, std::string::npos, "." + key) == 0)
        hint = ", did you mean " + k + "?";
  }
  return concat("unknown key ", key, hint);
}

// What one page says, while it is read.
class Page {
 public:
  Page(const std::string& text, const std::string& file) : file_(file) {
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines_.push_back(line);
  }

  [[noreturn]] void wrong(const toml::source_region& where, const std::string& what) const {
    throw Error(concat(file_, ':', where.begin.line, ": ", on_one_line(what)));
  }

  // The comment at the end of a line: quotes before the # are balanced.
  std::string comment(size_t line) const {
    if (line == 0 || line > lines_.size()) return "";
    const std::string& text = lines_[line - 1];
    bool quoted = false;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '"') quoted = !quoted;
      if (text[i] != '#' || quoted) continue;
      const size_t begin = text.find_first_not_of(' ', i + 1);
      return begin == std::string::npos ? "" : text.substr(begin);
    }
    return "";
  }

  // Within a range a plain number is in the unit of its estimate.
  double number(const ChipField& field, const toml::node& node, double& factor, bool in_range = false) const {
    double value = 0;
    factor = 1;
    if (auto text = node.value<std::string>(); text && node.is_string()) {
      if (!read_text(field, *text, value, factor))
        wrong(node.source(), concat(field.key, " must be ", expected(field.unit), ", got \"", *text, '"'));
    } else if (auto flag = node.value<bool>(); flag && node.is_boolean()) {
      if (field.unit != F::flag)
        wrong(node.source(), concat(field.key, " must be ", expected(field.unit), ", got ", *flag ? "true" : "false"));
      value = *flag;
    } else if (auto v = node.value<double>();
               v && node.is_number() && field.unit != F::flag && field.unit != F::accumulator) {
      value = *v;
      if (needs_unit(field.unit) && value != 0 && !in_range)
        wrong(node.source(), concat(field.key, " must be ", expected(field.unit), ", got ", value, " without a unit"));
    } else {
      wrong(node.source(), concat(field.key, " must be ", expected(field.unit)));
    }
    return value;
  }

  void read(Chip& chip, const Row& row, const toml::node& node) const {
    const ChipField& field = row.field;
    Chip::Source source;
    source.note = comment(node.source().begin.line);
    double factor = 1, value;
    if (const toml::table* table = node.as_table()) {
      for (auto&& [key, entry] : *table)
        if (key.str() != "estimate" && key.str() != "range")
          wrong(entry.source(),
                concat(field.key, ": unknown key ", std::string(key.str()), ", expected estimate and range"));
      const toml::node* estimate = table->get("estimate");
      if (!estimate) wrong(node.source(), concat(field.key, " has no estimate"));
      value = number(field, *estimate, factor);
      source.estimate = true;
      const toml::array* range = table->get_as<toml::array>("range");
      if (!range || range->size() != 2)
        wrong(node.source(), concat(field.key, ": an estimate needs range = [low, high]"));
      double unused;
      source.low = number(field, *range->get(0), unused, true) * (range->get(0)->is_number() ? factor : 1);
      source.high = number(field, *range->get(1), unused, true) * (range->get(1)->is_number() ? factor : 1);
      if (!(source.low <= value && value <= source.high))
        wrong(node.source(), concat(field.key, ": the estimate ", plain(value / factor), " lies outside its range [",
                                    plain(source.low / factor), ", ", plain(source.high / factor), "]"));
    } else {
      value = number(field, node, factor);
    }
    if (std::string rule = broken_rule(row, value); !rule.empty()) wrong(node.source(), concat(field.key, ' ', rule));
    put(chip, row, value);
    chip.sources[field.key] = source;
  }

 private:
  std::string file_;
  std::vector<std::string> lines_;
};

// Rules between numbers. A key and what is wrong with it, or two empty strings.
std::pair<std::string, std::string> inconsistency(const Chip& chip) {
  const int64_t register_bytes = chip.vpu.sublanes * chip.vpu.lanes * 4;
  if (chip.vmem.bytes < 16 * register_bytes)
    return {"vmem.bytes",
            concat("must hold at least 16 vector registers, ", 16 * register_bytes, " bytes, got ", chip.vmem.bytes)};
  const int64_t tile = chip.mxu.rows * chip.mxu.columns * 4;
  if (chip.vmem.bytes < 6 * tile)
    return {"vmem.bytes",
            concat("must hold at least 6 tiles of the array, ", 6 * tile, " bytes, got ", chip.vmem.bytes)};
  return {};
}

}  // namespace

const std::vector<ChipField>& chip_fields() {
  static const std::vector<ChipField> fields = [] {
    std::vector<ChipField> list;
    for (const Row& row : rows()) list.push_back(row.field);
    return list;
  }();
  return fields;
}

double get(const Chip& chip, const std::string& key) {
  const Row* row = find_row(key);
  if (!row) throw Error(concat(chip.name, ": ", unknown_key(key)));
  return std::visit([&](auto place) { return static_cast<double>(place(const_cast<Chip&>(chip))); }, row->place);
}

std::string show(const ChipField& field, double value) {
  if (field.unit == F::flag) return value != 0 ? "true" : "false";
  if (field.unit == F::accumulator) return value != 0 ? "vmem" : "unit";
  const Suffix* best = nullptr;  // the largest unit that leaves at least 1; binary sizes when they divide
  for (const Suffix& s : suffixes) {
    if (s.unit != field.unit || value == 0) continue;
    const bool binary = std::string(s.name).find('i') != std::string::npos;
    if (field.unit == F::bytes && binary && std::fmod(value, s.factor) != 0) continue;
    if (field.unit == F::bytes && !binary && s.factor > 1) continue;
    if (value < s.factor * (field.unit == F::seconds ? 0.0999999 : 1)) continue;
    if (!best || s.factor > best->factor) best = &s;
  }
  if (!best) return plain(value) + (field.unit == F::seconds ? " s" : "");
  return concat(plain(value / best->factor), ' ', best->name);
}

int64_t Chip::cycles(double seconds) const { return static_cast<int64_t>(std::ceil(seconds * clock_hz - 1e-6)); }

std::vector<std::string> chip_names() {
  std::vector<std::string> names;
  for (const Preset& preset : presets) names.push_back(preset.name);
  return names;
}

Chip parse_chip(const std::string& text, const std::string& file) {
  toml::table root;
  try {
    root = toml::parse(text, file);
  } catch (const toml::parse_error& e) {
    throw Error(concat(file, ':', e.source().begin.line, ": ", on_one_line(std::string(e.description()))));
  }
  Page page(text, file);
  Chip chip;
  for (auto&& [first, node] : root) {
    const std::string name(first.str());
    if (name == "name" || name == "title") {
      if (!node.is_string()) page.wrong(node.source(), name + " must be text");
      (name == "name" ? chip.name : chip.title) = *node.value<std::string>();
      continue;
    }
    if (const Row* row = find_row(name)) {
      page.read(chip, *row, node);
      continue;
    }
    const toml::table* table = node.as_table();
    const bool section = std::any_of(rows().begin(), rows().end(),
                                     [&](const Row& r) { return std::string(r.field.key).rfind(name + '.', 0) == 0; });
    if (!table || !section) page.wrong(node.source(), unknown_key(name));
    for (auto&& [second, entry] : *table) {
      const std::string key = name + '.' + std::string(second.str());
      const Row* row = find_row(key);
      if (!row) page.wrong(entry.source(), unknown_key(key));
      page.read(chip, *row, entry);
    }
  }
  if (chip.name.empty()) throw Error(concat(file, ":1: name is missing"));
  for (const Row& row : rows())
    if (!chip.sources.count(row.field.key))
      throw Error(concat(file, ":1: ", row.field.key, " is missing (", row.field.meaning, ')'));
  if (auto [key, what] = inconsistency(chip); !key.empty()) {
    const size_t dot = key.find('.');
    page.wrong(root[key.substr(0, dot)][key.substr(dot + 1)].node()->source(), key + ' ' + what);
  }
  return chip;
}

Chip load_chip(const std::string& name_or_path) {
  for (const Preset& preset : presets)
    if (name_or_path == preset.name) return parse_chip(preset.text, name_or_path + ".toml");
  if (name_or_path.find('/') == std::string::npos && name_or_path.find(".toml") == std::string::npos) {
    std::string known;
    for (const Preset& preset : presets) known += (known.empty() ? "" : ", ") + std::string(preset.name);
    throw Error(concat("unknown chip ", name_or_path, did_you_mean(name_or_path, chip_names()), " (known: ", known,
                       "; a file's name ends with .toml)"));
  }
  std::error_code ignored;
  if (std::filesystem::is_directory(name_or_path, ignored)) throw Error(concat(name_or_path, ": expected a TOML file, this is a directory"));
  std::ifstream in(name_or_path, std::ios::binary);
  if (!in) throw Error(concat(name_or_path, ": cannot be read"));
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (in.bad()) throw Error(concat(name_or_path, ": cannot be read"));
  return parse_chip(text, name_or_path);
}

void set(Chip& chip, const std::vector<std::string>& assignments) {
  Chip changed = chip;
  for (const std::string& assignment : assignments) {
    const size_t equals = assignment.find('=');
    if (equals == std::string::npos)
      throw Error(concat("--set ", assignment, ": expected KEY=VALUE, such as mxu.rows=64"));
    const std::string key = assignment.substr(0, equals), text = assignment.substr(equals + 1);
    const Row* row = find_row(key);
    if (!row) throw Error(concat("--set ", assignment, ": ", unknown_key(key)));
    double value = 0, factor = 1;
    if (!read_text(row->field, text, value, factor))
      throw Error(
          concat("--set ", assignment, ": ", key, " must be ", expected(row->field.unit), ", got \"", text, '"'));
    if (std::string rule = broken_rule(*row, value); !rule.empty())
      throw Error(concat("--set ", assignment, ": ", key, ' ', rule));
    put(changed, *row, value);
    changed.sources[key] = {false, 0, 0, "set by the user"};
  }
  if (auto [key, what] = inconsistency(changed); !key.empty()) {
    std::string all;
    for (const std::string& a : assignments) all += (all.empty() ? "--set " : " --set ") + a;
    throw Error(concat(all, ": ", key, ' ', what));
  }
  chip = changed;
}

void set(Chip& chip, const std::string& assignment) { set(chip, std::vector<std::string>{assignment}); }

}  // namespace backbeat::sim
