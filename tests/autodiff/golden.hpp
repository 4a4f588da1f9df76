// Published numbers in tests/data, rebuilt by recording the same computation, on every device in f64 and f32.
#pragma once
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "autodiff/grad.hpp"
#include "engine/passes.hpp"
#include "tests/devices.hpp"

namespace backbeat::test {

using Json = nlohmann::json;
using Named = std::map<std::string, Tensor>;
using Arrays = std::map<std::string, Array>;

inline Json read_data(const std::string& name) {
  const char* folder = std::getenv("BACKBEAT_TEST_DATA");
#ifdef BACKBEAT_TEST_DATA
  if (!folder) folder = BACKBEAT_TEST_DATA;
#endif
  if (!folder) throw RunError("BACKBEAT_TEST_DATA must name the folder tests/data");
  std::ifstream file(std::string(folder) + '/' + name);
  if (!file) throw RunError(concat("cannot open ", folder, '/', name));
  return Json::parse(file);
}

inline double number(const Json& value) {
  return value.is_string() ? std::strtod(value.get<std::string>().c_str(), nullptr) : value.get<double>();
}

// How far a value may be off: `relative` and `absolute` as in numpy's isclose, `of_largest` a share of the largest
// magnitude in its array.
struct Tolerance {
  double relative = 0, absolute = 0, of_largest = 0;
};

inline double largest(const Array& a) {
  double result = 0;
  for (int64_t i = 0; i < a.size(); ++i) result = std::max(result, std::abs(a.at(i)));
  return result;
}

// Empty if they agree.
inline std::string difference(const Array& got, const Array& expected, const Tolerance& tolerance) {
  if (got.shape() != expected.shape()) return concat("shape ", got.shape(), ", expected ", expected.shape());
  const double magnitude = largest(expected);
  for (int64_t i = 0; i < got.size(); ++i) {
    const double g = got.at(i), e = expected.at(i);
    if (g == e || (std::isnan(g) && std::isnan(e))) continue;
    const double allowed = tolerance.absolute + tolerance.relative * std::abs(e) + tolerance.of_largest * magnitude;
    if (!(std::abs(g - e) <= allowed)) {
      std::ostringstream out;
      out.precision(17);
      out << "element " << i << " is " << g << ", expected " << e << " (off by " << g - e << ", allowed " << allowed
          << ')';
      return out.str();
    }
  }
  return "";
}

// Records `build` with the inputs in `dtype`, runs it on every device, and compares every expected array by its name.
// The passes must not change a bit of it.
using Build = std::function<Named(const Named& inputs)>;
inline void reproduce(const std::string& name, const Arrays& inputs, const Arrays& expected, const Build& build,
                      DType dtype, const std::function<Tolerance(const std::string& output)>& tolerance) {
  std::vector<Array> values;
  std::vector<std::string> names;
  const Program program = record(name, [&](Recorder& r) {
    Named in;
    for (const auto& [key, value] : inputs) {
      values.push_back(is_float(value.dtype()) ? value.converted(dtype) : value);
      in[key] = r.input(key, values.back().dtype(), value.shape());
    }
    for (const auto& [key, tensor] : build(in)) names.push_back(key), r.output(key, tensor);
  });
  for (const NamedDevice& device : all_devices()) {
    const std::vector<Array> outputs = run(program, values, device), optimized = run(optimize(program), values, device);
    for (size_t i = 0; i < outputs.size(); ++i) {
      INFO(name, ": ", names[i], " in ", std::string(name_of(dtype)), " on ", std::string(device.name));
      CHECK(bitwise_equal(outputs[i], optimized[i]));
    }
    for (const auto& [key, value] : expected) {
      const size_t at = static_cast<size_t>(std::find(names.begin(), names.end(), key) - names.begin());
      INFO(name, ": ", key, " in ", std::string(name_of(dtype)), " on ", std::string(device.name));
      REQUIRE_MESSAGE(at < names.size(), "it is not computed");
      CHECK(difference(outputs[at], value, tolerance(key)) == "");
    }
  }
}

}  // namespace backbeat::test
