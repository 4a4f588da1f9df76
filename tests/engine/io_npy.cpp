// .npy: files made by NumPy, round trips, and what is refused.
#include "engine/io/npy.hpp"

#include <cstring>

#include "engine/io/file.hpp"
#include "tests/engine/io.hpp"

using namespace backbeat;

namespace {

// The values of tests/data/io/make.py: 0 1 2 ... in row-major order, minus 2 where the type has a sign.
Array counting(DType dtype, const Shape& shape) {
  Array array(dtype, shape);
  for (int64_t i = 0; i < array.size(); ++i) {
    if (dtype == DType::boolean) array.set(i, static_cast<double>(i % 2));
    else array.set(i, static_cast<double>(dtype == DType::u32 || dtype == DType::u8 ? i : i - 2));
  }
  return array;
}

Bytes npy(const std::string& header, const Bytes& values, uint8_t major = 1) {
  Bytes bytes = {0x93, 'N', 'U', 'M', 'P', 'Y', major, 0, static_cast<uint8_t>(header.size()), 0};
  if (major > 1) bytes.insert(bytes.end(), {0, 0});
  return joined(joined(bytes, Bytes(header.begin(), header.end())), values);
}

}  // namespace

TEST_CASE("npy: files made by NumPy") {
  struct Row {
    const char* name;
    Array expected;
  };
  const Row rows[] = {
      {"f8", counting(DType::f64, {2, 3})},
      {"f4", counting(DType::f32, {2, 3})},
      {"f2", counting(DType::f16, {2, 3})},
      {"i8", counting(DType::i64, {2, 3})},
      {"i4", counting(DType::i32, {2, 3})},
      {"i2", counting(DType::i16, {2, 3})},
      {"i1", counting(DType::i8, {2, 3})},
      {"u4", counting(DType::u32, {2, 3})},
      {"u2", counting(DType::u8, {2, 3}).converted(DType::i32)},
      {"u1", counting(DType::u8, {2, 3})},
      {"b1", counting(DType::boolean, {2, 3})},
      {"fortran", counting(DType::i32, {2, 3, 4})},
      {"fortran_big_endian", counting(DType::f64, {3, 2})},
      {"version_2", counting(DType::f32, {5})},
      {"version_3", counting(DType::f32, {5})},
      {"scalar", Array::scalar(1.5)},
      {"nothing", Array(DType::f32, {0, 4})},
      {"rank_8", counting(DType::i16, {1, 2, 1, 2, 1, 2, 1, 2})},
  };
  const Folder folder;
  for (const Row& row : rows) {
    const std::string name = row.name, path = made("npy/" + name + ".npy");
    CAPTURE(name);
    CHECK(bitwise_equal(read_npy(path), row.expected));
    if (name.size() == 2 && name[1] != '1')
      CHECK(bitwise_equal(read_npy(made("npy/" + name + "_big_endian.npy")), row.expected));
    // What is written is NumPy's file to the byte, where that is of the version and order that are written.
    const bool plain = name.find('_') == std::string::npos && name != "fortran" && name != "u2";
    write_npy(folder / name, row.expected);
    CHECK(bitwise_equal(read_npy(folder / name), row.expected));
    if (plain || name == "rank_8") CHECK(read_file("test", folder / name) == read_file("test", path));
  }
}

TEST_CASE("npy: round trips") {
  const Folder folder;
  for (DType dtype : {DType::f64, DType::f32, DType::f16, DType::i64, DType::i32, DType::i16, DType::i8, DType::u32,
                      DType::u8, DType::boolean})
    for (const Shape& shape : {Shape{}, Shape{7}, Shape{0}, Shape{3, 0, 2}, Shape{2, 1, 3}, Shape{1, 2, 1, 3, 1, 2, 1, 2}}) {
      const Array array = counting(dtype, shape);
      CAPTURE(array);
      write_npy(folder / "x", array);
      CHECK(bitwise_equal(read_npy(folder / "x"), array));
      const Bytes bytes = read_file("test", folder / "x");
      CHECK((static_cast<int64_t>(bytes.size()) - array.bytes()) % 64 == 0);
    }
  CHECK(error_of([&] { write_npy(folder / "half", Array::zeros(DType::bf16, {2})); }) ==
        "[npy] " + (folder / "half") + ": NumPy has no bf16; convert it to f32");
  CHECK(contains(error_of([&] { write_npy(folder / "none", Array()); }), "expected an array, got an empty one"));
  CHECK(folder.names() == std::vector<std::string>{"x"});
}

