// Images as 8-bit RGB, and PNG files of them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace backbeat {

struct Image {
  int64_t width = 0, height = 0;
  std::vector<uint8_t> rgb;  // 3 bytes a pixel, row by row from the top
};

std::vector<uint8_t> png_bytes(const Image& image);           // the file, for embedding in a page
void write_png(const std::string& path, const Image& image);  // atomic
Image read_png(const std::string& path);

}  // namespace backbeat
