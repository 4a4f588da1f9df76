// Arrays: how they print, what an index may be, and shapes that no memory holds.
#include "engine/array.hpp"

#include <doctest/doctest.h>

#include <limits>

using namespace backbeat;

TEST_CASE("array: integers print exactly, bools as 0 and 1, floats to six digits") {
  struct Printed {
    Array array;
    const char* text;
  };
  const Printed table[] = {
      {Array::from<int64_t>({2}, {std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()}),
       "i64[2] {9223372036854775807, -9223372036854775808}"},
      {Array::from<int32_t>({2}, {1234567, -2147483647}), "i32[2] {1234567, -2147483647}"},
      {Array::from<uint32_t>({1}, {4294967295u}), "u32[1] {4294967295}"},
      {Array::from<int16_t>({1}, {-32768}), "i16[1] {-32768}"},
      {Array::from<int8_t>({2}, {65, -1}), "i8[2] {65, -1}"},
      {Array::from<uint8_t>({1, 2}, {65, 255}), "u8[1,2] {65, 255}"},
      {Array::from<bool>({2}, {true, false}), "bool[2] {1, 0}"},
      {Array::from<float>({2}, {0.1f, 12345678.0f}), "f32[2] {0.1, 1.23457e+07}"},
      {Array::from<bf16>({1}, {bf16(1.5f)}), "bf16[1] {1.5}"},
      {Array::full(DType::i64, {13}, 1000000007), "i64[13] {1000000007, 1000000007, 1000000007, 1000000007, 1000000007, 1000000007, "
                                                  "1000000007, 1000000007, ... 1000000007}"},
      {Array(DType::i32, {0, 3}), "i32[0,3] {}"},
      {Array(), "f32[] {}"},
  };
  for (const Printed& p : table) CHECK(concat(p.array) == p.text);
}

TEST_CASE("array: an index outside is refused") {
  Array x = Array::zeros(DType::f32, {2});
  CHECK(x.at(1) == 0);
  CHECK_THROWS_WITH_AS(x.at(9), "[array] index 9 is outside of f32[2]", Error);
  CHECK_THROWS_WITH_AS(x.at(-1), "[array] index -1 is outside of f32[2]", Error);
  CHECK_THROWS_WITH_AS(x.set(2, 1), "[array] index 2 is outside of f32[2]", Error);
  CHECK_THROWS_WITH_AS(Array(DType::i8, {0}).at(0), "[array] index 0 is outside of i8[0]", Error);
  CHECK_THROWS_WITH_AS(x.item(), "[item] expected one element, got shape [2]", Error);
  CHECK_THROWS_WITH_AS(Array().item(), "[array] index 0 of an array without a buffer", Error);
}

TEST_CASE("array: shapes that no memory holds") {
  constexpr int64_t large = int64_t{1} << 31;
  CHECK_THROWS_WITH_AS(Array(DType::f32, {large, large}), "[array] f32[2147483648,2147483648] has more bytes than an int64 counts", Error);
  CHECK_THROWS_WITH_AS(Array(DType::i8, {large, large, 4}), "[array] i8[2147483648,2147483648,4] has more bytes than an int64 counts", Error);
  CHECK_THROWS_WITH_AS(Array::zeros(DType::f64, {std::numeric_limits<int64_t>::max()}),
                       "[array] f64[9223372036854775807] has more bytes than an int64 counts", Error);
  CHECK_THROWS_WITH_AS(Array(DType::f32, {2, -1}), "[array] negative dimension in shape [2,-1]", Error);
  // Beyond what a process can address, so it fails wherever memory is overcommitted too.
  CHECK_THROWS_WITH_AS(Array(DType::u8, {large, large}), "[array] no memory for u8[2147483648,2147483648] (4611686018427387904 bytes)",
                       RunError);
}
