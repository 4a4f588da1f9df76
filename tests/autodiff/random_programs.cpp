// Random programs: values, first and second derivatives, by reverse mode twice and by forward mode twice, against what jax
// computes of the same programs. tests/data/random_programs.py makes them and says what the figures are.
#include <doctest/doctest.h>
#include <zlib.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "autodiff/grad.hpp"
#include "engine/passes.hpp"
#include "tests/devices.hpp"

using namespace backbeat;
using namespace backbeat::test;

namespace {

using Json = nlohmann::json;
using Tensors = std::vector<Tensor>;

Json programs() {
  const char* folder = std::getenv("BACKBEAT_TEST_DATA");
  const std::string path = std::string(folder ? folder : "tests/data") + "/random_programs.json.gz";
  const gzFile file = gzopen(path.c_str(), "rb");
  if (!file) throw RunError("cannot open " + path);
  std::string text, buffer(1 << 16, '\0');
  for (int n; (n = gzread(file, buffer.data(), static_cast<unsigned>(buffer.size()))) > 0;)
    text.append(buffer, 0, static_cast<size_t>(n));
  gzclose(file);
  return Json::parse(text);
}

// The same numbers as in random_programs.py.
constexpr uint32_t direction_v = 16, direction_q = 32, weights = 48;
Array values(uint32_t program, uint32_t stream, const Shape& shape) {
  Array a(DType::f64, shape);
  for (int64_t i = 0; i < a.size(); ++i) {
    uint32_t h = static_cast<uint32_t>(i) * 0xC2B2AE3Du + program * 0x9E3779B1u + stream * 0x85EBCA77u;
    h ^= h >> 16, h *= 0x85EBCA6Bu, h ^= h >> 13, h *= 0xC2B2AE35u, h ^= h >> 16;
    a.data<double>()[i] = (2.0 * (h >> 12) + 1 - 0x1p20) / 0x1p20 * 1.5;
  }
  return a;
}

const std::map<std::string, Tensor (*)(Operand)> unary{
    {"negate", negate}, {"abs", abs}, {"sign", sign}, {"exp", exp}, {"expm1", expm1}, {"log", log}, {"log1p", log1p},
    {"sqrt", sqrt}, {"rsqrt", rsqrt}, {"tanh", tanh}, {"logistic", logistic}, {"erf", erf}, {"sine", sine},
    {"cosine", cosine}, {"floor", floor}, {"ceil", ceil}, {"round_nearest_even", round_nearest_even},
    {"logical_not", logical_not}, {"stop_gradient", stop_gradient},
    {"optimization_barrier", [](Operand x) { return optimization_barrier(x); }}};
const std::map<std::string, Tensor (*)(Operand, Operand)> binary{
    {"add", add}, {"subtract", subtract}, {"multiply", multiply}, {"divide", divide}, {"remainder", remainder},
    {"maximum", maximum}, {"minimum", minimum}, {"power", power}, {"bitwise_and", bitwise_and}, {"bitwise_or", bitwise_or},
    {"bitwise_xor", bitwise_xor}};

// The value whose name the file holds.
template <class T>
T named(const std::string& name, std::initializer_list<T> all) {
  for (T value : all)
    if (name == name_of(value)) return value;
  throw RunError("random_programs.json.gz: unknown name " + name);
}

// What follows a node's operands in the file, in order.
class AttributeReader {
 public:
  explicit AttributeReader(const Json& node) : node_(node) {}
  Dims dims() {
    const Json& list = next();
    Dims d;
    for (const Json& n : list) d.push_back(n);
    return d;
  }
  int64_t integer() { return next().get<int64_t>(); }
  double number() { return next().get<double>(); }
  bool flag() { return next().get<bool>(); }
  const std::string& name() { return next().get_ref<const std::string&>(); }
  const Json& next() { return node_.at(at_++); }

  DType dtype() { return named(name(), {DType::f64, DType::f32, DType::i64, DType::i32}); }
  Reduction reduction() { return named(name(), {Reduction::sum, Reduction::max, Reduction::min, Reduction::product}); }
  GatherDims gather() {
    GatherDims d{dims(), dims(), dims(), dims()};
    d.bounds = name() == "clip" ? Bounds::clip : Bounds::fill_or_drop;
    return d;
  }
  WindowDims window() { return {reduction(), dims(), dims(), dims(), dims(), dims(), dims()}; }
  ConvLayout layout() {
    const Dims d = dims();
    ConvLayout layout{d[0], d[1], {}};
    for (int64_t i = 2; i < d.size(); ++i) layout.spatial.push_back(d[i]);
    return layout;
  }
  ConvDims convolution() {
    return {layout(), layout(), layout(), dims(), dims(), dims(), dims(), dims(), integer(), integer()};
  }

