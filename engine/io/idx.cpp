#include "engine/io/idx.hpp"

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>

#include "engine/io/file.hpp"

namespace backbeat {

namespace {

constexpr int64_t largest_header = 4 + 4 * Shape::max_rank;

int64_t width_of(IdxType type) {  // bytes per element; 0 for a type that does not exist
  switch (type) {
    case IdxType::u8:
    case IdxType::i8:
      return 1;
    case IdxType::i16:
      return 2;
    case IdxType::i32:
    case IdxType::f32:
      return 4;
    case IdxType::f64:
      return 8;
  }
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
Header parse_header(const std::string& path, const std::vector<uint8_t>& bytes) {
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
  h.value_bytes = width;
  for (int64_t i = 0; i < rank; ++i) {
    h.shape.push_back(big_endian<uint32_t>(bytes.data() + 4 + 4 * i));
    if (__builtin_mul_overflow(h.value_bytes, h.shape[i], &h.value_bytes))
      fail("idx", path, ": expected sizes that fit in memory, got ", h.shape, "...");
  }
  return h;
}

[[noreturn]] void fail_size(const std::string& path, const Header& h, const std::string& got) {
  fail("idx", path, ": expected ", h.value_bytes, " bytes of values for shape ", h.shape, ", got ", got);
}

// Inflates piece by piece, so that what is allocated is bounded by what the file really holds.
class Inflater {
 public:
  Inflater(const std::string& path, const std::vector<uint8_t>& packed) : path_(path), packed_(packed) {
    constexpr int gzip_only = 16 + MAX_WBITS;
    if (inflateInit2(&stream_, gzip_only) != Z_OK) throw std::bad_alloc();
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&stream_); }

  // Appends until `out` holds `wanted` bytes or the data end.
  void append(std::vector<uint8_t>& out, int64_t wanted) {
    constexpr int64_t piece = 1 << 20;
    while (!ended_ && static_cast<int64_t>(out.size()) < wanted) {
      const size_t before = out.size();
      out.resize(before + static_cast<size_t>(std::min(piece, wanted - static_cast<int64_t>(before))));
      stream_.next_out = out.data() + before;
      stream_.avail_out = static_cast<uInt>(out.size() - before);
      while (stream_.avail_out > 0 && !ended_) step();
      out.erase(out.end() - static_cast<ptrdiff_t>(stream_.avail_out), out.end());
    }
  }

 private:
  void step() {
    if (stream_.avail_in == 0) {
      constexpr size_t largest = 1u << 30;  // zlib counts in 32 bits
      const size_t size = std::min(largest, packed_.size() - position_);
      stream_.next_in = const_cast<Bytef*>(packed_.data() + position_);
      stream_.avail_in = static_cast<uInt>(size);
      position_ += size;
    }
    const int status = inflate(&stream_, Z_NO_FLUSH);
    if (status == Z_STREAM_END) {  // a gzip file may be several gzip files in a row
      ended_ = stream_.avail_in == 0 && position_ == packed_.size();
      if (!ended_) inflateReset(&stream_);
    } else if (status == Z_BUF_ERROR ||
               (status == Z_OK && stream_.avail_in == 0 && position_ == packed_.size() && stream_.avail_out > 0)) {
      fail("idx", path_, ": expected a complete gzip file, got one cut off after ", packed_.size(), " bytes");
    } else if (status != Z_OK) {
      fail("idx", path_, ": expected gzip data, got a damaged file (", stream_.msg ? stream_.msg : "no detail", ")");
    }
  }

  const std::string& path_;
  const std::vector<uint8_t>& packed_;
  z_stream stream_{};
  size_t position_ = 0;
  bool ended_ = false;
};

IdxFile unpack(const std::string& path, const std::vector<uint8_t>& packed) {
  Inflater inflater(path, packed);
  std::vector<uint8_t> values;
  inflater.append(values, largest_header);
  const Header h = parse_header(path, values);
  // DEFLATE cannot shrink data more than 1032 times.
  if (h.value_bytes / 1032 > static_cast<int64_t>(packed.size()))
    fail_size(path, h, concat("a gzip file of ", packed.size(), " bytes"));
  const int64_t total = h.header_bytes + h.value_bytes;
  inflater.append(values, total + 1);
  const int64_t got = static_cast<int64_t>(values.size());
  if (got < total) fail_size(path, h, concat(got - h.header_bytes));
  if (got > total) fail_size(path, h, "more");
  values.erase(values.begin(), values.begin() + h.header_bytes);
  return {h.type, h.shape, std::move(values)};
}

template <class Unsigned, class Signed, class To>
Array convert(const IdxFile& file) {
  Array out(dtype_of<To>(), file.shape);
  To* values = out.data<To>();
  const uint8_t* in = file.values.data();
  for (int64_t i = 0, n = out.size(); i < n; ++i, in += sizeof(Unsigned))
    values[i] = static_cast<To>(std::bit_cast<Signed>(big_endian<Unsigned>(in)));
  return out;
}

}  // namespace

IdxFile read_idx_file(const std::string& path) {
  std::vector<uint8_t> bytes = read_file("idx", path);
  if (bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b) return unpack(path, bytes);
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
      return convert<uint8_t, uint8_t, int32_t>(file);
    case IdxType::i8:
      return convert<uint8_t, int8_t, int32_t>(file);
    case IdxType::i16:
      return convert<uint16_t, int16_t, int32_t>(file);
    case IdxType::i32:
      return convert<uint32_t, int32_t, int32_t>(file);
    case IdxType::f32:
      return convert<uint32_t, float, float>(file);
    case IdxType::f64:
      break;
  }
  return convert<uint64_t, double, double>(file);
}

}  // namespace backbeat
