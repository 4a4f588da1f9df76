#include "report/png.hpp"

#include <png.h>

#include <cstring>
#include <span>

#include "engine/error.hpp"
#include "engine/io/file.hpp"

namespace backbeat {

namespace {

constexpr int64_t largest_side = 1 << 15;  // 3 GiB of pixels at most: every product below fits

class PngImage {  // libpng's simplified interface, which reports errors without jumping over destructors
 public:
  PngImage() {
    std::memset(&image, 0, sizeof image);
    image.version = PNG_IMAGE_VERSION;
    image.format = PNG_FORMAT_RGB;
  }
  PngImage(const PngImage&) = delete;
  PngImage& operator=(const PngImage&) = delete;
  ~PngImage() { png_image_free(&image); }

  png_image image;
};

}  // namespace

std::vector<uint8_t> png_bytes(const Image& in) {
  if (in.width < 1 || in.height < 1 || in.width > largest_side || in.height > largest_side ||
      static_cast<int64_t>(in.rgb.size()) != in.width * in.height * 3)
    fail("png", "expected 1 to ", largest_side, " pixels a side and 3 bytes a pixel, got ", in.width, " x ", in.height,
         " with ", in.rgb.size(), " bytes");
  PngImage png;
  png.image.width = static_cast<png_uint_32>(in.width);
  png.image.height = static_cast<png_uint_32>(in.height);
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(png.image);
  std::vector<uint8_t> bytes(size);
  if (!png_image_write_to_memory(&png.image, bytes.data(), &size, 0, in.rgb.data(), 0, nullptr))
    throw RunError(concat("[png] cannot encode: ", png.image.message));
  bytes.resize(size);
  return bytes;
}

void write_png(const std::string& path, const Image& image) {
  const std::vector<uint8_t> bytes = png_bytes(image);
  write_file_atomically("png", path, {std::as_bytes(std::span(bytes))});
}

Image read_png(const std::string& path) {
  const std::vector<uint8_t> bytes = read_file("png", path);
  PngImage png;
  if (!png_image_begin_read_from_memory(&png.image, bytes.data(), bytes.size()))
    fail("png", path, ": expected a PNG file: ", png.image.message);
  if (png.image.width > largest_side || png.image.height > largest_side)
    fail("png", path, ": expected at most ", largest_side, " pixels a side, got ", png.image.width, " x ",
         png.image.height);
  png.image.format = PNG_FORMAT_RGB;
  Image out{png.image.width, png.image.height, {}};
  out.rgb.resize(static_cast<size_t>(out.width * out.height * 3));
  if (!png_image_finish_read(&png.image, nullptr, out.rgb.data(), 0, nullptr))
    fail("png", path, ": expected a complete PNG file: ", png.image.message);
  return out;
}

}  // namespace backbeat