 private:
  const Json& node_;
  size_t at_ = 2;
};

Array constant_of(AttributeReader& a) {
  const DType dtype = a.dtype();
  Array array(dtype, a.dims());
  const Json& numbers = a.next();
  for (size_t i = 0; i < numbers.size(); ++i) array.set(static_cast<int64_t>(i), numbers[i]);
  return array;
}

// Inputs apart, which the caller makes.
Tensor record_node(Tape& tape, const std::string& op, const Tensors& x, AttributeReader a) {
  if (const auto f = unary.find(op); f != unary.end()) return f->second(x.at(0));
  if (const auto f = binary.find(op); f != binary.end()) return f->second(x.at(0), x.at(1));
  if (op == "full") {
    const double value = a.number();
    return full(tape, DType::f64, a.dims(), value);
  }
  if (op == "iota") {
    const Shape shape = a.dims();
    return iota(tape, DType::f64, shape, a.integer());
  }
  if (op == "constant") return constant(tape, constant_of(a));
  if (op == "convert") return convert(x.at(0), a.dtype());
  if (op == "reduce_precision") {
    const int64_t exponent = a.integer(), mantissa = a.integer();
    return reduce_precision(x.at(0), static_cast<int>(exponent), static_cast<int>(mantissa));
  }
  if (op == "compare") {
    using enum Direction;
    return compare(x.at(0), x.at(1), named(a.name(), {eq, ne, lt, le, gt, ge}));
  }
  if (op == "select") return select(x.at(0), x.at(1), x.at(2));
  if (op == "clamp") return clamp(x.at(0), x.at(1), x.at(2));
  if (op == "reshape") return reshape(x.at(0), a.dims());
  if (op == "transpose") return transpose(x.at(0), a.dims());
  if (op == "broadcast_in_dim") {
    const Shape shape = a.dims();
    return broadcast_in_dim(x.at(0), shape, a.dims());
  }
  if (op == "slice") {
    const SliceDims d{a.dims(), a.dims(), a.dims()};
    return slice(x.at(0), d.start, d.limit, d.stride);
  }
  if (op == "pad") return pad(x.at(0), PadDims{a.dims(), a.dims(), a.dims()});
  if (op == "concatenate") return concatenate(x, a.integer());
  if (op == "reverse") return reverse(x.at(0), a.dims());
  if (op == "dynamic_slice") return dynamic_slice(x.at(0), x.at(1), a.dims());
  if (op == "dynamic_update_slice") return dynamic_update_slice(x.at(0), x.at(1), x.at(2));
  if (op == "gather") return gather(x.at(0), x.at(1), a.gather());
  if (op == "scatter") {
    const GatherDims where = a.gather();
    return scatter(x.at(0), x.at(1), x.at(2), {where, a.flag()});
  }
  if (op == "sort") return x.at(0) == x.at(1) ? sort(x.at(0), a.integer()) : sort_by(x.at(0), x.at(1), a.integer());
  if (op == "reduce") {
    const Reduction kind = a.reduction();
    return reduce(x.at(0), kind, a.dims());
  }
  if (op == "argmax") return argmax(x.at(0), a.integer());
  if (op == "cumsum") {
    const int64_t axis = a.integer();
    return cumsum(x.at(0), axis, a.flag());
  }
  if (op == "reduce_window") return reduce_window(x.at(0), a.window());
  if (op == "select_and_scatter") return select_and_scatter(x.at(0), x.at(1), a.window());
  if (op == "select_and_gather") return select_and_gather(x.at(0), x.at(1), a.window());
  if (op == "dot_general") return dot_general(x.at(0), x.at(1), DotDims{a.dims(), a.dims(), a.dims(), a.dims()});
  if (op == "convolution") return convolution(x.at(0), x.at(1), a.convolution());
  throw RunError("random_programs.json.gz: unknown operation " + op);
}

Tensor inner(const Tensors& a, const Tensors& b) {
  Tensor total;
  for (size_t i = 0; i < a.size(); ++i) {
    const Tensor part = sum(a[i] * b[i]);
    total = total.defined() ? total + part : part;
  }
  return total;
}

struct Recorded {
  Program program;  // s, s1, |g|^2, s2, |h|^2, and s1 and s2 by forward mode
  std::vector<Array> inputs;
  std::string text;  // the tape before it is differentiated
  double v_norm = 0, q_norm = 0;
};

double norm_of(const std::vector<Array>& arrays) {
  double squares = 0;
  for (const Array& a : arrays)
    for (int64_t i = 0; i < a.size(); ++i) squares += a.at(i) * a.at(i);
  return std::sqrt(squares);
}

Recorded recorded(const Json& entry) {
  const uint32_t key = entry["key"];
  Recorded result;
  result.program = record("random_" + std::to_string(key), [&](Recorder& r) {
    const auto input = [&](const char* kind, size_t i, uint32_t stream, const Shape& shape) {
      result.inputs.push_back(values(key, stream + static_cast<uint32_t>(i), shape));
      return r.input(kind + std::to_string(i), DType::f64, shape);
    };
    Tensors nodes, xs;
    std::vector<bool> read;
    for (const Json& node : entry["nodes"]) {
      const std::string& op = node[0].get_ref<const std::string&>();
      Tensors operands;
      for (size_t i : node[1]) operands.push_back(nodes.at(i)), read[i] = true;
      AttributeReader attributes(node);
      if (op == "input") xs.push_back(input("x", xs.size(), 0, attributes.dims()));
      nodes.push_back(op == "input" ? xs.back() : record_node(r.tape(), op, operands, attributes));
      read.push_back(!is_float(nodes.back().dtype()));
    }
    Tensors vs, qs, ws, ys;
    for (size_t i = 0; i < nodes.size(); ++i)
      if (!read[i]) ys.push_back(nodes[i]), ws.push_back(input("w", ws.size(), weights, nodes[i].shape()));
    result.text = concat(r.tape());
    std::vector<Array> v, q;
    for (size_t i = 0; i < xs.size(); ++i) {
      vs.push_back(input("v", i, direction_v, xs[i].shape())), v.push_back(result.inputs.back());
      qs.push_back(input("q", i, direction_q, xs[i].shape())), q.push_back(result.inputs.back());
    }
    result.v_norm = norm_of(v), result.q_norm = norm_of(q);

    const GradOptions zeros{.cotangent = {}, .unused = Unused::zeros};
    const Tensor s = inner(ws, ys);
    const Tensors g = grad(s, xs, zeros);
    const Tensor s1 = inner(vs, g);
    const Tensors h = grad(s1, xs, zeros);
    const Tensor t1 = jvp(std::vector{s}, xs, vs)[0], t2 = jvp(std::vector{t1}, xs, qs)[0];
    r.output("s", s), r.output("s1", s1), r.output("|g|^2", inner(g, g));
    r.output("s2", inner(qs, h)), r.output("|h|^2", inner(h, h));
    r.output("s1 forward", t1), r.output("s2 forward", t2);
  });
  return result;
}

// What a figure should be, and the size that its error is measured by.
struct Expected {
  double value, scale;
};

std::vector<Expected> expected(const Json& figures, const Recorded& r) {
  const std::vector<double> f = figures;
  const double s = f[0], scale = f[1], s1 = f[2], g2 = f[3], s2 = f[4], h2 = f[5];
  const double first = r.v_norm * std::sqrt(g2), second = r.q_norm * std::sqrt(h2);
  return {{s, scale}, {s1, first}, {g2, g2}, {s2, second}, {h2, h2},
          {f.size() > 6 ? f[6] : s1, first}, {f.size() > 6 ? f[7] : s2, second}};
}

struct Worst {
  double error = 0;
  std::string text;
};

}  // namespace

