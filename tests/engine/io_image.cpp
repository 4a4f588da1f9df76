// Pictures: files made by Pillow, and what is refused.
#include "engine/io/image.hpp"

#include <cmath>

#include "engine/io/file.hpp"
#include "report/png.hpp"
#include "tests/engine/io.hpp"

using namespace backbeat;

namespace {

// As tests/data/io/make.py draws them: the value of a sample from its row, column and channel.
template <class Value>
Array drawn(int64_t channels, Value&& value) {
  Array array(DType::u8, {4, 6, channels});
  int64_t i = 0;
  for (int y = 0; y < 4; ++y)
    for (int x = 0; x < 6; ++x)
      for (int c = 0; c < channels; ++c) array.set(i++, value(y, x, c));
  return array;
}

}  // namespace

TEST_CASE("image: PNG of every kind, values as they are") {
  const auto ramp = [](int y, int x, int c) { return 40 * y + 10 * x + c; };
  const int palette[3][3] = {{0, 0, 0}, {10, 20, 30}, {255, 128, 0}};
  const std::pair<const char*, Array> rows[] = {
      {"l", drawn(1, ramp)},
      {"la", drawn(2, ramp)},
      {"rgb", drawn(3, ramp)},
      {"rgba", drawn(4, ramp)},
      {"one_bit", drawn(1, [](int y, int x, int) { return 255 * ((x + y) % 2); })},
      {"palette", drawn(3, [&](int y, int x, int c) { return palette[(x + y) % 3][c]; })},
      {"interlaced", drawn(1, ramp)},  // and marked with a gamma of 1, which is left to the reader
  };
  for (const auto& [name, expected] : rows) {
    CAPTURE(name);
    CHECK(bitwise_equal(read_image(made(concat("image/", name, ".png"))), expected));
  }
  const std::string path = made("image/sixteen_refused.png");
  CHECK(error_of([&] { read_image(path); }) == "[png] " + path + ": expected at most 8 bits a sample, got 16");
}

TEST_CASE("image: a PNG of our own comes back") {
  const Folder folder;
  Image image{3, 2, {}};
  for (int i = 0; i < 18; ++i) image.rgb.push_back(static_cast<uint8_t>(14 * i));
  write_png(folder / "x", image);
  CHECK(bitwise_equal(read_image(folder / "x"), Array::from<uint8_t>({2, 3, 3}, image.rgb)));
}

TEST_CASE("image: JPEG, grey, colour and progressive") {
  struct Row {
    const char* name;
    std::vector<double> colour;
  };
  for (const Row& row : {Row{"grey", {100}}, Row{"rgb", {200, 100, 50}}, Row{"progressive", {200, 100, 50}}}) {
    const Array image = read_image(made(concat("image/", row.name, ".jpg")));
    CAPTURE(row.name);
    const int64_t channels = static_cast<int64_t>(row.colour.size());
    REQUIRE(image.shape() == Shape{7, 9, channels});
    for (int64_t i = 0; i < image.size(); ++i)  // to the rounding of a colour into brightness and two differences
      CHECK(std::abs(image.at(i) - row.colour[static_cast<size_t>(i % channels)]) <= 2);
  }
  const std::string path = made("image/cmyk_refused.jpg");
  CHECK(error_of([&] { read_image(path); }) == "[jpeg] " + path + ": expected grey or RGB, got CMYK");
}

TEST_CASE("image: sizes that the file cannot hold are refused before anything is allocated") {
  const Folder folder;
  const auto put_u16 = [](Bytes& bytes, size_t at, int value) {
    bytes[at] = static_cast<uint8_t>(value >> 8);
    bytes[at + 1] = static_cast<uint8_t>(value);
  };
  Bytes png = read_file("test", made("image/rgb.png"));
  const auto png_text = [&](int side) {
    put_u16(png, 18, side);
    put_u16(png, 22, side);
    const uint32_t sum = static_cast<uint32_t>(crc32_z(0, png.data() + 12, 17));
    put_u16(png, 29, static_cast<int>(sum >> 16));
    put_u16(png, 31, static_cast<int>(sum & 0xffff));
    return error_of([&] { read_image(written(folder / "x.png", png)); });
  };
  CHECK(contains(png_text(30000), "bytes can hold, got 30000 x 30000"));
  CHECK(contains(png_text(40000), "expected 1 to 32768 pixels a side, got 40000 x 40000"));

  Bytes jpeg = read_file("test", made("image/grey.jpg"));
  const Bytes frame = {0xff, 0xc0, 0, 11, 8};
  const auto found = std::search(jpeg.begin(), jpeg.end(), frame.begin(), frame.end());
  REQUIRE(found != jpeg.end());
  const size_t at = static_cast<size_t>(found - jpeg.begin()) + 5;
  const auto jpeg_text = [&](int side) {
    put_u16(jpeg, at, side);
    put_u16(jpeg, at + 2, side);
    return error_of([&] { read_image(written(folder / "x.jpg", jpeg)); });
  };
  CHECK(contains(jpeg_text(30000), "bytes can hold, got 30000 x 30000"));
  CHECK(contains(jpeg_text(40000), "expected 1 to 32768 pixels a side, got 40000 x 40000"));
  CHECK(contains(jpeg_text(100), "expected a complete JPEG file, got a damaged one"));

  CHECK(contains(error_of([&] { read_image(written(folder / "x.gif", {'G', 'I', 'F'})); }),
                 "expected a PNG or JPEG file, got other bytes"));
  const Bytes longer = joined(read_file("test", made("image/l.png")), {0});
  CHECK(contains(error_of([&] { read_image(written(folder / "y.png", longer)); }), "got 1 bytes more"));
}
