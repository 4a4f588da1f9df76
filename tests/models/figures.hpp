// Layers against the figures in tests/data/layers.json: values on every device in f64, f32 and, roughly, bf16; derivatives to
// third order against differences.
#pragma once
#include "models/layers.hpp"
#include "models/losses.hpp"
#include "tests/autodiff/derivatives.hpp"
#include "tests/autodiff/golden.hpp"

namespace backbeat::test {

struct Figures {
  Arrays inputs, outputs;
};

inline Array array_from(const Json& json) {
  const std::string dtype = json.at("dtype");
  Array a(dtype == "f64" ? DType::f64 : dtype == "i32" ? DType::i32 : DType::boolean,
          Shape(json.at("shape").get<std::vector<int64_t>>()));
  const std::vector<double> values = json.at("values").get<std::vector<double>>();
  REQUIRE(static_cast<int64_t>(values.size()) == a.size());
  for (int64_t i = 0; i < a.size(); ++i) a.set(i, values[static_cast<size_t>(i)]);
  return a;
}

inline Figures figures(const std::string& name) {
  static const Json all = read_data("layers.json");
  REQUIRE_MESSAGE(all.contains(name), name);
  Figures f;
  for (const auto& [key, value] : all.at(name).at("inputs").items()) f.inputs[key] = array_from(value);
  for (const auto& [key, value] : all.at(name).at("outputs").items()) f.outputs[key] = array_from(value);
  return f;
}

// The inputs "l/..." as the parameters of a layer "l".
inline Parameters parameters(const Named& in) {
  std::vector<std::string> names;
  std::vector<Tensor> tensors;
  for (const auto& [name, tensor] : in)
    if (name.starts_with("l/")) names.push_back(name), tensors.push_back(tensor);
  return {"net", names, tensors};
}

// Every floating-point input is differentiated, all others are constants.
inline void check_derivatives(const Figures& f, const Build& build) {
  std::vector<std::string> names;
  std::vector<Array> values;
  for (const auto& [name, value] : f.inputs)
    if (is_float(value.dtype())) names.push_back(name), values.push_back(value);
  third_order(
      [&](const Tensors& t) {
        Named in;
        for (size_t i = 0; i < names.size(); ++i) in[names[i]] = t[i];
        for (const auto& [name, value] : f.inputs)
          if (!is_float(value.dtype())) in[name] = constant(t[0].tape(), value);
        return build(in).at("y");
      },
      values);
}

struct LayerRow {
  const char* name;  // of the figures
  Build build;       // makes "y" and the other outputs
  bool differentiated = true;
};

inline void check_layers(const std::vector<LayerRow>& rows) {
  for (const LayerRow& row : rows) {
    CAPTURE(std::string(row.name));
    const Figures f = figures(row.name);
    const std::pair<DType, double> dtypes[] = {{DType::f64, 1e-13}, {DType::f32, 1e-6}, {DType::bf16, 0.03}};
    for (const auto& [dtype, off] : dtypes)
      reproduce(row.name, f.inputs, f.outputs, row.build, dtype, [off = off](const std::string&) { return Tolerance{off, 0, off}; });
    if (row.differentiated) check_derivatives(f, row.build);
  }
}

// A layer of one tensor "x" and of the parameters "l/...".
using Layer = std::function<Tensor(const Parameters& p, Tensor x)>;
inline Build layer(const Layer& f) {
  return [f](const Named& in) { return Named{{"y", f(parameters(in), in.at("x"))}}; };
}

}  // namespace backbeat::test
