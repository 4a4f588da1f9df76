#include "engine/io/idx.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <span>

#include "engine/io/declared.hpp"
#include "engine/io/file.hpp"
#include "engine/io/inflate.hpp"

namespace backbeat {

namespace {

constexpr int64_t largest_header = 4 + 4 * Shape::max_rank;

constexpr std::pair<IdxType, DType> dtypes[] = {{IdxType::u8, DType::u8},   {IdxType::i8, DType::i8},
                                                {IdxType::i16, DType::i16}, {IdxType::i32, DType::i32},
                                                {IdxType::f32, DType::f32}, {IdxType::f64, DType::f64}};

int64_t width_of(IdxType type) {  // bytes per element; 0 for a type that does not exist
  for (const auto& [idx, dtype] : dtypes)
    if (idx == type) return size_of(dtype);
  return 0;
}

template <class Unsigned>
Unsigned big_endian(const uint8_t* bytes) {
  Unsigned value = 0;
  for (size_t i = 0; i < sizeof(Unsigned); ++i) value = static_cast<Unsigned>((value << 8) | bytes[i]);
  return value;
}

struct Header {
  IdxType type = IdxType::u8;
  Shape shape;
  int64_t header_bytes = 0;
  int64_t value_bytes = 0;
};

// `bytes` is the start of the file, all of it if the file is shorter than the largest header.
Header parse_header(const std::string& path, std::span<const uint8_t> bytes) {
  const int64_t got = static_cast<int64_t>(bytes.size());
  if (got < 4) fail("idx", path, ": expected a magic number of 4 bytes, got ", got, " bytes");
  const uint32_t magic = big_endian<uint32_t>(bytes.data());
  Header h;
  h.type = static_cast<IdxType>(bytes[2]);
  const int64_t rank = bytes[3];
  const int64_t width = width_of(h.type);
  if (magic >> 16 != 0 || width == 0)
    fail("idx", path, ": expected a magic number 00 00 TYPE RANK with type 08, 09, 0b, 0c, 0d or 0e, got 0x", std::hex,
         magic);
  if (rank < 1 || rank > Shape::max_rank)
    fail("idx", path, ": expected 1 to ", Shape::max_rank, " dimensions, got ", rank);
  h.header_bytes = 4 + 4 * rank;
  if (got < h.header_bytes) fail("idx", path, ": expected a header of ", h.header_bytes, " bytes, got ", got, " bytes");
  for (int64_t i = 0; i < rank; ++i) h.shape.push_back(big_endian<uint32_t>(bytes.data() + 4 + 4 * i));
  h.value_bytes = declared_bytes(width, h.shape);
  if (h.value_bytes < 0) fail("idx", path, ": expected sizes that fit in memory, got ", h.shape);
  return h;
}

[[noreturn]] void fail_size(const std::string& path, const Header& h, const std::string& got) {
  fail("idx", path, ": expected ", h.value_bytes, " bytes of values for shape ", h.shape, ", got ", got);
}

IdxFile unpack(const std::string& path, const std::vector<uint8_t>& packed) {
  Inflater inflater("idx", path, packed, Inflater::Format::gzip);
  std::vector<uint8_t> values;
  inflater.append(values, largest_header);
  const Header h = parse_header(path, values);
  if (h.value_bytes / largest_inflation > static_cast<int64_t>(packed.size()))
    fail_size(path, h, concat("a gzip file of ", packed.size(), " bytes"));
  const int64_t total = h.header_bytes + h.value_bytes;
  inflater.append(values, total + 1);
  const int64_t got = static_cast<int64_t>(values.size());
  if (got < total) fail_size(path, h, concat(got - h.header_bytes));
  if (got > total) fail_size(path, h, "more");
  values.erase(values.begin(), values.begin() + h.header_bytes);
  return {h.type, h.shape, std::move(values)};
}

template <class Unsigned, class To>
Array convert(const IdxFile& file) {
  Array out(dtype_of<To>(), file.shape);
  To* values = out.data<To>();
  const uint8_t* in = file.values.data();
  for (int64_t i = 0, n = out.size(); i < n; ++i, in += sizeof(Unsigned))
    values[i] = std::bit_cast<To>(big_endian<Unsigned>(in));
  return out;
}

}  // namespace

IdxFile read_idx_file(const std::string& path) {
  std::vector<uint8_t> bytes = read_file("idx", path);
  if (is_gzip(bytes)) return unpack(path, bytes);
  const Header h = parse_header(path, bytes);
  const int64_t got = static_cast<int64_t>(bytes.size()) - h.header_bytes;
  if (got != h.value_bytes) fail_size(path, h, concat(got));
  bytes.erase(bytes.begin(), bytes.begin() + h.header_bytes);
  return {h.type, h.shape, std::move(bytes)};
}

Array read_idx(const std::string& path) {
  const IdxFile file = read_idx_file(path);
  switch (file.type) {
    case IdxType::u8:
      return convert<uint8_t, uint8_t>(file);
    case IdxType::i8:
      return convert<uint8_t, int8_t>(file);
    case IdxType::i16:
      return convert<uint16_t, int16_t>(file);
    case IdxType::i32:
      return convert<uint32_t, int32_t>(file);
    case IdxType::f32:
      return convert<uint32_t, float>(file);
    case IdxType::f64:
      break;
  }
  return convert<uint64_t, double>(file);
}

void write_idx(const std::string& path, const Array& array) {
  if (array.empty()) fail("idx", path, ": expected an array, got an empty one");
  const std::pair<IdxType, DType>* row = std::find_if(std::begin(dtypes), std::end(dtypes),
                                                      [&](auto& r) { return r.second == array.dtype(); });
  if (row == std::end(dtypes))
    fail("idx", path, ": expected u8, i8, i16, i32, f32 or f64, which IDX has, got ", array.dtype());
  const Shape& shape = array.shape();
  std::vector<uint8_t> bytes = {0, 0, static_cast<uint8_t>(row->first), static_cast<uint8_t>(shape.size())};
  for (int64_t n : shape) {
    if (n > int64_t{UINT32_MAX}) fail("idx", path, ": expected sizes below 2^32, got ", shape);
    for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<uint8_t>(n >> shift));
  }
  if (shape.empty()) fail("idx", path, ": expected 1 to ", Shape::max_rank, " dimensions, got a scalar");
  const auto* values = static_cast<const uint8_t*>(array.raw());
  const int64_t width = size_of(array.dtype());
  for (int64_t i = 0, n = array.bytes(); i < n; i += width)  // each element backwards: the file is big-endian
    bytes.insert(bytes.end(), std::reverse_iterator(values + i + width), std::reverse_iterator(values + i));
  write_file_atomically("idx", path, {std::as_bytes(std::span(bytes))});
}

}  // namespace backbeat
