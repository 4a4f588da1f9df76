// IDX, plain and gzipped.
#include "engine/io/file.hpp"
#include "engine/io/idx.hpp"
#include "tests/engine/io.hpp"

using namespace backbeat;

namespace {

const Bytes small_idx = {0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 253, 254, 255};

}  // namespace

TEST_CASE("idx: each type, plain and gzipped") {
  const Folder folder;
  struct Row {
    Bytes bytes;
    Array expected;
  };
  const Row rows[] = {
      {small_idx, Array::from<uint8_t>({2, 3}, {1, 2, 3, 253, 254, 255})},
      {{0, 0, 0x09, 1, 0, 0, 0, 2, 0x7f, 0x80}, Array::from<int8_t>({2}, {127, -128})},
      {{0, 0, 0x0B, 1, 0, 0, 0, 2, 0x01, 0x02, 0xff, 0xfe}, Array::from<int16_t>({2}, {258, -2})},
      {{0, 0, 0x0C, 1, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xfd}, Array::from<int32_t>({1}, {-3})},
      {{0, 0, 0x0D, 1, 0, 0, 0, 1, 0x3f, 0xc0, 0, 0}, Array::from<float>({1}, {1.5f})},
      {{0, 0, 0x0E, 1, 0, 0, 0, 1, 0xbf, 0xf8, 0, 0, 0, 0, 0, 0}, Array::from<double>({1}, {-1.5})},
      {{0, 0, 8, 2, 0, 0, 0, 0, 0, 0, 0, 3}, Array::from<uint8_t>({0, 3}, {})},
      {{0, 0, 8, 8, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 9},
       Array::from<uint8_t>({1, 1, 1, 1, 1, 1, 1, 1}, {9})},
  };
  for (const Row& row : rows) {
    CAPTURE(row.expected);
    CHECK(bitwise_equal(read_idx(written(folder / "plain", row.bytes)), row.expected));
    CHECK(bitwise_equal(read_idx(written(folder / "packed.gz", gzipped(row.bytes))), row.expected));
  }
  const Bytes two_members =
      joined(gzipped(first(small_idx, 5)), gzipped(Bytes(small_idx.begin() + 5, small_idx.end())));
  CHECK(bitwise_equal(read_idx(written(folder / "members", two_members)), rows[0].expected));
  const IdxFile raw = read_idx_file(folder / "members");
  CHECK(raw.values == Bytes{1, 2, 3, 253, 254, 255});
}

TEST_CASE("idx: what is written is the file that the format describes") {
  const Folder folder;
  for (const char* name : {"u8.idx", "i16.idx", "f64.idx"}) {
    CAPTURE(name);
    write_idx(folder / "again", read_idx(made(concat("idx/", name))));
    CHECK(read_file("test", folder / "again") == read_file("test", made(concat("idx/", name))));
  }
  for (const Array& array : {Array::from<int8_t>({2}, {127, -128}), Array::from<int32_t>({1, 2, 1}, {1 << 30, -3}),
                             Array::from<float>({2}, {1.5f, -0.0f}), Array(DType::u8, {0, 3})}) {
    CAPTURE(array);
    write_idx(folder / "x", array);
    CHECK(bitwise_equal(read_idx(folder / "x"), array));
  }
  const auto text_for = [&](const Array& array) { return error_of([&] { write_idx(folder / "no", array); }); };
  CHECK(contains(text_for(Array::zeros(DType::i64, {2})), "expected u8, i8, i16, i32, f32 or f64, which IDX has, got i64"));
  CHECK(contains(text_for(Array::scalar(1.0f)), "expected 1 to 8 dimensions, got a scalar"));
  CHECK(contains(text_for(Array()), "expected an array, got an empty one"));
}

TEST_CASE("idx: a byte too long is an error") {
  const Folder folder;
  for (const Bytes& whole : {small_idx, gzipped(small_idx)}) {
    const std::string path = written(folder / "long", joined(whole, {0}));
    CHECK(contains(error_of([&] { read_idx(path); }), "[idx] " + path + ": expected "));
  }
  const std::string path = written(folder / "long.gz", gzipped(joined(small_idx, {0})));
  CHECK(contains(error_of([&] { read_idx(path); }), "expected 6 bytes of values for shape [2,3], got more"));
}

TEST_CASE("idx: wrong headers are refused before anything is allocated") {
  const Folder folder;
  const Bytes large = {255, 255, 255, 255};
  struct Row {
    Bytes bytes;
    const char* expected;
  };
  const Row rows[] = {
      {{0, 1, 8, 1, 0, 0, 0, 0}, "expected a magic number 00 00 TYPE RANK"},
      {{0, 0, 7, 1, 0, 0, 0, 0}, "got 0x701"},
      {{0, 0, 8, 0, 0}, "expected 1 to 8 dimensions, got 0"},
      {{0, 0, 8, 9, 0}, "expected 1 to 8 dimensions, got 9"},
      {joined({0, 0, 8, 1}, large), "expected 4294967295 bytes of values for shape [4294967295], got "},
      {joined(joined({0, 0, 8, 3}, large), joined(large, large)), "expected sizes that fit in memory"},
      {{'P', 'K', 3, 4}, "got 0x504b0304"},
  };
  for (const Row& row : rows) {
    const std::string plain = error_of([&] { read_idx(written(folder / "bad", row.bytes)); });
    CAPTURE(plain);
    CHECK(contains(plain, row.expected));
    CHECK(contains(error_of([&] { read_idx(written(folder / "bad.gz", gzipped(row.bytes))); }), row.expected));
  }
  Bytes damaged = gzipped(small_idx);
  damaged[damaged.size() - 6] ^= 1;  // the checksum
  CHECK(contains(error_of([&] { read_idx(written(folder / "sum.gz", damaged)); }), "damaged"));
  CHECK(contains(error_of([&] { read_idx(folder / "none"); }), "cannot read: No such file"));
  CHECK(contains(error_of([&] { read_idx(folder / "."); }), "expected a file, got a directory"));
  CHECK(contains(error_of([&] { read_idx("/dev/zero"); }), "expected a file, got a pipe or device"));
}