TEST_SUITE_BEGIN("random programs");

TEST_CASE("values and derivatives of random programs are jax's, and no pass changes a bit of them") {
  constexpr double allowed = 1e-9;
  const Json all = programs();
  CHECK(all.size() >= 1000);
  std::map<std::string, Worst> worst;  // by device
  std::ostringstream wrong;
  for (const Json& entry : all) {
    const Recorded r = recorded(entry);
    const std::vector<Expected> figures = expected(entry["figures"], r);
    const Program optimized = optimize(r.program);
    for (const NamedDevice& device : all_devices()) {
      const std::vector<Array> got = run(r.program, r.inputs, device), after_passes = run(optimized, r.inputs, device);
      for (size_t i = 0; i < figures.size(); ++i) {
        const double error = std::abs(got[i].item() - figures[i].value) / figures[i].scale;
        const bool same_bits = bitwise_equal(got[i], after_passes[i]);
        std::ostringstream text;
        text.precision(17);
        text << "program " << entry["key"] << " on " << device.name << ": " << r.program.outputs[i].name << " is "
             << got[i].item() << ", expected " << figures[i].value << ", off by " << error << " of " << figures[i].scale;
        if (!same_bits) text << ", optimized " << after_passes[i].item();
        if (!(error <= worst[device.name].error)) worst[device.name] = {error, text.str() + '\n' + r.text};
        if (!(error <= allowed) || !same_bits) wrong << text.str() << '\n';
      }
    }
  }
  CHECK_MESSAGE(wrong.str().empty(), wrong.str());
  for (const auto& [device, w] : worst) CHECK_MESSAGE(w.error <= allowed, w.text);
}

TEST_SUITE_END();
