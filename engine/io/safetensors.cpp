#include "engine/io/safetensors.hpp"

#include <algorithm>
#include <bit>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/io/declared.hpp"
#include "engine/io/file.hpp"

namespace backbeat {

namespace {

static_assert(std::endian::native == std::endian::little, "safetensors is little-endian, and so is this code");

using Json = nlohmann::ordered_json;

constexpr const char* metadata_key = "__metadata__";
constexpr int64_t length_bytes = 8;
constexpr int64_t largest_header = 100'000'000;  // as in the format's own implementation

constexpr std::pair<DType, const char*> file_names[] = {
    {DType::f64, "F64"}, {DType::f32, "F32"}, {DType::bf16, "BF16"}, {DType::f16, "F16"},
    {DType::i64, "I64"}, {DType::i32, "I32"}, {DType::i16, "I16"},   {DType::i8, "I8"},
    {DType::u32, "U32"}, {DType::u8, "U8"},   {DType::boolean, "BOOL"}};

const char* file_name_of(DType dtype) {
  return std::find_if(std::begin(file_names), std::end(file_names), [&](auto& row) { return row.first == dtype; })
      ->second;
}

struct Entry {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  int64_t begin = 0, end = 0;  // bytes after the header
};

template <class... Parts>
[[noreturn]] void fail_file(const std::string& path, const Parts&... parts) {
  fail("safetensors", path, ": ", parts...);
}

// JSON of at most three levels without a key given twice (the last would win, silently).
Json parse_header(const std::string& path, const std::string& text) {
  std::vector<std::set<std::string>> keys;
  const auto check = [&](int depth, Json::parse_event_t event, Json& value) {
    if (depth > 3) fail_file(path, "expected a header of at most three levels, got a deeper one");
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second)
      fail_file(path, "expected each name once, got ", quoted(value.get<std::string>()), " twice");
    return true;
  };
  try {
    Json header = Json::parse(text, check);
    if (!header.is_object()) fail_file(path, "expected a JSON object as header, got ", header.type_name());
    return header;
  } catch (const Json::parse_error& error) {
    fail_file(path, "expected a JSON header, got a syntax error at byte ", error.byte, " of it");
  } catch (const Json::out_of_range&) {
    fail_file(path, "expected a JSON header, got a number beyond any double");
  }
}

// A whole number of at most 2^63 - 1, or -1.
int64_t whole_number(const Json& value) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > uint64_t{INT64_MAX}) return -1;
  return value.get<int64_t>();
}

const Json& member(const std::string& path, const std::string& name, const Json& fields, const char* key) {
  const auto found = fields.find(key);
  if (found == fields.end()) fail_file(path, quoted(name), ": expected a field '", key, "', got none");
  return *found;
}

Entry parse_entry(const std::string& path, const std::string& name, const Json& fields, int64_t data_bytes) {
  if (!fields.is_object()) fail_file(path, quoted(name), ": expected an object, got ", fields.type_name());
  Entry e{name, {}, {}, 0, 0};

  const Json& dtype = member(path, name, fields, "dtype");
  const auto row = std::find_if(std::begin(file_names), std::end(file_names), [&](auto& r) {
    return dtype.is_string() && dtype.get_ref<const std::string&>() == r.second;
  });
  if (row == std::end(file_names))
    fail_file(path, quoted(name), ": expected dtype F64, F32, BF16, F16, I64, I32, I16, I8, U32, U8 or BOOL, got ",
              dtype.is_string() ? quoted(dtype.get<std::string>()) : dtype.type_name());
  e.dtype = row->first;

  const Json& shape = member(path, name, fields, "shape");
  if (!shape.is_array() || static_cast<int64_t>(shape.size()) > Shape::max_rank)
    fail_file(path, quoted(name), ": expected a shape of at most ", Shape::max_rank, " sizes, got ",
              shape.is_array() ? concat(shape.size()) : shape.type_name());
  for (const Json& size : shape) e.shape.push_back(whole_number(size));
  const int64_t bytes = declared_bytes(size_of(e.dtype), e.shape);
  if (bytes < 0) fail_file(path, quoted(name), ": expected sizes that fit in memory, got ", quoted(shape.dump()));

  const Json& offsets = member(path, name, fields, "data_offsets");
  const bool pair = offsets.is_array() && offsets.size() == 2;
  e.begin = pair ? whole_number(offsets[0]) : -1;
  e.end = pair ? whole_number(offsets[1]) : -1;
  if (e.begin < 0 || e.end < e.begin || e.end > data_bytes)
    fail_file(path, quoted(name), ": expected data offsets [begin,end] within the ", data_bytes,
              " bytes after the header, got ", quoted(offsets.dump()));
  if (e.end - e.begin != bytes)
    fail_file(path, quoted(name), ": expected ", bytes, " bytes for ", e.dtype, e.shape, ", got ", e.end - e.begin);
  return e;
}

