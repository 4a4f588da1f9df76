// The anatomy of one run of a Program: tables for people, JSON for programs.
#pragma once
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "engine/cost.hpp"

namespace backbeat {

// What stands above the table, and what the cost is compared with.
struct AnatomyTitle {
  std::string model, step;
  int64_t batch = 0;
  std::optional<Cycles> without_penalty;  // the same step without the penalty, in cycles of the same clock
};

std::string anatomy_text(const Cost& cost, const AnatomyTitle& title);
nlohmann::ordered_json anatomy_json(const Cost& cost, const AnatomyTitle& title);  // keys: docs/json.md

std::string with_separators(int64_t n);      // 142,318
std::string show_bytes(double bytes);        // 3.2 MB (decimal)
std::string show_seconds(double seconds);    // 151.4 us

}  // namespace backbeat
