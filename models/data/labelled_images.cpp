#include "models/data/labelled_images.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "engine/io/file.hpp"
#include "engine/io/inflate.hpp"

namespace backbeat {

namespace {

constexpr int classes = 10;

}  // namespace

LabelledImages read_cifar10(const std::string& path) {
  constexpr int64_t pixels = 3 * 32 * 32, record = 1 + pixels;
  const std::vector<uint8_t> bytes = read_file("cifar10", path);
  const int64_t size = static_cast<int64_t>(bytes.size()), n = size / record;
  if (n == 0 || size % record != 0)
    fail("cifar10", path, ": expected one or more records of ", record, " bytes, got ", size, " bytes");
  LabelledImages out{Array(DType::u8, {n, 3, 32, 32}), Array(DType::i32, {n})};
  const uint8_t* from = bytes.data();
  for (int64_t i = 0; i < n; ++i, from += record) {
    if (from[0] >= classes)
      fail("cifar10", path, ": record ", i + 1, " of ", n, ": expected a label of 0 to 9, got ", int{from[0]});
    out.labels.data<int32_t>()[i] = from[0];
    std::copy_n(from + 1, pixels, out.pixels.data<uint8_t>() + i * pixels);
  }
  return out;
}

LabelledImages read_digits(const std::string& path) {
  constexpr int64_t pixels = 8 * 8, largest_file = int64_t{1} << 30;
  constexpr int brightest = 16;
  const std::vector<uint8_t> bytes = gunzipped("digits", path, read_file("digits", path), largest_file);
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::vector<uint8_t> values;
  std::vector<int32_t> labels;
  for (int64_t line = 1; !text.empty(); ++line) {
    std::string_view row = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), row.size() + 1));
    if (row.ends_with('\r')) row.remove_suffix(1);
    for (int64_t column = 1; column <= pixels + 1; ++column) {
      const int largest = column <= pixels ? brightest : classes - 1;
      const auto wrong = [&](const auto&... got) {
        fail("digits", path, ": line ", line, ", column ", column, ": expected a whole number of 0 to ", largest,
             ", got ", got...);
      };
      while (row.starts_with(' ')) row.remove_prefix(1);
      int value = -1;
      const auto [end, error] = std::from_chars(row.data(), row.data() + row.size(), value);
      if (error != std::errc()) wrong(row.empty() ? "the end of the line" : "something else");
      if (value < 0 || value > largest) wrong(value);
      row.remove_prefix(static_cast<size_t>(end - row.data()));
      if (column <= pixels && !row.starts_with(','))
        wrong(value, row.empty() ? " and the end of the line" : " and no comma");
      if (column <= pixels) {
        values.push_back(static_cast<uint8_t>(value));
        row.remove_prefix(1);
      } else {
        labels.push_back(value);
        if (!row.empty()) fail("digits", path, ": line ", line, ": expected ", column, " values, got more");
      }
    }
  }
  if (labels.empty()) fail("digits", path, ": expected lines of 64 pixels and a label, got an empty file");
  const int64_t n = static_cast<int64_t>(labels.size());
  return {Array::from<uint8_t>({n, 1, 8, 8}, values), Array::from<int32_t>({n}, labels)};
}

}  // namespace backbeat
