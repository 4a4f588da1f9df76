#include "report/anatomy.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <sstream>

namespace backbeat {

namespace {

std::string format(const char* pattern, double value) {
  char text[64];
  std::snprintf(text, sizeof text, pattern, value);
  return text;
}

std::string percent(Cycles part, Cycles whole) {
  return whole == 0 ? "-" : format("%.1f%%", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

// Columns as wide as their widest cell; the first is aligned left, the others right.
class Table {
 public:
  explicit Table(std::vector<std::string> header) { add(std::move(header)); }
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

  std::string text() const {
    std::vector<size_t> width(rows_[0].size(), 0);
    for (const auto& row : rows_)
      for (size_t i = 0; i < row.size(); ++i) width[i] = std::max(width[i], row[i].size());
    std::string out;
    for (const auto& row : rows_) {
      for (size_t i = 0; i < row.size(); ++i) {
        const std::string space(width[i] - row[i].size(), ' ');
        out += i == 0 ? row[i] + space : "  " + space + row[i];
      }
      out.erase(out.find_last_not_of(' ') + 1);
      out += '\n';
    }
    return out;
  }

 private:
  std::vector<std::vector<std::string>> rows_;
};

std::string most(const std::map<std::string, Cycles>& by_cause) {
  const auto it = std::max_element(by_cause.begin(), by_cause.end(), [](auto& a, auto& b) { return a.second < b.second; });
  return it == by_cause.end() || it->second == 0 ? "-" : it->first;
}

bool simulated(const Cost& cost) { return !cost.chip.empty(); }

// Of the memory outside the chip or the processor.
int64_t main_memory_bytes(const CostRow& row) {
  int64_t bytes = 0;
  for (const char* memory : {"hbm", "memory"})
    if (const auto it = row.bytes.find(memory); it != row.bytes.end()) bytes += it->second;
  return bytes;
}

std::string readable(std::string key) {
  std::replace(key.begin(), key.end(), '_', ' ');
  return key;
}

// What a measured device cannot tell is left out of its table: removal, waiting, what bound a node.
std::vector<std::string> cells(const Cost& cost, const std::string& name, const CostRow& row, bool removable) {
  std::vector<std::string> out{name, with_separators(row.cycles), percent(row.cycles, cost.cycles)};
  if (simulated(cost)) out.push_back(removable ? percent(row.removal_cycles, cost.cycles) : "");
  out.push_back(with_separators(row.nodes));
  out.push_back(format("%.3f", static_cast<double>(row.flops) * 1e-9));
  out.push_back(show_bytes(static_cast<double>(main_memory_bytes(row))));
  if (simulated(cost)) out.push_back(most(row.stalls)), out.push_back(most(row.bound_by));
  return out;
}

void add(CostRow& sum, const CostRow& row) {
  sum.nodes += row.nodes, sum.cycles += row.cycles, sum.flops += row.flops;
  for (const auto& [memory, bytes] : row.bytes) sum.bytes[memory] += bytes;
  for (const auto& [cause, cycles] : row.stalls) sum.stalls[cause] += cycles;
  for (const auto& [engine, cycles] : row.bound_by) sum.bound_by[engine] += cycles;
}

// The `limit` largest rows, the rest in one, and the total.
std::string view(const Cost& cost, const std::string& name, std::vector<CostRow> rows, size_t limit) {
  std::vector<std::string> header{name, simulated(cost) ? "cycles" : "ns", "share"};
  for (const char* title : {"removal", "nodes", "GFLOP", "HBM", "waits most for", "bound by"}) {
    const std::string_view t(title);
    if (simulated(cost)) header.push_back(title);
    else if (t == "nodes" || t == "GFLOP") header.push_back(title);
    else if (t == "HBM") header.push_back("memory");
  }
  Table table(header);
  if (rows.size() > limit) std::stable_sort(rows.begin(), rows.end(), [](auto& a, auto& b) { return a.cycles > b.cycles; });
  CostRow rest, total;
  for (size_t i = 0; i < rows.size(); ++i) {
    add(total, rows[i]);
    if (i < limit) table.add(cells(cost, readable(rows[i].key.empty() ? "(no scope)" : rows[i].key), rows[i], true));
    else add(rest, rows[i]);
  }
  if (rows.size() > limit) table.add(cells(cost, "others", rest, false));
  total.stalls.clear(), total.bound_by.clear();
  std::vector<std::string> last = cells(cost, "total", total, false);
  for (std::string& cell : last)
    if (cell == "-") cell.clear();
  table.add(last);
  return table.text();
}

const CostRow* find(const std::vector<CostRow>& rows, std::string_view key) {
  const auto it = std::find_if(rows.begin(), rows.end(), [&](const CostRow& r) { return r.key == key; });
  return it == rows.end() ? nullptr : &*it;
}

// The sentence that the whole program exists for.
std::string headline(const Cost& cost, const AnatomyTitle& title) {
  const CostRow* second = find(cost.by_phase, name_of(Phase::second_backward));
  if (!second) return "There is no second backward pass in this step.\n";
  std::ostringstream out;
  out << "Second backward pass: ";
  if (simulated(cost))
    out << "without it the step would be " << percent(second->removal_cycles, cost.cycles) << " shorter (removal), and ";
  out << "it holds " << percent(second->cycles, cost.cycles) << " of the time (share).\n";
  if (title.without_penalty) {
    const double ratio = static_cast<double>(cost.cycles) / static_cast<double>(*title.without_penalty);
    const Cycles added = cost.cycles - *title.without_penalty;
    out << "Without the penalty the step takes " << with_separators(*title.without_penalty) << (simulated(cost) ? " cycles" : " ns")
        << ": the penalty makes it " << format("%.2f", ratio) << " times as long";
    if (added > 0 && simulated(cost)) out << ", and the second backward pass is " << percent(second->cycles, added) << " of what it adds";
    out << ".\n";
  }
  return out.str();
}

}  // namespace

std::string with_separators(int64_t n) {
  const std::string digits = std::to_string(n < 0 ? -n : n);
  std::string out = n < 0 ? "-" : "";
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out;
}

std::string show_bytes(double bytes) {
  const char* units[] = {"B", "kB", "MB", "GB", "TB"};
  size_t u = 0;
  while (bytes >= 999.5 && u + 1 < std::size(units)) bytes /= 1000, ++u;
  return format(u == 0 || bytes >= 100 ? "%.0f " : "%.1f ", bytes) + units[u];
}

std::string show_seconds(double seconds) {
  const char* units[] = {"s", "ms", "us", "ns"};
  size_t u = 0;
  while (seconds > 0 && seconds < 1 && u + 1 < std::size(units)) seconds *= 1000, ++u;
  return format("%.4g ", seconds) + units[u];
}

std::string anatomy_text(const Cost& cost, const AnatomyTitle& title) {
  std::ostringstream out;
  const bool chip = simulated(cost);
  out << title.model << ' ' << title.step << " step   " << (chip ? cost.chip + ", 1 core" : cost.device) << ", batch " << title.batch;
  if (chip) out << ", " << cost.precision << " precision   " << with_separators(cost.cycles) << " cycles";
  out << "   " << show_seconds(cost.seconds()) << "\n\n";
  out << view(cost, "phase", cost.by_phase, 10) << '\n';
  out << headline(cost, title) << '\n';
  out << view(cost, "scope", cost.by_scope, 12) << '\n';
  out << view(cost, "operation", cost.by_op, 10) << '\n';
  if (chip) {
    Table engines({"engine", "busy", "stalled", "idle", "busy share"});
    for (const EngineCost& e : cost.engines)
      engines.add({e.engine, with_separators(e.busy), with_separators(e.stalled), with_separators(e.idle), percent(e.busy, cost.cycles)});
    out << engines.text() << '\n';
  }
  if (cost.memory.hbm_peak_bytes > 0) {
    out << "memory peak: " << show_bytes(static_cast<double>(cost.memory.hbm_peak_bytes)) << (chip ? " of HBM" : "");
    if (chip) out << ", " << show_bytes(static_cast<double>(cost.memory.vmem_peak_bytes)) << " of VMEM";
    const char* separator = "; at the peak ";
    for (const auto& [origin, bytes] : cost.memory.by_origin)
      out << separator << readable(origin) << ' ' << show_bytes(static_cast<double>(bytes)), separator = ", ";
    out << '\n';
  }
  return out.str();
}

}  // namespace backbeat
