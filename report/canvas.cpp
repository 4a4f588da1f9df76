#include "report/canvas.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace backbeat {

namespace {

// A stroke of a letter: part of an ellipse (angles in degrees, anticlockwise from the right), or a straight line.
// Letters stand on y = 0 and grow upwards; a digit is 1 high.
struct Stroke {
  bool curved;
  float a, b, c, d, from, to;
};
constexpr Stroke line(float x0, float y0, float x1, float y1) { return {false, x0, y0, x1, y1, 0, 0}; }
constexpr Stroke arc(float x, float y, float radius_x, float radius_y, float from = 0, float to = 360) {
  return {true, x, y, radius_x, radius_y, from, to};
}
constexpr Stroke dot(float x, float y) { return line(x, y, x, y); }

struct Glyph {
  char letter;
  float advance;
  std::vector<Stroke> strokes;
};

const std::vector<Glyph>& font() {
  static const std::vector<Glyph> glyphs = {
      {'0', .78f, {arc(.28f, .5f, .28f, .5f)}},
      {'1', .78f, {line(.1f, .8f, .32f, 1), line(.32f, 1, .32f, 0)}},
      {'2', .78f, {arc(.27f, .72f, .26f, .28f, 165, -38), line(.475f, .548f, .01f, 0), line(.01f, 0, .55f, 0)}},
      {'3', .78f, {arc(.26f, .76f, .23f, .24f, 150, -90), arc(.26f, .26f, .27f, .26f, 90, -155)}},
      {'4', .78f, {line(.43f, 0, .43f, 1), line(.43f, 1, 0, .29f), line(0, .29f, .58f, .29f)}},
      {'5', .78f, {line(.5f, 1, .1f, 1), line(.1f, 1, .05f, .5f), arc(.26f, .33f, .28f, .33f, 138, -150)}},
      {'6', .78f, {arc(.28f, .31f, .27f, .31f), arc(.5f, .31f, .49f, .69f, 100, 180)}},
      {'7', .78f, {line(0, 1, .55f, 1), line(.55f, 1, .18f, 0)}},
      {'8', .78f, {arc(.28f, .76f, .23f, .24f), arc(.28f, .26f, .27f, .26f)}},
      {'9', .78f, {arc(.28f, .69f, .27f, .31f), arc(.06f, .69f, .49f, .69f, 280, 360)}},
      {'-', .62f, {line(.04f, .42f, .42f, .42f)}},
      {'+', .72f, {line(.04f, .42f, .52f, .42f), line(.28f, .18f, .28f, .66f)}},
      {'.', .34f, {dot(.1f, .02f)}},
      {' ', .40f, {}},
      {'a', .78f, {arc(.26f, .33f, .25f, .33f), line(.52f, 0, .52f, .66f)}},
      {'c', .68f, {arc(.28f, .33f, .27f, .33f, 48, 312)}},
      {'d', .78f, {arc(.26f, .33f, .25f, .33f), line(.52f, 0, .52f, 1)}},
      {'e', .76f, {line(.02f, .35f, .54f, .35f), arc(.28f, .33f, .26f, .33f, 4, 312)}},
      {'g', .78f, {arc(.26f, .33f, .25f, .33f), line(.52f, .66f, .52f, -.06f), arc(.27f, -.06f, .25f, .24f, 0, -140)}},
      {'i', .30f, {line(.06f, 0, .06f, .66f), dot(.06f, .92f)}},
      {'l', .30f, {line(.06f, 0, .06f, 1)}},
      {'n', .74f, {line(.05f, 0, .05f, .66f), arc(.28f, .4f, .23f, .26f, 180, 0), line(.51f, .4f, .51f, 0)}},
      {'r', .50f, {line(.05f, 0, .05f, .66f), arc(.29f, .38f, .24f, .28f, 180, 70)}},
      {'t', .50f, {line(.17f, .92f, .17f, .16f), arc(.32f, .16f, .15f, .16f, 180, 285), line(.01f, .66f, .36f, .66f)}},
  };
  return glyphs;
}

const Glyph& glyph_of(char letter) {
  for (const Glyph& g : font())
    if (g.letter == letter) return g;
  return glyph_of(' ');
}

void add_stroke(const Stroke& s, float x, float y, float size, std::vector<Segment>& out) {
  if (!s.curved) {
    out.push_back({x + s.a * size, y - s.b * size, x + s.c * size, y - s.d * size});
    return;
  }
  constexpr int pieces = 24;
  const auto at = [&](int k) {
    const float angle = (s.from + (s.to - s.from) * static_cast<float>(k) / pieces) * (std::numbers::pi_v<float> / 180);
    return std::pair(x + (s.a + s.c * std::cos(angle)) * size, y - (s.b + s.d * std::sin(angle)) * size);
  };
  for (int k = 0; k < pieces; ++k) out.push_back({at(k).first, at(k).second, at(k + 1).first, at(k + 1).second});
}

float distance_to(const Segment& s, float x, float y) {
  const float dx = s.x1 - s.x0, dy = s.y1 - s.y0, square = dx * dx + dy * dy;
  const float along = square > 0 ? std::clamp(((x - s.x0) * dx + (y - s.y0) * dy) / square, 0.0f, 1.0f) : 0.0f;
  return std::hypot(x - s.x0 - along * dx, y - s.y0 - along * dy);
}

// The pixels that an area touches: first and one past the last.
struct Pixels {
  int64_t left, top, right, bottom;
};
Pixels pixels_of(Box area, Box clip) {
  return {static_cast<int64_t>(std::floor(std::max(area.left, clip.left))),
          static_cast<int64_t>(std::floor(std::max(area.top, clip.top))),
          static_cast<int64_t>(std::ceil(std::min(area.right, clip.right))),
          static_cast<int64_t>(std::ceil(std::min(area.bottom, clip.bottom)))};
}

float overlap(float pixel, float from, float to) {  // of [pixel, pixel + 1] and [from, to]
  return std::max(0.0f, std::min(pixel + 1, to) - std::max(pixel, from));
}

}  // namespace

