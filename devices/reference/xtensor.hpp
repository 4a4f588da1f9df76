// The only header of the reference device that knows xtensor: an Array seen as an xtensor expression, without a copy.
#pragma once
#include <xtensor/xadapt.hpp>
#include <xtensor/xarray.hpp>
#include <xtensor/xbuilder.hpp>
#include <xtensor/xmanipulation.hpp>
#include <xtensor/xmath.hpp>
#include <xtensor/xnoalias.hpp>
#include <xtensor/xstrided_view.hpp>

#include "engine/array.hpp"

namespace backbeat::reference {

inline std::vector<size_t> xshape(const Dims& dims) { return {dims.begin(), dims.end()}; }

template <class T>
auto view(const T* data, const Shape& shape) {
  return xt::adapt(data, static_cast<size_t>(element_count(shape)), xt::no_ownership(), xshape(shape));
}
template <class T>
auto view(T* data, const Shape& shape) {
  return xt::adapt(data, static_cast<size_t>(element_count(shape)), xt::no_ownership(), xshape(shape));
}
template <class T>
auto view(const Array& array) {
  return view(array.data<T>(), array.shape());
}
template <class T>
auto view(Array& array) {
  return view(array.data<T>(), array.shape());
}

// A scalar function applied to every element. Function pointers share one instantiation; xtensor's own exp, log, ...
// would be xsimd's approximations where the C++ library's functions are wanted.
template <class R, class... T, class... X>
auto each(R (*function)(T...), X&&... x) {
  return xt::make_lambda_xfunction(std::move(function), std::forward<X>(x)...);
}

}  // namespace backbeat::reference
