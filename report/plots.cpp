#include "report/plots.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "report/canvas.hpp"

namespace backbeat {

namespace {

constexpr int64_t grid_side = 128;
constexpr float grid_limit = 3;

constexpr Colour paper = colour(0xffffff);
constexpr Colour ink = colour(0x2b2f38);
constexpr Colour not_a_number = colour(0xff00ff);

// From a low critic value to a high one.
constexpr Colour surface_colours[] = {colour(0x27325e), colour(0x2f5c8a), colour(0x3f8aa3),
                                      colour(0x74b5ab), colour(0xb5d8bd), colour(0xf1f5dc)};

Colour surface_colour(float share) {  // 0 ... 1
  constexpr int64_t last = std::size(surface_colours) - 1;
  const float position = std::clamp(share, 0.0f, 1.0f) * static_cast<float>(last);
  const int64_t below = std::min(static_cast<int64_t>(position), last - 1);
  return mix(surface_colours[below], surface_colours[below + 1], position - static_cast<float>(below));
}

void expect_f32(const char* where, const Array& array, bool fits, const char* expected) {
  if (array.empty() || array.dtype() != DType::f32 || !fits)
    fail(where, "expected f32 ", expected, ", got ", array.dtype(), array.shape());
}

// The critic's values with the levels between its bands.
struct Surface {
  const float* values;
  double lowest = 0, highest = 0;
  double step = 1;
  std::vector<double> levels;  // ascending multiples of step, strictly between lowest and highest

  float at(int64_t i, int64_t j) const { return values[j * grid_side + i]; }

  float between(float i, float j) const {  // bilinear
    const int64_t i0 = std::clamp(static_cast<int64_t>(i), int64_t{0}, grid_side - 2);
    const int64_t j0 = std::clamp(static_cast<int64_t>(j), int64_t{0}, grid_side - 2);
    const float u = std::clamp(i - static_cast<float>(i0), 0.0f, 1.0f);
    const float v = std::clamp(j - static_cast<float>(j0), 0.0f, 1.0f);
    return (at(i0, j0) * (1 - u) + at(i0 + 1, j0) * u) * (1 - v) +
           (at(i0, j0 + 1) * (1 - u) + at(i0 + 1, j0 + 1) * u) * v;
  }

