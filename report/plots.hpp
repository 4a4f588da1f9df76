// The two pictures of a GAN: a grid of samples, and the critic's surface over the plane.
#pragma once
#include "engine/array.hpp"
#include "report/png.hpp"

namespace backbeat {

// f32 [n,h,w] or [n,1,h,w] (grey) or [n,3,h,w] (colour), 0 black ... 1 full; other values are clamped, NaN is magenta.
// Row by row, `columns` images to a row, each pixel `scale` pixels wide, with a thin line between images.
Image image_grid(const Array& images, int64_t columns, int64_t scale);

// The points at which contour_plot expects the critic's values: f32 [128 * 128, 2] on [-3,3]^2. Row j * 128 + i is
// (x_i, y_j); x runs fastest and both ascend from -3.
Array plot_grid();

// The critic as colour bands between contour lines, real points and generated points on it.
// critic_values: f32, 128 * 128 of them in the order of plot_grid. real, generated: f32 [n,2]; either may be [0,2].
Image contour_plot(const Array& critic_values, const Array& real, const Array& generated);

}  // namespace backbeat
