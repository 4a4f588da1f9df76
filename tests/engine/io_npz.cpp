// .npz: archives made by NumPy, round trips, and archives that lie.
#include "engine/io/npz.hpp"

#include "engine/io/file.hpp"
#include "engine/io/npy.hpp"
#include "tests/engine/io.hpp"

using namespace backbeat;

namespace {

NamedArrays made_arrays() {  // as tests/data/io/make.py has them
  return {{"weight", Array::from<float>({2, 3}, {-2, -1, 0, 1, 2, 3})},
          {"step", Array::scalar<int64_t>(7)},
          {"critic/bias", Array::from<f16>({4}, {f16(-2.0f), f16(-1.0f), f16(0.0f), f16(1.0f)})}};
}

void put(Bytes& bytes, size_t at, uint32_t value, size_t width) {
  for (size_t i = 0; i < width; ++i) bytes[at + i] = static_cast<uint8_t>(value >> (8 * i));
}

struct Layout {
  size_t directory = 0, end = 0;
};
Layout layout_of(const Bytes& bytes) {  // of an archive without a comment
  const size_t end = bytes.size() - 22;
  return {bytes[end + 16] + 256u * bytes[end + 17], end};
}

}  // namespace

TEST_CASE("npz: archives made by NumPy, stored and deflated") {
  check_same(read_npz(made("npz/stored.npz")), made_arrays());
  check_same(read_npz(made("npz/deflated.npz")), made_arrays());
}

TEST_CASE("npz: round trips, the same bytes for the same arrays") {
  const Folder folder;
  NamedArrays arrays = made_arrays();
  arrays.emplace_back("nothing", Array(DType::u8, {0, 2}));
  arrays.emplace_back("\u00fcmlaut", Array::from<bool>({2}, {true, false}));
  arrays.emplace_back("large", Array::full(DType::f64, {300, 500}, 0.1));
  write_npz(folder / "a", arrays);
  write_npz(folder / "b", arrays);
  check_same(read_npz(folder / "a"), arrays);
  CHECK(read_file("test", folder / "a") == read_file("test", folder / "b"));
  write_npz(folder / "none", {});
  CHECK(read_npz(folder / "none").empty());

  const Bytes commented = joined(read_file("test", folder / "none"), {'h', 'i'});
  CHECK(contains(error_of([&] { read_npz(written(folder / "c", commented)); }), "without the end record of one"));
  Bytes counted = commented;
  put(counted, counted.size() - 4, 2, 2);
  CHECK(read_npz(written(folder / "c", counted)).empty());
}

TEST_CASE("npz: what cannot be written") {
  const Folder folder;
  const Array one = Array::scalar(1.0f);
  const auto text_for = [&](const NamedArrays& arrays) { return error_of([&] { write_npz(folder / "x", arrays); }); };
  CHECK(contains(text_for({{"a", one}, {"a", one}}), "each once, got \"a\""));
  CHECK(contains(text_for({{"\xff", one}}), "expected names in UTF-8 without null characters, got "));
  CHECK(contains(text_for({{std::string("a\0b", 3), one}}), "expected names in UTF-8 without null characters, got "));
  CHECK(contains(text_for({{"", one}}), "expected names of 1 to "));
  CHECK(contains(text_for({{"a", Array()}}), "\"a\": expected an array, got an empty one"));
  CHECK(contains(text_for({{"a", Array::zeros(DType::bf16, {1})}}), "\"a\": NumPy has no bf16; convert it to f32"));
  CHECK(folder.names().empty());
}

