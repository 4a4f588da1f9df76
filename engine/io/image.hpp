// Pictures in: PNG through libpng, JPEG through libturbojpeg.
#pragma once
#include <string>

#include "engine/array.hpp"

namespace backbeat {

// u8 [height, width, channels], rows from the top; 1 channel grey, 2 grey and alpha, 3 RGB, 4 RGB and alpha. Values are the
// file's own (no colour profile or gamma is applied); palettes and fewer than 8 bits become 8. The first bytes say which
// format it is. At most 32768 pixels a side, and no more of them than a file of its size can hold. Refused: a PNG of 16
// bits a sample, a JPEG in CMYK, anything cut off or damaged.
Array read_image(const std::string& path);

}  // namespace backbeat