Colour mix(Colour a, Colour b, float share) {
  return {a.red + (b.red - a.red) * share, a.green + (b.green - a.green) * share, a.blue + (b.blue - a.blue) * share};
}

Canvas::Canvas(int64_t width, int64_t height, Colour background)
    : width_(width), height_(height), pixels_(static_cast<size_t>(width * height), background) {}

void Canvas::blend(int64_t x, int64_t y, Colour c, float coverage) {
  if (x < 0 || y < 0 || x >= width_ || y >= height_) return;
  Colour& pixel = pixels_[static_cast<size_t>(y * width_ + x)];
  pixel = mix(pixel, c, coverage);
}

void Canvas::box(Box area, Colour c) {
  const Pixels p = pixels_of(area, whole());
  for (int64_t y = p.top; y < p.bottom; ++y)
    for (int64_t x = p.left; x < p.right; ++x)
      blend(x, y, c,
            overlap(static_cast<float>(x), area.left, area.right) *
                overlap(static_cast<float>(y), area.top, area.bottom));
}

void Canvas::disc(float x, float y, float radius, Colour c, float opacity, Box clip) {
  const Pixels p = pixels_of({x - radius - 1, y - radius - 1, x + radius + 1, y + radius + 1}, clip);
  for (int64_t row = p.top; row < p.bottom; ++row)
    for (int64_t column = p.left; column < p.right; ++column) {
      const float distance = std::hypot(static_cast<float>(column) + 0.5f - x, static_cast<float>(row) + 0.5f - y);
      blend(column, row, c, opacity * std::clamp(radius + 0.5f - distance, 0.0f, 1.0f));
    }
}

void Canvas::lines(const std::vector<Segment>& segments, float line_width, Colour c, float opacity, Box clip) {
  std::vector<float> coverage(pixels_.size(), 0.0f);
  const float reach = line_width / 2 + 0.5f;
  for (const Segment& s : segments) {
    const Pixels p = pixels_of({std::min(s.x0, s.x1) - reach, std::min(s.y0, s.y1) - reach,
                                std::max(s.x0, s.x1) + reach, std::max(s.y0, s.y1) + reach},
                               clip);
    for (int64_t y = std::max<int64_t>(p.top, 0); y < std::min(p.bottom, height_); ++y)
      for (int64_t x = std::max<int64_t>(p.left, 0); x < std::min(p.right, width_); ++x) {
        float& pixel = coverage[static_cast<size_t>(y * width_ + x)];
        const float distance = distance_to(s, static_cast<float>(x) + 0.5f, static_cast<float>(y) + 0.5f);
        pixel = std::max(pixel, std::clamp(reach - distance, 0.0f, std::min(1.0f, line_width)));
      }
  }
  for (size_t i = 0; i < pixels_.size(); ++i) pixels_[i] = mix(pixels_[i], c, coverage[i] * opacity);
}

void Canvas::text(float x, float y, float size, std::string_view words, Colour c, Align align) {
  float length = 0;
  for (char letter : words) length += glyph_of(letter).advance * size;
  length -= 0.2f * size;  // the space after the last letter
  if (align == Align::centre) x -= length / 2;
  if (align == Align::right) x -= length;
  std::vector<Segment> segments;
  for (char letter : words) {
    const Glyph& glyph = glyph_of(letter);
    for (const Stroke& stroke : glyph.strokes) add_stroke(stroke, x, y, size, segments);
    x += glyph.advance * size;
  }
  lines(segments, std::max(1.0f, 0.12f * size), c, 1, whole());
}

Image Canvas::image() const {
  Image out{width_, height_, {}};
  out.rgb.reserve(pixels_.size() * 3);
  for (const Colour& c : pixels_)
    for (float part : {c.red, c.green, c.blue})
      out.rgb.push_back(static_cast<uint8_t>(std::lround(std::clamp(part, 0.0f, 1.0f) * 255)));
  return out;
}

}  // namespace backbeat