TEST_CASE("npz: archives that lie") {
  const Folder folder;
  const Bytes stored = read_file("test", made("npz/stored.npz")), deflated = read_file("test", made("npz/deflated.npz"));
  // `at` counts from the first entry of the directory, or with `end` from the end record.
  struct Row {
    const Bytes& whole;
    bool end;
    size_t at;
    uint32_t value;
    size_t width;
    const char* expected;
  };
  const Row rows[] = {
      {stored, false, 8, 1, 2, "expected a member without a password, got an encrypted one"},
      {stored, false, 10, 12, 2, "expected a stored or deflated member, got zip method 12"},
      {stored, false, 16, 0, 4, "expected the checksum 0x0, got 0x"},
      {stored, false, 20, 150, 4, "expected 152 bytes, got 150"},
      {stored, false, 20, 0xfffffff0, 4, "expected members of at most "},
      {stored, false, 24, 151, 4, "expected 151 bytes, got 152"},
      {stored, false, 24, 0xffffffff, 4, "expected a member below 4 GiB, got a zip64 one"},
      {stored, false, 42, 1, 4, "expected the member at byte 1, got something else"},
      {stored, false, 42, 0xfffffffe, 4, "expected the member at byte 4294967294, got something else"},
      {stored, false, 46, 'W', 1, "expected the member at byte 0, got something else"},
      {stored, false, 28, 5, 2, "expected members NAME.npy, got \"weigh\""},
      {stored, false, 28, 0xffff, 2, "expected 3 entries in the directory, got 0"},
      {deflated, false, 24, 153, 4, "expected 152 bytes for shape [2,3], got 153 packed into "},
      {deflated, false, 10, 0, 2, "expected 152 bytes, got "},
      {stored, true, 8, 2, 2, "expected a directory of "},
      {stored, true, 8, 0xffff, 2, "expected a directory of "},
      {stored, true, 10, 0xffff, 2, "expected an archive below 4 GiB, got a zip64 one"},
      {stored, true, 16, 0, 4, "expected a directory of "},
      {stored, true, 20, 1, 2, "without the end record of one"},
  };
  for (const Row& row : rows) {
    Bytes bytes = row.whole;
    const Layout layout = layout_of(bytes);
    put(bytes, (row.end ? layout.end : layout.directory) + row.at, row.value, row.width);
    const std::string path = written(folder / "bad", bytes);
    const std::string text = error_of([&] { read_npz(path); });
    CAPTURE(text);
    CHECK(contains(text, "[npz] " + path + ": "));
    CHECK(contains(text, row.expected));
  }

  Bytes fewer = stored;  // two entries announced, three there
  put(fewer, layout_of(fewer).end + 8, 2, 2);
  put(fewer, layout_of(fewer).end + 10, 2, 2);
  CHECK(contains(error_of([&] { read_npz(written(folder / "fewer", fewer)); }), "expected 2 entries in the directory"));
}

namespace {

// One deflated stream of these bytes.
Bytes deflated_bytes(Bytes bytes) {
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY) == Z_OK);
  Bytes packed(bytes.size() / 512 + 1000);
  stream.next_in = bytes.data();
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = packed.data();
  stream.avail_out = static_cast<uInt>(packed.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

// An archive of one deflated member a.npy that says it has `declared` bytes.
Bytes archive_of(const Bytes& bytes, const Bytes& packed, size_t declared) {
  Bytes local(30 + 5), entry(46 + 5), end(22);
  put(local, 0, 0x04034b50, 4);
  put(local, 26, 5, 2);
  put(entry, 0, 0x02014b50, 4);
  put(entry, 10, 8, 2);
  put(entry, 16, static_cast<uint32_t>(crc32_z(0, bytes.data(), bytes.size())), 4);
  put(entry, 20, static_cast<uint32_t>(packed.size()), 4);
  put(entry, 24, static_cast<uint32_t>(declared), 4);
  put(entry, 28, 5, 2);
  for (size_t i = 0; i < 5; ++i) local[30 + i] = entry[46 + i] = static_cast<uint8_t>("a.npy"[i]);
  put(end, 0, 0x06054b50, 4);
  put(end, 8, 1, 2);
  put(end, 10, 1, 2);
  put(end, 12, static_cast<uint32_t>(entry.size()), 4);
  put(end, 16, static_cast<uint32_t>(local.size() + packed.size()), 4);
  return joined(joined(joined(local, packed), entry), end);
}

}  // namespace

TEST_CASE("npz: a member that unpacks to more than its header says is not unpacked") {
  const Folder folder;
  // 64 MB of zeros behind the header of four floats, honest in everything else.
  const Array four = Array::zeros(DType::f32, {4});
  const std::string header = npy_header("test", "x", four);
  Bytes bytes(header.begin(), header.end());
  bytes.resize(64'000'000);
  const Bytes packed = deflated_bytes(bytes);
  for (size_t declared : {bytes.size(), header.size() + 16}) {
    const std::string path = written(folder / "bomb", archive_of(bytes, packed, declared));
    const std::string text = error_of([&] { read_npz(path); });
    CAPTURE(text);
    CHECK(contains(text, declared == bytes.size() ? "expected 144 bytes for shape [4], got 64000000"
                                                  : "expected 144 bytes, got 145"));
  }
}

TEST_CASE("npz: a shape of almost 2^63 bytes is refused") {
  const Folder folder;
  const std::string line = "{'descr': '|u1', 'fortran_order': False, 'shape': (9223372036854775807,), }\n";
  const std::string text = std::string("\x93NUMPY\1\0", 8) + static_cast<char>(line.size()) + '\0' + line;
  const Bytes bytes(text.begin(), text.end());
  const std::string path = written(folder / "large", archive_of(bytes, deflated_bytes(bytes), bytes.size()));
  CHECK(contains(error_of([&] { read_npz(path); }), "expected a member below 4 GiB, got one of shape [9223372036854775807]"));
}
