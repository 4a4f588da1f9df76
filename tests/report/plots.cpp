// Pictures: PNG files, grids of samples, the critic's surface.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include "engine/error.hpp"
#include "report/plots.hpp"

using namespace backbeat;
namespace fs = std::filesystem;

namespace {

struct Folder {
  Folder() {
    std::string name = (fs::temp_directory_path() / "backbeat-plots-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Folder() { fs::remove_all(path); }
  fs::path path;
};

using Pixel = std::array<int, 3>;

Pixel pixel(const Image& image, int64_t x, int64_t y) {
  const uint8_t* p = image.rgb.data() + (y * image.width + x) * 3;
  return {p[0], p[1], p[2]};
}

Array critic_values(double (*f)(double x, double y)) {
  const Array grid = plot_grid();
  Array values(DType::f32, {128 * 128});
  for (int64_t i = 0; i < values.size(); ++i) values.set(i, f(grid.at(2 * i), grid.at(2 * i + 1)));
  return values;
}

const Array no_points(DType::f32, {0, 2});

}  // namespace

TEST_CASE("png: what is written is read back") {
  const Folder folder;
  const std::string path = (folder.path / "a.png").string();
  Image image{3, 2, {}};
  for (int i = 0; i < 18; ++i) image.rgb.push_back(static_cast<uint8_t>(13 * i));
  write_png(path, image);
  const Image back = read_png(path);
  CHECK(back.width == 3);
  CHECK(back.height == 2);
  CHECK(back.rgb == image.rgb);
  CHECK(std::distance(fs::directory_iterator(folder.path), {}) == 1);

  const std::vector<uint8_t> bytes = png_bytes(image);
  for (size_t count = 0; count + 12 < bytes.size();
       ++count) {  // without its last 12 bytes, the end marker, all pixels are there
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(count));
    CHECK_THROWS_AS(read_png(path), Error);
  }
  image.rgb.pop_back();
  CHECK_THROWS_WITH_AS(png_bytes(image),
                       "[png] expected 1 to 32768 pixels a side and 3 bytes a pixel, got 3 x 2 with 17 bytes", Error);
  CHECK_THROWS_AS(write_png((folder.path / "none/a.png").string(), back), Error);
}

TEST_CASE("image_grid: pixels, lines and empty places") {
  const Array grey = Array::from<float>({3, 1, 1, 2}, {0, 1, 0.5f, -1, 2, NAN});
  const Image image = image_grid(grey, 2, 2);
  CHECK(image.width == 2 * (2 * 2 + 1) + 1);
  CHECK(image.height == 2 * (2 + 1) + 1);
  const Pixel line = pixel(image, 0, 0), black = {0, 0, 0}, white = {255, 255, 255};
  CHECK(pixel(image, 5, 1) == line);
  CHECK(pixel(image, 1, 3) == line);
  CHECK(pixel(image, 2, 2) == black);
  CHECK(pixel(image, 3, 1) == white);
  CHECK(pixel(image, 6, 1) == Pixel{128, 128, 128});
  CHECK(pixel(image, 8, 1) == black);               // below 0
  CHECK(pixel(image, 1, 4) == white);               // above 1
  CHECK(pixel(image, 3, 4) == Pixel{255, 0, 255});  // not a number
  CHECK(pixel(image, 6, 4) == black);               // no fourth image

  CHECK(image_grid(grey.reshaped({3, 1, 2}), 2, 2).rgb == image.rgb);
  const Image colour = image_grid(Array::from<float>({1, 3, 1, 1}, {1, 0, 0.2f}), 5, 1);
  CHECK(colour.width == 3);
  CHECK(pixel(colour, 1, 1) == Pixel{255, 0, 51});

  CHECK_THROWS_WITH_AS(image_grid(Array::zeros(DType::f32, {1, 2, 3, 3}), 1, 1),
                       "[image_grid] expected f32 [n,h,w], [n,1,h,w] or [n,3,h,w], got f32[1,2,3,3]", Error);
  CHECK_THROWS_WITH_AS(image_grid(grey, 0, 1),
                       "[image_grid] expected at least 1 column and a scale of at least 1, got 0 and 1", Error);
}

TEST_CASE("plot_grid: x runs fastest, from -3 to 3") {
  const Array grid = plot_grid();
  CHECK(grid.shape() == Shape{128 * 128, 2});
  CHECK(grid.at(0) == -3);
  CHECK(grid.at(1) == -3);
  CHECK(grid.at(2 * 127) == 3);
  CHECK(grid.at(2 * 127 + 1) == -3);
  CHECK(grid.at(grid.size() - 1) == 3);
}

TEST_CASE("contour_plot: high values are light, and the plane is the right way up") {
  const Image x_rises = contour_plot(critic_values([](double x, double) { return x; }), no_points, no_points);
  const Image y_rises = contour_plot(critic_values([](double, double y) { return y; }), no_points, no_points);
  const auto light = [](const Image& image, int64_t x, int64_t y) {
    const Pixel p = pixel(image, x, y);
    return p[0] + p[1] + p[2];
  };
  CHECK(light(x_rises, 560, 300) > light(x_rises, 60, 300) + 300);
  CHECK(std::abs(light(x_rises, 300, 560) - light(x_rises, 300, 60)) < 30);
  CHECK(light(y_rises, 300, 60) > light(y_rises, 300, 560) + 300);
}

TEST_CASE("contour_plot: points where they belong, the two kinds told apart") {
  const Array surface = critic_values([](double x, double y) { return x * x - y * y; });  // its middle is a saddle
  const Array real = Array::from<float>({1, 2}, {1.5f, 0}),
              generated = Array::from<float>({3, 2}, {-1.5f, 0, 9, 9, NAN, 0});
  const Image image = contour_plot(surface, real, generated), bare = contour_plot(surface, no_points, no_points);
  const Pixel orange = pixel(image, 442, 310), red = pixel(image, 178, 310);
  CHECK(orange[0] > 230);
  CHECK(orange[1] > 140);
  CHECK(red[0] > 180);
  CHECK(red[1] < 80);
  // Nothing else differs from the picture without points.
  for (int64_t y = 0; y < image.height; ++y)
    for (int64_t x = 0; x < image.width; ++x)
      if (pixel(image, x, y) != pixel(bare, x, y)) {
        const bool near_a_point = std::abs(y - 310) <= 6 && (std::abs(x - 442) <= 6 || std::abs(x - 178) <= 6);
        if (!near_a_point) FAIL("a pixel at ", x, ",", y);
      }
}

TEST_CASE("contour_plot: surfaces with nothing to draw") {
  const auto plot = [](double (*f)(double, double)) { return contour_plot(critic_values(f), no_points, no_points); };
  for (auto f : {+[](double, double) { return 0.0; }, +[](double, double) { return 1e30; }}) {
    const Image flat = plot(f);
    CHECK(pixel(flat, 100, 100) == pixel(flat, 500, 500));
  }
  const Image nothing = plot([](double, double) { return double{NAN}; });
  CHECK(pixel(nothing, 300, 300) == Pixel{255, 0, 255});
  const Image partly = plot([](double x, double y) { return x > 0 ? x + y : double{INFINITY}; });
  CHECK(pixel(partly, 100, 300) == Pixel{255, 0, 255});
  CHECK(pixel(partly, 500, 300) != Pixel{255, 0, 255});
  plot([](double x, double y) { return 3e38 * x / 3 + y; });
  plot([](double x, double) { return 1e-40 * x; });

  CHECK_THROWS_WITH_AS(contour_plot(no_points, no_points, no_points),
                       "[contour_plot] expected f32 critic values, 128 * 128 of them, got f32[0,2]", Error);
  const Array surface = critic_values([](double x, double) { return x; });
  CHECK_THROWS_WITH_AS(contour_plot(surface, Array::zeros(DType::f32, {4, 3}), no_points),
                       "[contour_plot] expected f32 points [n,2], got f32[4,3]", Error);
}
