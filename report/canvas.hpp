// A drawing surface with soft edges: areas, discs, lines, and a small font made of lines.
// Positions are in pixels from the top left corner; the centre of the first pixel is (0.5, 0.5).
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "report/png.hpp"

namespace backbeat {

struct Colour {
  float red = 0, green = 0, blue = 0;  // 0 ... 1
};
constexpr Colour colour(uint32_t rgb) {  // colour(0xff8800)
  return {static_cast<float>(rgb >> 16 & 255) / 255, static_cast<float>(rgb >> 8 & 255) / 255,
          static_cast<float>(rgb & 255) / 255};
}
Colour mix(Colour a, Colour b, float share_of_b);

struct Segment {
  float x0 = 0, y0 = 0, x1 = 0, y1 = 0;
};
struct Box {
  float left = 0, top = 0, right = 0, bottom = 0;
};

enum class Align { left, centre, right };

class Canvas {
 public:
  Canvas(int64_t width, int64_t height, Colour background);

  int64_t width() const { return width_; }
  int64_t height() const { return height_; }
  void blend(int64_t x, int64_t y, Colour c, float coverage);  // outside the canvas: nothing
  void box(Box area, Colour c);
  void disc(float x, float y, float radius, Colour c, float opacity, Box clip);
  // All at once, so that crossing and touching segments do not darken each other.
  void lines(const std::vector<Segment>& segments, float line_width, Colour c, float opacity, Box clip);
  // `y` is the base line, `size` the height of a digit. The font has digits, + - . space and the letters a c d e g i l
  // n r t.
  void text(float x, float y, float size, std::string_view words, Colour c, Align align = Align::left);

  Box whole() const { return {0, 0, static_cast<float>(width_), static_cast<float>(height_)}; }
  Image image() const;

 private:
  int64_t width_, height_;
  std::vector<Colour> pixels_;
};

}  // namespace backbeat
