// safetensors: what comes back, and what a header may not say.
#include <cstring>
#include <limits>
#include <map>
#include <numbers>

#include "engine/io/file.hpp"
#include "engine/io/safetensors.hpp"
#include "tests/engine/io.hpp"

using namespace backbeat;

namespace {

NamedArrays one_of_each() {
  return {{"flags", Array::from<bool>({3}, {true, false, true})},
          {"critic/dense_1/weight",
           Array::from<float>({2, 2}, {1.0f, -0.0f, 1e-40f, std::numeric_limits<float>::quiet_NaN()})},
          {"double", Array::from<double>({1}, {std::numbers::pi})},
          {"half", Array::from<bf16>({3}, {bf16(1.0f), bf16(-2.5f), bf16(3e38f)})},
          {"step", Array::scalar<int64_t>(int64_t{1} << 60)},
          {"labels", Array::from<int32_t>({2}, {-1, 7})},
          {"narrow", Array::from<f16>({3}, {f16(1.0f), f16(6e-8f), f16(-65504.0f)})},
          {"short", Array::from<int16_t>({2}, {-32768, 32767})},
          {"tiny", Array::from<int8_t>({1, 1}, {-128})},
          {"pixels", Array::from<uint8_t>({2}, {0, 255})},
          {"scalar", Array::scalar(2.0f)},
          {"deep", Array::from<int16_t>({1, 2, 1, 1, 1, 1, 1, 2}, {1, 2, 3, 4})},
          {"key", Array::from<uint32_t>({2}, {0, UINT32_MAX})},
          {"nothing", Array(DType::f32, {0, 4})}};
}

Bytes safetensors(const std::string& header, const Bytes& data = {}) {
  Bytes bytes(8, 0);
  const uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, 8);
  return joined(joined(bytes, Bytes(header.begin(), header.end())), data);
}

}  // namespace

// Files with all eleven dtypes as a scalar, [2,3], [3,0,4] and of rank 8, 44 arrays, were also read by the format's own
// library (safetensors 0.8.0, values compared): into NumPy 2.4.6 the 40 that are not bf16, which NumPy lacks; into PyTorch
// 1.13 the 40 that are not u32, which that version lacks. NumPy read the same arrays but bf16 from .npy and .npz.
TEST_CASE("safetensors: every dtype, the order and the metadata come back") {
  const Folder folder;
  const std::map<std::string, std::string> metadata = {{"model", "wgan-gp"}, {"note", "quote \" and\nline, \u00e9"}};
  write_safetensors(folder / "a", one_of_each(), metadata);
  const SafetensorsFile file = read_safetensors(folder / "a");
  check_same(file.arrays, one_of_each());
  CHECK(file.metadata == metadata);

  // Every array is aligned to its elements within the file.
  const Bytes bytes = read_file("test", folder / "a");
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  CHECK(length % 8 == 0);
  CHECK(bytes.size() == 8 + length + 8 + 8 + 16 + 8 + 8 + 4 + 6 + 6 + 4 + 8 + 1 + 2 + 3);
  double first_value = 0;
  std::memcpy(&first_value, bytes.data() + 8 + length, 8);
  CHECK(first_value == std::numbers::pi);

  write_safetensors(folder / "b", {});
  CHECK(read_safetensors(folder / "b").arrays.empty());
}

TEST_CASE("safetensors: a file laid out by hand") {
  const Folder folder;
  const Bytes bytes =
      safetensors(R"({"__metadata__":{"format":"pt"},"b":{"dtype":"I32","shape":[1],"data_offsets":[8,12]},)"
                  R"("a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]}}  )",
                  {0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0, 5, 0, 0, 0});
  const SafetensorsFile file = read_safetensors(written(folder / "hand", bytes));
  check_same(file.arrays, {{"b", Array::from<int32_t>({1}, {5})}, {"a", Array::from<float>({2, 1}, {1, -2})}});
  CHECK(file.metadata.at("format") == "pt");
}

TEST_CASE("safetensors: every dtype of a file made by the format's own library") {
  const SafetensorsFile file = read_safetensors(made("safetensors/every.safetensors"));
  CHECK(file.metadata.at("note") == "every dtype");
  const Shape shape = {2, 3};
  const Array from_minus_2 = Array::from<double>(shape, {-2, -1, 0, 1, 2, 3});
  const Array from_0 = Array::from<double>(shape, {0, 1, 2, 3, 4, 5});
  const std::map<std::string, Array> expected = {{"F64", from_minus_2},
                                                 {"F32", from_minus_2.converted(DType::f32)},
                                                 {"BF16", from_minus_2.converted(DType::bf16)},
                                                 {"F16", from_minus_2.converted(DType::f16)},
                                                 {"I64", from_minus_2.converted(DType::i64)},
                                                 {"I32", from_minus_2.converted(DType::i32)},
                                                 {"I16", from_minus_2.converted(DType::i16)},
                                                 {"I8", from_minus_2.converted(DType::i8)},
                                                 {"U32", from_0.converted(DType::u32)},
                                                 {"U8", from_0.converted(DType::u8)},
                                                 {"BOOL", Array::from<bool>(shape, {0, 1, 0, 1, 0, 1})}};
  CHECK(file.arrays.size() == expected.size());
  for (const auto& [name, array] : file.arrays) {
    CAPTURE(name);
    CHECK(bitwise_equal(array, expected.at(name)));
  }
  CHECK(contains(error_of([] { read_safetensors(made("safetensors/u16_refused.safetensors")); }),
                 "\"a\": expected dtype F64, F32, BF16, F16, I64, I32, I16, I8, U32, U8 or BOOL, got \"U16\""));
}

