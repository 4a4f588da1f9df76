#include "autodiff/check_grads.hpp"

#include <algorithm>
#include <cmath>

#include "autodiff/grad.hpp"
#include "engine/philox.hpp"

namespace backbeat {

namespace {

// Uniform in (-1, 1): a function of `stream` and the element's index.
Array random_like(const Shape& shape, uint32_t stream) {
  Array a(DType::f64, shape);
  for (int64_t i = 0; i < a.size(); ++i) {
    const uint32_t word = philox4x32({static_cast<uint32_t>(i), 0, 0, 0}, {stream, 0})[0];
    a.data<double>()[i] = (word + 0.5) * 0x1p-31 - 1;
  }
  return a;
}

Array shifted(const Array& x, const Array& direction, double step) {
  Array y = x.clone();
  for (int64_t i = 0; i < y.size(); ++i) y.data<double>()[i] += step * direction.data<double>()[i];
  return y;
}

// <v, grads> in one number, and the same with every product made positive: the size that the first could have.
struct Contraction {
  Tensor value, magnitude;
};

Contraction contract(Tape& tape, const std::vector<Tensor>& grads, const std::vector<Tensor>& v) {
  Tensor value = full(tape, DType::f64, {}, 0), magnitude = value;
  for (size_t i = 0; i < grads.size(); ++i) {
    if (!grads[i].defined()) continue;
    const Tensor products = v[i] * grads[i];
    value = value + sum(products);
    magnitude = magnitude + sum(abs(products));
  }
  return {value, magnitude};
}

std::string report(const std::vector<GradCheck>& rows, double tolerance) {
  std::ostringstream out;
  out.precision(12);
  out << "[check_grads] tolerance " << tolerance;
  for (const GradCheck& row : rows)
    out << "; order " << row.order << ": analytic " << row.analytic << ", numeric " << row.numeric
        << ", relative error " << row.relative_error << ", forward " << row.forward << ", mixed " << row.mixed
        << (row.relative_error <= tolerance ? "" : " (FAILED)");
  return out.str();
}

}  // namespace

std::vector<GradCheck> check_grads(const std::function<Tensor(const std::vector<Tensor>&)>& f,
                                   const std::vector<Array>& values, int order, const Evaluate& evaluate,
                                   double tolerance, Modes modes) {
  // The point z: the inputs and, behind them, the cotangent of f.
  std::vector<Array> point = values;
  std::vector<std::vector<Array>> directions(static_cast<size_t>(order));

  const Program program = record("check_grads", [&](Recorder& r) {
    std::vector<Tensor> z;
    for (size_t i = 0; i < values.size(); ++i)
      z.push_back(r.input(concat("x", i), values[i].dtype(), values[i].shape()));
    const Tensor y = f(z);
    if (y.dtype() != DType::f64) fail("check_grads", "expected f to compute in f64, got ", y);
    z.push_back(r.input("cotangent", DType::f64, y.shape()));
    point.push_back(random_like(y.shape(), 1));

    const Tensor start = sum(y * z.back());
    Contraction s{start, sum(abs(y * z.back()))};
    Tensor forward = start;
    r.output("s0", s.value), r.output("magnitude0", s.magnitude), r.output("forward0", start), r.output("mixed0", start);
    for (int k = 1; k <= order; ++k) {
      const std::vector<Tensor> grads = grad(s.value, z, {.cotangent = {}, .unused = Unused::none});
      std::vector<Tensor> v;
      for (size_t i = 0; i < z.size(); ++i) {
        if (grads[i].defined() && (grads[i].shape() != z[i].shape() || grads[i].dtype() != z[i].dtype()))
          fail("check_grads", "the gradient of ", z[i], " is ", grads[i], " in order ", k);
        v.push_back(r.input(concat("v", k, "_", i), z[i].dtype(), z[i].shape()));
        directions[static_cast<size_t>(k - 1)].push_back(
            random_like(z[i].shape(), static_cast<uint32_t>(100 * k) + static_cast<uint32_t>(i)));
      }
      Tensor mixed;
      if (modes == Modes::both) forward = jvp(std::span(&forward, 1), z, v)[0], mixed = jvp(std::span(&s.value, 1), z, v)[0];
      s = contract(r.tape(), grads, v);
      if (modes == Modes::reverse) forward = mixed = s.value;
      r.output(concat("s", k), s.value), r.output(concat("magnitude", k), s.magnitude);
      r.output(concat("forward", k), forward), r.output(concat("mixed", k), mixed);
    }
  });

  const auto at = [&](int k, double step) {  // the values of s0, magnitude0, s1, ... at z + step * v_k
    std::vector<Array> inputs;
    for (size_t i = 0; i < point.size(); ++i)
      inputs.push_back(step == 0 ? point[i] : shifted(point[i], directions[static_cast<size_t>(k - 1)][i], step));
    for (const auto& direction : directions) inputs.insert(inputs.end(), direction.begin(), direction.end());
    std::vector<double> results;
    for (const Array& value : evaluate(program, inputs)) results.push_back(value.item());
    return results;
  };

  constexpr double h = 1e-3;
  const std::vector<double> here = at(0, 0);
  std::vector<GradCheck> rows;
  bool passed = true;
  for (int k = 1; k <= order; ++k) {
    const size_t lower = static_cast<size_t>(4 * (k - 1)), mine = lower + 4;
    GradCheck row;
    row.order = k;
    row.analytic = here[mine], row.forward = here[mine + 2], row.mixed = here[mine + 3];
    row.numeric = (8 * (at(k, h)[lower] - at(k, -h)[lower]) - (at(k, 2 * h)[lower] - at(k, -2 * h)[lower])) / (12 * h);
    // A derivative that is zero is as exact as the differences of the function that it is taken of.
    const double scale = std::max({std::abs(row.analytic), std::abs(row.numeric), 1e-3 * here[lower + 1]});
    const double error = std::abs(row.analytic - row.numeric);
    row.relative_error = error == 0 ? 0 : error / scale;
    const double same = 1e-12 * std::max(here[mine + 1], here[lower + 1]);
    passed = passed && row.relative_error <= tolerance && std::abs(row.forward - row.analytic) <= same &&
             std::abs(row.mixed - row.analytic) <= same;
    rows.push_back(row);
  }
  if (!passed) throw Error(report(rows, tolerance));
  return rows;
}

}  // namespace backbeat