TEST_CASE("npy: the same array in other words") {
  const Folder folder;
  const Array expected = Array::from<int16_t>({2, 1}, {1, -1});
  const Bytes values = {1, 0, 0xff, 0xff};
  for (const char* header : {"{'descr': '<i2', 'fortran_order': False, 'shape': (2, 1), }\n",
                             "{\"shape\":(2L,1L),\"fortran_order\":True,\"descr\":\"=i2\"}",
                             "{ 'fortran_order' : False , 'descr' : 'i2' , 'shape' : ( 2 , 1 , ) }     "}) {
    CAPTURE(header);
    CHECK(bitwise_equal(read_npy(written(folder / "x", npy(header, values))), expected));
    CHECK(bitwise_equal(read_npy(written(folder / "x", npy(header, values, 2))), expected));
  }
}

TEST_CASE("npy: what is refused") {
  const Folder folder;
  for (const auto& [name, expected] : std::vector<std::pair<std::string, std::string>>{
           {"u8", "integers of this width (\"<u8\") are not supported, expected numbers or bools"},
           {"complex", "complex numbers (\"<c16\") are not supported, expected numbers or bools"},
           {"text", "strings (\"<U2\") are not supported, expected numbers or bools"},
           {"records", "records are not supported, expected numbers or bools"},
           {"objects", "Python objects (\"|O\") are not supported, expected numbers or bools"},
           {"dates", "dates and times (\"<M8[D]\") are not supported, expected numbers or bools"}}) {
    const std::string path = made("npy/" + name + "_refused.npy");
    CHECK(error_of([&] { read_npy(path); }) == "[npy] " + path + ": " + expected);
  }
  const auto with = [](const std::string& descr, const std::string& shape) {
    return npy("{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }\n", {1, 2, 3, 4});
  };
  struct Row {
    Bytes bytes;
    const char* expected;
  };
  const Row rows[] = {
      {{}, "expected the magic number \\x93NUMPY of a .npy file, got another"},
      {{'P', 'K', 3, 4, 0, 0, 0, 0, 0, 0}, "expected the magic number"},
      {{0x93, 'N', 'U', 'M', 'P', 'Y', 1}, "expected a header, got a file of 7 bytes"},
      {npy("{}", {}, 4), "expected version 1.0, 2.0 or 3.0 of .npy, got 4.0"},
      {first(with("<f4", "(1,)"), 40), "expected a header of 68 bytes, got 40 bytes"},
      {{0x93, 'N', 'U', 'M', 'P', 'Y', 2, 0, 0, 0, 2, 0}, "at most 65536 bytes, got a length of 131072"},
      {with("<f4", "(2,)"), "expected 8 bytes of values for shape [2], got 4"},
      {joined(with("<f4", "()"), {0}), "expected 4 bytes of values for shape [], got 5"},
      {with("<f4", "(2)"), "got another at its byte"},
      {with("<f4", "(2 2)"), "got another at its byte"},
      {with("<f4", "(-1,)"), "got another at its byte"},
      {with("<f4", "(1, 1, 1, 1, 1, 1, 1, 1, 1)"), "expected at most 8 dimensions, got more"},
      {with("<f4", "(9223372036854775808,)"), "expected sizes that fit in memory, got one beyond 2^63"},
      {with("<f4", "(4611686018427387904, 4)"), "expected sizes that fit in memory, got [4611686018427387904,4]"},
      {with("<f4", "(0, 4611686018427387904, 4)"), "expected sizes that fit in memory"},
      {with("<f4", "(4611686018427387,)"), "expected 18446744073709548 bytes of values"},
      {with("|b1", "(4,)"), "expected bools of 0 and 1, got 2"},
      {with("<f16", "(1,)"), "floats of this width (\"<f16\") are not supported"},
      {with("|V2", "(2,)"), "raw bytes (\"|V2\") are not supported"},
      {with("", "(4,)"), "elements of this type (\"\") are not supported"},
      {npy("{'descr': '<f4', 'shape': (1,)}", {0, 0, 0, 0}), "expected a header {'descr': ..., 'fortran_order': ..."},
      {npy("{'descr': '<f4', 'descr': '<i4', 'fortran_order': False, 'shape': (1,)}", {0, 0, 0, 0}), "got another at"},
      {npy("{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}", {0, 0, 0, 0}), "got another at its byte 34"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x", {0, 0, 0, 0}), "got another at"},
      {npy("{'descr': '<f4", {0, 0, 0, 0}), "got another at"},
  };
  for (const Row& row : rows) {
    const std::string path = written(folder / "bad", row.bytes);
    const std::string text = error_of([&] { read_npy(path); });
    CAPTURE(text);
    CHECK(contains(text, "[npy] " + path + ": "));
    CHECK(contains(text, row.expected));
  }
}