TEST_CASE("safetensors: a byte too long is an error") {
  const Folder folder;
  write_safetensors(folder / "whole", one_of_each());
  const Bytes longer = joined(read_file("test", folder / "whole"), {0});
  CHECK(contains(error_of([&] { read_safetensors(written(folder / "long", longer)); }), "expected "));
}

TEST_CASE("safetensors: what a header may not say") {
  const Folder folder;
  struct Row {
    const char* header;
    const char* expected;
  };
  const Row rows[] = {
      {"[]", "expected a JSON object as header, got array"},
      {"{", "expected a JSON header, got a syntax error"},
      {"\xff", "expected a JSON header, got a syntax error"},
      {R"({"a":1})", "\"a\": expected an object, got number"},
      {R"({"a":{"shape":[1],"data_offsets":[0,4]}})", "expected a field 'dtype', got none"},
      {R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", "expected a field 'shape', got none"},
      {R"({"a":{"dtype":"F32","shape":[1]}})", "expected a field 'data_offsets', got none"},
      {R"({"a":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]}})",
       "expected dtype F64, F32, BF16, F16, I64, I32, I16, I8, U32, U8 or BOOL, got \"F8_E4M3\""},
      {R"({"a":{"dtype":"C64","shape":[4],"data_offsets":[0,4]}})", "or BOOL, got \"C64\""},
      {R"({"a":{"dtype":"F32","shape":[0,4611686018427387904,4],"data_offsets":[0,0]}})",
       "expected sizes that fit in memory"},
      {R"({"a":{"dtype":"F32","shape":[1e999],"data_offsets":[0,4]}})", "got a number beyond any double"},
      {R"({"a":{"dtype":7,"shape":[1],"data_offsets":[0,4]}})", "got number"},
      {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "expected sizes that fit in memory"},
      {R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", "expected sizes that fit in memory"},
      {R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,4]}})",
       "expected sizes that fit in memory"},
      {R"({"a":{"dtype":"F32","shape":[99999999999999999999],"data_offsets":[0,4]}})",
       "expected sizes that fit in memory"},
      {R"({"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]}})",
       "expected a shape of at most 8 sizes, got 9"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "expected 8 bytes for f32[2], got 4"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "within the 4 bytes after the header"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", "expected data offsets [begin,end]"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", "expected data offsets [begin,end]"},
      {R"({"a":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"BOOL","shape":[2],"data_offsets":[2,4]}})",
       "overlapping"},
      {R"({"a":{"dtype":"BOOL","shape":[3],"data_offsets":[1,4]}})", "expected to begin at byte 0, got 1 (a gap)"},
      {R"({"a":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}})", "expected 3 bytes after the header, got 4"},
      {R"({"a":{"dtype":"BOOL","shape":[4],"data_offsets":[0,4]}})", "expected bools of 0 and 1, got 2"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
       "expected each name once, got \"a\" twice"},
      {R"({"a":{"dtype":"F32","dtype":"I32","shape":[1],"data_offsets":[0,4]}})",
       "expected each name once, got \"dtype\" twice"},
      {R"({"a":{"dtype":[[[[1]]]],"shape":[1],"data_offsets":[0,4]}})", "at most three levels"},
      {R"({"__metadata__":{"a":1}})", "expected metadata \"a\" to be a string"},
      {R"({"__metadata__":3})", "expected __metadata__ to be an object"},
  };
  for (const Row& row : rows) {
    const std::string path = written(folder / "bad", safetensors(row.header, {2, 1, 1, 1}));
    const std::string text = error_of([&] { read_safetensors(path); });
    CAPTURE(text);
    CHECK(contains(text, "[safetensors] " + path + ": "));
    CHECK(contains(text, row.expected));
  }
  Bytes long_header = safetensors("{}");
  long_header[7] = 0x7f;
  CHECK(contains(error_of([&] { read_safetensors(written(folder / "long", long_header)); }),
                 "expected a header of at most 2 bytes"));
}

TEST_CASE("safetensors: what cannot be written") {
  const Folder folder;
  const Array one = Array::scalar(1.0f);
  const auto text_for = [&](const NamedArrays& arrays) {
    return error_of([&] { write_safetensors(folder / "x", arrays); });
  };
  CHECK(contains(text_for({{"a", one}, {"a", one}}), "expected each name once"));
  CHECK(contains(text_for({{"__metadata__", one}}), "none called __metadata__"));
  CHECK(contains(text_for({{"a", Array()}}), "\"a\": expected an array, got an empty one"));
  CHECK(contains(text_for({{"\xff", one}}), "UTF-8"));
  CHECK(contains(error_of([&] { write_safetensors(folder / "no/x", {{"a", one}}); }), "cannot write: No such file"));
  CHECK(contains(error_of([&] { write_safetensors(folder / ".", {{"a", one}}); }), "cannot write: Is a directory"));
  CHECK(folder.names().empty());
}
