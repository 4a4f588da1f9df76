// What jax.lax computes (tests/data/lax.json), on every device in f64 and f32. The numbers are multiples of 1/4, so that
// both are exact.
#include <doctest/doctest.h>

#include "engine/ops.hpp"
#include "tests/autodiff/golden.hpp"

using namespace backbeat;
using test::Json;

namespace {

Array array_of(const Json& json, DType floats) {
  Shape shape;
  for (int64_t d : json["shape"]) shape.push_back(d);
  const std::string dtype = json["dtype"];
  Array result(dtype == "f64" ? floats : dtype == "i32" ? DType::i32 : DType::i64, shape);
  for (int64_t i = 0; i < result.size(); ++i) result.set(i, test::number(json["values"][static_cast<size_t>(i)]));
  return result;
}

Dims dims_of(const Json& json) {
  Dims dims;
  for (int64_t d : json) dims.push_back(d);
  return dims;
}

Reduction kind_of(const Json& c) {
  return c["kind"] == "sum" ? Reduction::sum : c["kind"] == "max" ? Reduction::max : Reduction::min;
}

WindowDims window_of(const Json& c) {
  return {kind_of(c), dims_of(c["window"]), dims_of(c["strides"]), dims_of(c["pad_low"]), dims_of(c["pad_high"]),
          dims_of(c["base_dilation"]), dims_of(c["window_dilation"])};
}

GatherDims places_of(const Json& c) {
  return {dims_of(c["offset"]), dims_of(c["collapsed"]), dims_of(c["index_map"]), dims_of(c["slice_sizes"]),
          c["bounds"] == "clip" ? Bounds::clip : Bounds::fill_or_drop};
}

Tensor recorded(const Json& c, const std::vector<Tensor>& x) {
  const std::string op = c["op"];
  if (op == "gather") return gather(x[0], x[1], places_of(c));
  if (op == "scatter") return scatter(x[0], x[1], x[2], {places_of(c), c["add"]});
  if (op == "reduce_window") return reduce_window(x[0], window_of(c));
  if (op == "select_and_scatter") return select_and_scatter(x[0], x[1], window_of(c));
  if (op == "select_and_gather") return select_and_gather(x[0], x[1], window_of(c));
  if (op == "sort") return sort_by(x[0], x[1], c["axis"]);
  if (op == "argmax") return kind_of(c) == Reduction::max ? argmax(x[0], c["axis"]) : argmin(x[0], c["axis"]);
  if (op == "cumsum") return cumsum(x[0], c["axis"], c["reverse"]);
  if (op == "dynamic_slice") return dynamic_slice(x[0], x[1], dims_of(c["sizes"]));
  REQUIRE(op == "dynamic_update_slice");
  return dynamic_update_slice(x[0], x[1], x[2]);
}

}  // namespace

TEST_CASE("lax: gather, scatter, sort, scans and windows") {
  const Json cases = test::read_data("lax.json");
  REQUIRE(cases.size() > 100);
  for (DType dtype : {DType::f64, DType::f32})
    for (size_t n = 0; n < cases.size(); ++n) {
      const Json& c = cases[n];
      std::vector<Array> operands;
      for (const Json& operand : c["operands"]) operands.push_back(array_of(operand, dtype));
      const Program program = record("lax", [&](Recorder& r) {
        std::vector<Tensor> x;
        for (const Array& a : operands) x.push_back(r.input(concat('x', x.size()), a.dtype(), a.shape()));
        r.output("y", recorded(c, x));
      });
      const Array expected = array_of(c["result"], dtype);
      for (const test::NamedDevice& device : test::all_devices()) {
        INFO("case ", n, ", ", c["op"].get<std::string>(), " in ", name_of(dtype), " on ", std::string(device.name));
        CHECK(test::difference(test::run(program, operands, device)[0], expected, {}) == "");
      }
    }
}