  int64_t band_count() const { return static_cast<int64_t>(levels.size()) + 1; }
  Colour band_colour(int64_t band) const {
    return surface_colour(band_count() == 1 ? 0.5f : static_cast<float>(band) / static_cast<float>(band_count() - 1));
  }
  Colour colour_of(float value) const {
    if (!std::isfinite(value)) return not_a_number;
    return band_colour(std::upper_bound(levels.begin(), levels.end(), value) - levels.begin());
  }
};

double round_step(double rough) {  // the next of 1, 2, 2.5, 5, 10 times a power of ten
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  for (double digit : {1.0, 2.0, 2.5, 5.0})
    if (digit * power >= rough * 0.999) return digit * power;
  return 10 * power;
}

Surface surface_of(const Array& critic_values) {
  Surface s{critic_values.data<float>(),
            std::numeric_limits<double>::infinity(),
            -std::numeric_limits<double>::infinity(),
            1,
            {}};
  for (int64_t i = 0; i < grid_side * grid_side; ++i) {
    const double v = s.values[i];
    if (!std::isfinite(v)) continue;
    s.lowest = std::min(s.lowest, v);
    s.highest = std::max(s.highest, v);
  }
  const double range = s.highest - s.lowest;
  // A surface that is flat to the resolution of its own numbers has no contours worth drawing.
  if (!(range > 1e-6 * std::max(std::fabs(s.lowest), std::fabs(s.highest)))) return s;
  constexpr double bands = 14;
  s.step = round_step(range / bands);
  for (double k = std::floor(s.lowest / s.step) + 1; k * s.step < s.highest; ++k) s.levels.push_back(k * s.step);
  return s;
}

// Marching squares: where the level crosses the sides of each cell, in grid units. A cell crossed on all four sides is
// settled by the value at its middle.
void add_contour(const Surface& s, double level, std::vector<Segment>& out) {
  struct Crossing {
    float x, y;
  };
  for (int64_t j = 0; j + 1 < grid_side; ++j)
    for (int64_t i = 0; i + 1 < grid_side; ++i) {
      const double corner[4] = {s.at(i, j) - level, s.at(i + 1, j) - level, s.at(i + 1, j + 1) - level,
                                s.at(i, j + 1) - level};  // around the cell
      static constexpr float corner_x[4] = {0, 1, 1, 0}, corner_y[4] = {0, 0, 1, 1};
      Crossing crossing[4];
      int count = 0;
      for (int side = 0; side < 4; ++side) {
        const int next = (side + 1) % 4;
        const double a = corner[side], b = corner[next];
        if ((a < 0) == (b < 0) || !std::isfinite(a) || !std::isfinite(b)) continue;
        const float t = static_cast<float>(a / (a - b));
        crossing[count++] = {static_cast<float>(i) + corner_x[side] + t * (corner_x[next] - corner_x[side]),
                             static_cast<float>(j) + corner_y[side] + t * (corner_y[next] - corner_y[side])};
      }
      const auto join = [&](int a, int b) {
        out.push_back({crossing[a].x, crossing[a].y, crossing[b].x, crossing[b].y});
      };
      if (count == 2) join(0, 1);
      if (count == 4) {
        const bool like_first = ((corner[0] + corner[1] + corner[2] + corner[3]) < 0) == (corner[0] < 0);
        join(0, like_first ? 1 : 3);
        join(2, like_first ? 3 : 1);
      }
    }
}

// Where things stand on the page.
constexpr Box frame = {46, 46, 574, 574};
constexpr float page_width = 684, page_height = 620;
constexpr Box bar = {594, 46, 608, 574};
constexpr float text_size = 10;

float page_x(float x) { return frame.left + (x + grid_limit) / (2 * grid_limit) * (frame.right - frame.left); }
float page_y(float y) { return frame.bottom - (y + grid_limit) / (2 * grid_limit) * (frame.bottom - frame.top); }
float plane_of_grid(float i) { return -grid_limit + 2 * grid_limit * i / static_cast<float>(grid_side - 1); }

void draw_surface(Canvas& canvas, const Surface& s) {
  constexpr int samples = 3;  // a side, in each pixel
  const float to_grid = static_cast<float>(grid_side - 1) / (frame.right - frame.left);
  for (int64_t y = static_cast<int64_t>(frame.top); y < static_cast<int64_t>(frame.bottom); ++y)
    for (int64_t x = static_cast<int64_t>(frame.left); x < static_cast<int64_t>(frame.right); ++x) {
      Colour sum;
      for (int k = 0; k < samples * samples; ++k) {
        const float px = static_cast<float>(x) + (static_cast<float>(k % samples) + 0.5f) / samples;
        const float py = static_cast<float>(y) + (static_cast<float>(k / samples) + 0.5f) / samples;
        const Colour c = s.colour_of(s.between((px - frame.left) * to_grid, (frame.bottom - py) * to_grid));
        sum = {sum.red + c.red, sum.green + c.green, sum.blue + c.blue};
      }
      constexpr float share = 1.0f / (samples * samples);
      canvas.blend(x, y, {sum.red * share, sum.green * share, sum.blue * share}, 1);
    }

  std::vector<Segment> contours;
  for (double level : s.levels) add_contour(s, level, contours);
  for (Segment& c : contours)
    c = {page_x(plane_of_grid(c.x0)), page_y(plane_of_grid(c.y0)), page_x(plane_of_grid(c.x1)),
         page_y(plane_of_grid(c.y1))};
  canvas.lines(contours, 1.0f, colour(0x16203c), 0.45f, frame);
}

// Real points are larger and lie below, so that they still show where generated points hit them exactly.
struct Marker {
  Colour fill;
  float radius;
};
constexpr Marker real_marker = {colour(0xffa927), 3.4f};
constexpr Marker generated_marker = {colour(0xd6246e), 2.1f};

void draw_point(Canvas& canvas, float x, float y, Marker marker, Box clip) {
  canvas.disc(x, y, marker.radius + 0.6f, colour(0x1c1420), 0.6f, clip);
  canvas.disc(x, y, marker.radius, marker.fill, 0.95f, clip);
}

void draw_points(Canvas& canvas, const Array& points, Marker marker) {
  const float* p = points.data<float>();
  for (int64_t i = 0; i < points.shape()[0]; ++i, p += 2) {
    // Also false for NaN.
    if (!(std::fabs(p[0]) <= grid_limit && std::fabs(p[1]) <= grid_limit)) continue;
    draw_point(canvas, page_x(p[0]), page_y(p[1]), marker, frame);
  }
}

void draw_outline(Canvas& canvas, Box b) {
  canvas.lines({{b.left, b.top, b.right, b.top},
                {b.right, b.top, b.right, b.bottom},
                {b.right, b.bottom, b.left, b.bottom},
                {b.left, b.bottom, b.left, b.top}},
               1.2f, ink, 1, canvas.whole());
}

void draw_axes(Canvas& canvas) {
  std::vector<Segment> ticks;
  for (int k = -3; k <= 3; ++k) {
    const float x = page_x(static_cast<float>(k)), y = page_y(static_cast<float>(k));
    ticks.push_back({x, frame.bottom, x, frame.bottom + 5});
    ticks.push_back({frame.left - 5, y, frame.left, y});
    canvas.text(x - (k < 0 ? 2.0f : 0.0f), frame.bottom + 21, text_size, std::to_string(k), ink, Align::centre);
    canvas.text(frame.left - 10, y + text_size / 2, text_size, std::to_string(k), ink, Align::right);
  }
  canvas.lines(ticks, 1.2f, ink, 1, canvas.whole());
  draw_outline(canvas, frame);
}

// What each colour stands for: the bar of critic values at the right, the two kinds of point above.
void draw_legend(Canvas& canvas, const Surface& s) {
  const float base = frame.top - 16, middle = base - 0.33f * text_size * 1.2f;
  draw_point(canvas, frame.left + 6, middle, real_marker, canvas.whole());
  canvas.text(frame.left + 18, base, text_size * 1.2f, "real", ink);
  draw_point(canvas, frame.left + 76, middle, generated_marker, canvas.whole());
  canvas.text(frame.left + 88, base, text_size * 1.2f, "generated", ink);
  canvas.text(bar.left, base, text_size * 1.2f, "critic", ink);

  const double range = s.highest - s.lowest;
  const auto bar_y = [&](double value) {
    return bar.bottom - static_cast<float>((value - s.lowest) / range) * (bar.bottom - bar.top);
  };
  float bottom = bar.bottom;
  for (int64_t band = 0; band < s.band_count(); ++band) {
    const bool last = band + 1 == s.band_count();
    const float top = last ? bar.top : bar_y(s.levels[static_cast<size_t>(band)]);
    canvas.box({bar.left, top, bar.right, bottom}, s.band_colour(band));
    bottom = top;
  }
  if (s.levels.empty()) return draw_outline(canvas, bar);
  // Every second level is enough to read from; zero, if there is one, is among them. As many digits as tell them apart.
  const double largest = std::max(std::fabs(s.lowest), std::fabs(s.highest));
  const int digits = std::clamp(static_cast<int>(std::ceil(std::log10(largest / s.step))) + 1, 2, 8);
  for (double level : s.levels) {
    if (std::llround(level / s.step) % 2 != 0) continue;
    char label[32];
    std::snprintf(label, sizeof label, "%.*g", digits, level == 0 ? 0.0 : level);
    canvas.lines({{bar.right, bar_y(level), bar.right + 4, bar_y(level)}}, 1.2f, ink, 1, canvas.whole());
    canvas.text(bar.right + 8, bar_y(level) + text_size / 2, text_size, label, ink);
  }
  draw_outline(canvas, bar);
}

}  // namespace

Image image_grid(const Array& images, int64_t columns, int64_t scale) {
  const Shape& shape = images.shape();
  const int64_t rank = shape.size();
  const int64_t channels = rank == 4 ? shape[1] : 1;
  expect_f32("image_grid", images, (rank == 3 || rank == 4) && (channels == 1 || channels == 3) && images.size() > 0,
             "[n,h,w], [n,1,h,w] or [n,3,h,w]");
  const int64_t count = shape[0], height = shape[rank - 2], width = shape[rank - 1];
  if (columns < 1 || scale < 1)
    fail("image_grid", "expected at least 1 column and a scale of at least 1, got ", columns, " and ", scale);

  constexpr int64_t line = 1;
  constexpr Colour line_colour = colour(0x5b6270);
  columns = std::min(columns, count);
  const int64_t rows = (count + columns - 1) / columns;
  Canvas canvas(columns * (width * scale + line) + line, rows * (height * scale + line) + line, line_colour);
  const float* values = images.data<float>();
  for (int64_t k = 0; k < rows * columns; ++k) {
    const int64_t left = line + k % columns * (width * scale + line),
                  top = line + k / columns * (height * scale + line);
    for (int64_t y = 0; y < height * scale; ++y)
      for (int64_t x = 0; x < width * scale; ++x) {
        Colour c = colour(0x000000);
        if (k < count) {
          const auto value = [&](int64_t channel) {
            return values[((k * channels + channel) * height + y / scale) * width + x / scale];
          };
          c = channels == 1 ? Colour{value(0), value(0), value(0)} : Colour{value(0), value(1), value(2)};
          if (std::isnan(c.red + c.green + c.blue)) c = not_a_number;
        }
        canvas.blend(left + x, top + y, c, 1);
      }
  }
  return canvas.image();
}

Array plot_grid() {
  Array points(DType::f32, {grid_side * grid_side, 2});
  float* out = points.data<float>();
  for (int64_t j = 0; j < grid_side; ++j)
    for (int64_t i = 0; i < grid_side; ++i) {
      *out++ = plane_of_grid(static_cast<float>(i));
      *out++ = plane_of_grid(static_cast<float>(j));
    }
  return points;
}

Image contour_plot(const Array& critic_values, const Array& real, const Array& generated) {
  expect_f32("contour_plot", critic_values, critic_values.size() == grid_side * grid_side,
             "critic values, 128 * 128 of them");
  for (const Array* points : {&real, &generated})
    expect_f32("contour_plot", *points, points->shape().size() == 2 && points->shape()[1] == 2, "points [n,2]");
  const Surface surface = surface_of(critic_values);
  Canvas canvas(static_cast<int64_t>(page_width), static_cast<int64_t>(page_height), paper);
  draw_surface(canvas, surface);
  draw_points(canvas, real, real_marker);
  draw_points(canvas, generated, generated_marker);
  draw_axes(canvas);
  draw_legend(canvas, surface);
  return canvas.image();
}

}  // namespace backbeat