// Without overlaps and gaps from the first byte to the last: each byte of the file has one meaning.
void check_tiling(const std::string& path, const std::vector<Entry>& entries, int64_t data_bytes) {
  std::vector<const Entry*> sorted;
  for (const Entry& e : entries) sorted.push_back(&e);
  std::sort(sorted.begin(), sorted.end(),
            [](auto* a, auto* b) { return std::pair(a->begin, a->end) < std::pair(b->begin, b->end); });
  int64_t position = 0;
  for (const Entry* e : sorted) {
    if (e->begin != position)
      fail_file(path, quoted(e->name), ": expected to begin at byte ", position, ", got ", e->begin,
                e->begin < position ? " (overlapping arrays)" : " (a gap)");
    position = e->end;
  }
  if (position != data_bytes) fail_file(path, "expected ", position, " bytes after the header, got ", data_bytes);
}

std::map<std::string, std::string> parse_metadata(const std::string& path, const Json& fields) {
  std::map<std::string, std::string> metadata;
  if (!fields.is_object()) fail_file(path, "expected ", metadata_key, " to be an object, got ", fields.type_name());
  for (const auto& [key, value] : fields.items()) {
    if (!value.is_string())
      fail_file(path, "expected metadata ", quoted(key), " to be a string, got ", value.type_name());
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

void read_exactly(const std::string& path, std::ifstream& in, void* bytes, int64_t count) {
  in.read(static_cast<char*>(bytes), count);
  if (in.gcount() != count) fail_file(path, "expected ", count, " bytes more, got ", in.gcount());
}

}  // namespace

void write_safetensors(const std::string& path, const NamedArrays& arrays,
                       const std::map<std::string, std::string>& metadata) {
  // The header keeps the caller's order; the bytes go widest dtype first, so that every array is aligned in the file.
  std::vector<const Array*> by_width;
  for (const auto& [name, array] : arrays) {
    if (array.empty()) fail_file(path, quoted(name), ": expected an array, got an empty one");
    by_width.push_back(&array);
  }
  std::stable_sort(by_width.begin(), by_width.end(),
                   [](auto* a, auto* b) { return size_of(a->dtype()) > size_of(b->dtype()); });
  std::map<const Array*, int64_t> begin;
  int64_t position = 0;
  for (const Array* array : by_width) {
    begin[array] = position;
    position += array->bytes();
  }

  Json header = Json::object();
  if (!metadata.empty()) header[metadata_key] = metadata;
  for (const auto& [name, array] : arrays) {
    if (name == metadata_key || header.contains(name))
      fail_file(path, "expected each name once and none called ", metadata_key, ", got ", quoted(name));
    const std::vector<int64_t> shape(array.shape().begin(), array.shape().end());
    header[name] = {{"dtype", file_name_of(array.dtype())},
                    {"shape", shape},
                    {"data_offsets", {begin[&array], begin[&array] + array.bytes()}}};
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const Json::type_error&) {
    fail_file(path, "expected names and metadata in UTF-8, got other bytes");
  }
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t length = text.size();

  std::vector<std::span<const std::byte>> pieces = {std::as_bytes(std::span(&length, 1)),
                                                    std::as_bytes(std::span(text.data(), text.size()))};
  for (const Array* array : by_width)
    pieces.emplace_back(static_cast<const std::byte*>(array->raw()), static_cast<size_t>(array->bytes()));
  write_file_atomically("safetensors", path, pieces);
}

SafetensorsFile read_safetensors(const std::string& path) {
  const int64_t file_bytes = file_size("safetensors", path);
  if (file_bytes < length_bytes) fail_file(path, "expected a header length of 8 bytes, got ", file_bytes, " bytes");
  std::ifstream in(path, std::ios::binary);
  if (!in) fail_file(path, "cannot read");
  uint64_t length = 0;
  read_exactly(path, in, &length, length_bytes);
  const int64_t room = std::min(largest_header, file_bytes - length_bytes);
  if (length > static_cast<uint64_t>(room))
    fail_file(path, "expected a header of at most ", room, " bytes, got a length of ", length);
  std::string text(static_cast<size_t>(length), '\0');
  read_exactly(path, in, text.data(), static_cast<int64_t>(length));
  const int64_t data_begin = length_bytes + static_cast<int64_t>(length);
  const int64_t data_bytes = file_bytes - data_begin;

  SafetensorsFile file;
  std::vector<Entry> entries;
  const Json header = parse_header(path, text);
  for (const auto& [name, fields] : header.items()) {
    if (name == metadata_key)
      file.metadata = parse_metadata(path, fields);
    else
      entries.push_back(parse_entry(path, name, fields, data_bytes));
  }
  check_tiling(path, entries, data_bytes);

  for (const Entry& e : entries) {
    Array array(e.dtype, e.shape);
    in.seekg(data_begin + e.begin);
    read_exactly(path, in, array.raw(), array.bytes());
    check_booleans("safetensors", path + ": " + quoted(e.name), array);
    file.arrays.emplace_back(e.name, std::move(array));
  }
  return file;
}

}  // namespace backbeat
