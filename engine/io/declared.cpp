#include "engine/io/declared.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace backbeat {

namespace {

using Json = nlohmann::json;

}  // namespace

int64_t declared_bytes(int64_t width, const Shape& shape) {
  int64_t bytes = width;
  bool nothing = false;
  for (int64_t n : shape) {
    if (n < 0 || __builtin_mul_overflow(bytes, std::max<int64_t>(n, 1), &bytes)) return -1;
    nothing = nothing || n == 0;
  }
  return nothing ? 0 : bytes;
}

std::string quoted(const std::string& name) { return Json(name).dump(-1, ' ', true, Json::error_handler_t::replace); }

bool is_utf8(const std::string& name) {
  try {
    return !Json(name).dump().empty();
  } catch (const Json::type_error&) {
    return false;
  }
}

void check_booleans(const char* where, const std::string& name, const Array& array) {
  if (array.dtype() != DType::boolean) return;
  const auto* bytes = static_cast<const uint8_t*>(array.raw());
  for (int64_t i = 0; i < array.size(); ++i)
    if (bytes[i] > 1) fail(where, name, ": expected bools of 0 and 1, got ", int{bytes[i]});
}

}  // namespace backbeat
