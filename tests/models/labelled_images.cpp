// CIFAR-10's batches and the digits of UCI.
#include "models/data/labelled_images.hpp"

#include "engine/io/file.hpp"
#include "tests/engine/io.hpp"

using namespace backbeat;

TEST_CASE("cifar10: labels, and pixels by colour, row and column") {
  const LabelledImages set = read_cifar10(made("cifar10/one.bin"));
  CHECK(bitwise_equal(set.labels, Array::from<int32_t>({1}, {7})));
  REQUIRE(set.pixels.dtype() == DType::u8);
  REQUIRE(set.pixels.shape() == Shape{1, 3, 32, 32});
  int64_t wrong = 0;
  for (int64_t k = 0; k < 3072; ++k) wrong += set.pixels.at(k) != static_cast<double>(k * k % 251);
  CHECK(wrong == 0);

  const Folder folder;
  const Bytes one = read_file("test", made("cifar10/one.bin"));
  Bytes two = joined(one, one);
  two[3073] = 9;
  const LabelledImages both = read_cifar10(written(folder / "two", two));
  CHECK(bitwise_equal(both.labels, Array::from<int32_t>({2}, {7, 9})));
  CHECK(both.pixels.at(3072 + 20) == 400 % 251);
  two[3073] = 10;
  const std::string path = written(folder / "label", two);
  CHECK(error_of([&] { read_cifar10(path); }) ==
        "[cifar10] " + path + ": record 2 of 2: expected a label of 0 to 9, got 10");
  CHECK(contains(error_of([&] { read_cifar10(written(folder / "cut", first(two, 6145))); }),
                 "expected one or more records of 3073 bytes, got 6145 bytes"));
}

TEST_CASE("digits: plain and gzipped") {
  for (const char* name : {"digits/two.csv", "digits/two.csv.gz"}) {
    const LabelledImages set = read_digits(made(name));
    CHECK(bitwise_equal(set.labels, Array::from<int32_t>({2}, {3, 9})));
    REQUIRE(set.pixels.dtype() == DType::u8);
    REQUIRE(set.pixels.shape() == Shape{2, 1, 8, 8});
    for (int64_t k = 0; k < 64; ++k) {
      CHECK(set.pixels.at(k) == static_cast<double>(k % 17));
      CHECK(set.pixels.at(64 + k) == static_cast<double>(16 - k % 17));
    }
  }
}

TEST_CASE("digits: the line and the column of what is wrong") {
  std::string zeros;
  for (int i = 0; i < 64; ++i) zeros += "0,";
  struct Row {
    std::string text;
    const char* expected;
  };
  const Row rows[] = {
      {"", "expected lines of 64 pixels and a label, got an empty file"},
      {zeros + "1\n" + zeros + "10\n", "line 2, column 65: expected a whole number of 0 to 9, got 10"},
      {zeros + "1\n\n", "line 2, column 1: expected a whole number of 0 to 16, got the end of the line"},
      {"0,17," + zeros, "line 1, column 2: expected a whole number of 0 to 16, got 17"},
      {"0,-1," + zeros, "line 1, column 2: expected a whole number of 0 to 16, got -1"},
      {"0,1.5," + zeros, "line 1, column 2: expected a whole number of 0 to 16, got 1 and no comma"},
      {"0,x," + zeros, "line 1, column 2: expected a whole number of 0 to 16, got something else"},
      {"0,99999999999," + zeros, "line 1, column 2: expected a whole number of 0 to 16, got something else"},
      {"0,3", "line 1, column 2: expected a whole number of 0 to 16, got 3 and the end of the line"},
      {zeros + "1,2\n", "line 1: expected 65 values, got more"},
  };
  const Folder folder;
  for (const Row& row : rows) {
    const Bytes bytes(row.text.begin(), row.text.end());
    const std::string path = written(folder / "bad", bytes), text = error_of([&] { read_digits(path); });
    CAPTURE(text);
    CHECK(contains(text, "[digits] " + path + ": "));
    CHECK(contains(text, row.expected));
    CHECK(contains(error_of([&] { read_digits(written(folder / "bad.gz", gzipped(bytes))); }), row.expected));
  }
  const std::string windows = zeros + "1\r\n" + zeros + " 2";
  CHECK(read_digits(written(folder / "windows", Bytes(windows.begin(), windows.end()))).labels.at(1) == 2);
}
