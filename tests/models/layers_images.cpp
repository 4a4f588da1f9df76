// Convolutions, pooling, upsampling and local response norm.
#include "tests/models/figures.hpp"

using namespace backbeat;
using namespace backbeat::test;

namespace {
Build convolved(const Conv2d& options) {
  return layer([=](const Parameters& p, Tensor x) { return conv2d(p, "l", x, options); });
}
Build transposed(const Conv2d& options, const Dims& out_size = {}) {
  return layer([=](const Parameters& p, Tensor x) { return conv2d_transposed(p, "l", x, out_size, options); });
}
Build pooled(Tensor (*pool)(Operand, const Pool2d&), const Pool2d& options) {
  return layer([=](const Parameters&, Tensor x) { return pool(x, options); });
}
}  // namespace

TEST_CASE("layers: convolutions") {
  check_layers({
      {"conv2d, same, stride 2", convolved({.strides = {2, 2}})},
      {"conv2d, valid, dilated", convolved({.padding = Padding::valid(), .dilation = {1, 2}})},
      {"conv2d, given padding, groups", convolved({.strides = {2, 1}, .padding = Padding::given(1), .groups = 2})},
      {"conv2d_transposed, same", transposed({.strides = {2, 2}})},
      {"conv2d_transposed, valid", transposed({.strides = {2, 2}, .padding = Padding::valid()})},
      {"conv2d_transposed, given padding", transposed({.strides = {2, 2}, .padding = Padding::given(1)}, {6, 8})},
  });
}

TEST_CASE("layers: a transposed convolution crops at the bottom and right") {
  const Figures f = figures("conv2d_transposed, same");
  const auto all = [&](const Dims& size) {
    const Program p = record("crop", [&](Recorder& r) {
      Named in;
      for (const auto& [name, value] : f.inputs) in[name] = r.input(name, DType::f64, value.shape());
      const Tensor y = transposed({.strides = {2, 2}}, size)(in).at("y");
      r.output("y", slice(y, {0, 0, 0, 0}, {1, 5, 7, 2}, {1, 1, 1, 1}));
    });
    std::vector<Array> values;
    for (const auto& [name, value] : f.inputs) values.push_back(value);
    return run(p, values)[0];
  };
  CHECK(bitwise_equal(all({5, 7}), all({6, 8})));
}

TEST_CASE("layers: pooling and upsampling") {
  check_layers({
      {"max_pool, valid", pooled(max_pool, {})},
      {"max_pool, same", pooled(max_pool, {.window = {3, 3}, .strides = {2, 2}, .padding = Padding::same()})},
      {"average_pool, same", pooled(average_pool, {.window = {3, 3}, .strides = {2, 2}, .padding = Padding::same()})},
      {"average_pool, given padding",
       pooled(average_pool, {.window = {3, 2}, .strides = {2, 1}, .padding = Padding::given({1, 0}, {1, 0})})},
      {"upsample", layer([](const Parameters&, Tensor x) { return upsample(x, 3); })},
  });
}

TEST_CASE("layers: local response norm") {
  check_layers({
      {"local_response_norm, tutorial", layer([](const Parameters&, Tensor x) { return local_response_norm(x); })},
      {"local_response_norm", layer([](const Parameters&, Tensor x) {
         return local_response_norm(x, {.radius = 2, .bias = 0.5, .alpha = 0.3, .beta = 0.6});
       })},
  });
}

TEST_CASE("layers: what images are refused") {
  record("refused", [](Recorder& r) {
    const Tensor x = r.input("x", DType::f32, {2, 4, 4, 3}), weight = r.input("w", DType::f32, {5, 5, 3, 8});
    const Parameters p("net", {"l/weight"}, {weight});
    CHECK_THROWS_WITH(conv2d_transposed(p, "l", x, {9, 8}, {.strides = {2, 2}}), doctest::Contains("[conv2d_transposed]"));
    CHECK_THROWS_WITH(conv2d_transposed(p, "l", x, {10, 11}, {.strides = {2, 2}, .padding = Padding::valid()}),
                      doctest::Contains("gives 11 to 12 pixels, asked for 10"));
    CHECK_THROWS_WITH(conv2d(p, "l", reshape(x, {2, 48})), doctest::Contains("[conv2d] expected an image"));
    CHECK_THROWS_WITH(conv2d(p, "l", x, {.strides = {1}}), doctest::Contains("[padding] expected 2 values"));
    CHECK_THROWS_WITH(conv2d(p, "other", x), doctest::Contains("net has no parameter 'other/weight'"));
    CHECK_THROWS_WITH(max_pool(x, {.strides = {0, 1}}), doctest::Contains("[padding] strides must be at least 1, got [0,1]"));
    CHECK_THROWS_WITH(upsample(x, 0), doctest::Contains("[upsample]"));
  });
}
