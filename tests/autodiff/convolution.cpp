// convolution: its derivatives to third order, over strides, padding, dilation, groups, layouts and odd sizes.
#include "tests/autodiff/derivatives.hpp"

using namespace backbeat;
using namespace backbeat::test;

namespace {

const ConvLayout nchw, nhwc{0, 3, {1, 2}};

void check(const Shape& lhs, const Shape& kernel, const ConvDims& dims) {
  INFO("lhs ", concat(lhs), " kernel ", concat(kernel));
  third_order([&](const Tensors& t) { return convolution(t[0], t[1], dims); }, {any(lhs, 1), any(kernel, 2)});
}

ConvDims plain() { return {nchw, nchw, nchw}; }

}  // namespace

TEST_SUITE_BEGIN("derivatives of convolution");

TEST_CASE("3x3") { check({2, 2, 5, 5}, {3, 2, 3, 3}, plain()); }

TEST_CASE("strides that do and do not divide") {
  ConvDims d = plain();
  d.strides = {2, 2};
  check({2, 2, 5, 6}, {3, 2, 3, 3}, d);
  d.strides = {3, 2};
  check({1, 2, 8, 7}, {2, 2, 2, 4}, d);
}

TEST_CASE("padding: even, uneven, negative") {
  ConvDims d = plain();
  d.pad_low = {1, 1}, d.pad_high = {1, 1};
  check({1, 2, 4, 4}, {2, 2, 3, 3}, d);
  d.pad_low = {2, 0}, d.pad_high = {1, 3}, d.strides = {2, 1};
  check({1, 2, 4, 3}, {2, 2, 4, 3}, d);
  d.pad_low = {-1, 2}, d.pad_high = {1, -2}, d.strides = {1, 2};
  check({1, 2, 6, 5}, {2, 2, 2, 3}, d);
  d.pad_low = {-2, -1}, d.pad_high = {-1, -1};
  check({1, 1, 6, 5}, {1, 1, 2, 2}, d);
}

TEST_CASE("dilation of the kernel, of the input, of both") {
  ConvDims d = plain();
  d.kernel_dilation = {2, 3}, d.pad_low = {2, 1}, d.pad_high = {2, 2};
  check({1, 2, 5, 6}, {2, 2, 3, 2}, d);
  d = plain();
  d.lhs_dilation = {2, 2}, d.pad_low = {2, 2}, d.pad_high = {2, 2};  // a transposed convolution of stride 2
  check({2, 2, 3, 3}, {2, 2, 4, 4}, d);
  d.kernel_dilation = {1, 2}, d.strides = {2, 3}, d.lhs_dilation = {3, 2}, d.pad_high = {3, 0};
  check({1, 2, 3, 4}, {2, 2, 3, 2}, d);
}

TEST_CASE("feature groups") {
  ConvDims d = plain();
  d.feature_groups = 2, d.pad_low = {1, 1};
  check({2, 4, 4, 4}, {6, 2, 3, 3}, d);
  d.feature_groups = 3, d.strides = {2, 1};  // depthwise
  check({2, 3, 4, 3}, {6, 1, 3, 2}, d);
}

TEST_CASE("batch groups") {
  ConvDims d = plain();
  d.batch_groups = 2, d.pad_high = {1, 1};
  check({4, 2, 4, 4}, {6, 2, 3, 3}, d);
  d.batch_groups = 3, d.strides = {1, 2};
  check({3, 2, 3, 4}, {3, 2, 2, 3}, d);
}

TEST_CASE("layouts") {
  ConvDims d = plain();
  d.lhs = nhwc, d.kernel = {3, 2, {0, 1}}, d.out = nhwc;  // NHWC and HWIO
  d.strides = {2, 1}, d.pad_low = {1, 0};
  check({2, 5, 4, 2}, {3, 3, 2, 3}, d);
  d.lhs = {1, 3, {2, 0}}, d.kernel = {2, 1, {3, 0}}, d.out = {3, 2, {0, 1}};
  check({4, 2, 5, 3}, {2, 3, 4, 3}, d);
  d.feature_groups = 3;
  check({4, 2, 5, 3}, {2, 1, 3, 3}, d);
}

TEST_CASE("one and three spatial dimensions, and none") {
  check({2, 2, 7}, {3, 2, 3}, {{0, 1, {2}}, {0, 1, {2}}, {0, 1, {2}}, {2}, {1}, {0}, {1}, {1}});
  const ConvLayout volume{0, 1, {2, 3, 4}};
  check({1, 2, 3, 4, 3}, {2, 2, 2, 2, 2},
        {volume, volume, volume, {1, 2, 1}, {0, 1, 1}, {0, 1, 0}, {1, 1, 1}, {1, 1, 2}});
  check({3, 4}, {2, 4}, {{0, 1, {}}, {0, 1, {}}, {0, 1, {}}, {}, {}, {}, {}, {}});
}

TEST_CASE("sizes of one and of nothing") {
  ConvDims d = plain();
  check({1, 1, 1, 1}, {1, 1, 1, 1}, d);
  check({2, 3, 4, 4}, {2, 3, 4, 4}, d);  // the window is the input
  check({1, 2, 2, 3}, {2, 2, 3, 3}, d);  // the window is larger: no output
  check({0, 2, 4, 4}, {2, 2, 3, 3}, d);  // no samples
  check({2, 0, 4, 4}, {2, 0, 3, 3}, d);  // no features: zeros
  check({1, 2, 0, 4}, {2, 2, 1, 1}, d);  // no rows
  d.strides = {2, 2};
  check({1, 2, 5, 5}, {2, 2, 1, 1}, d);  // a window smaller than the stride
  d.pad_low = {3, 3}, d.pad_high = {3, 3};
  check({1, 1, 1, 1}, {1, 1, 2, 2}, d);  // windows in nothing but padding
}

TEST_CASE("random attributes") {
  uint32_t counter = 0;
  const auto draw = [&](int64_t low, int64_t high) {  // low ... high
    return low + philox4x32({++counter, 0, 0, 0}, {20, 0})[0] % (high - low + 1);
  };
  for (int i = 0; i < 60; ++i) {
    ConvDims d = plain();
    for (Dims* dims : {&d.strides, &d.lhs_dilation, &d.kernel_dilation}) *dims = {draw(1, 3), draw(1, 2)};
    for (Dims* dims : {&d.pad_low, &d.pad_high}) *dims = {draw(-1, 2), draw(0, 3)};
    (draw(0, 1) ? d.feature_groups : d.batch_groups) = draw(1, 3);
    const int64_t groups = d.feature_groups * d.batch_groups, features = draw(1, 2);
    check({draw(1, 2) * d.batch_groups, features * d.feature_groups, draw(1, 5), draw(2, 5)},
          {draw(1, 2) * groups, features, draw(1, 3), draw(1, 4)}, d);
  }
}

TEST_SUITE_END();
