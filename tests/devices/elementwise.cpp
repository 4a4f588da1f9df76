// Every elementwise primitive in every dtype that it admits, on the cpu and on the chip, against the reference: random
// values and special ones, within the units of the last place that the table states.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>

#include "devices/device.hpp"
#include "devices/tpu/tpu.hpp"
#include "engine/ops.hpp"
#include "engine/passes.hpp"

using namespace backbeat;

namespace {

const DType all_dtypes[] = {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64,    DType::i32,
                            DType::i16, DType::i8,  DType::u32,  DType::u8,  DType::boolean};

enum Admits { floats = 1, integers = 2, booleans = 4, numbers = 3, discrete = 6, everything = 7 };
bool admits(int set, DType d) { return set & (is_float(d) ? floats : is_integer(d) ? integers : booleans); }

using Record = std::function<Tensor(Tensor, Tensor, Tensor)>;
struct Primitive {
  Op op;
  Admits set;
  Record record;
  int64_t f64 = 0, f32 = 0, half = 0;  // units in the last place, between this device and the reference; 0: the same bits
};

#define UNARY(name) [](Tensor x, Tensor, Tensor) { return name(x); }
#define BINARY(name) [](Tensor x, Tensor y, Tensor) { return name(x, y); }
const Primitive primitives[] = {
    {Op::negate, numbers, UNARY(negate)},
    {Op::abs, numbers, UNARY(abs)},
    {Op::sign, numbers, UNARY(sign)},
    {Op::exp, floats, UNARY(exp), 0, 2, 1},
    {Op::expm1, floats, UNARY(expm1), 0, 2, 1},
    {Op::log, floats, UNARY(log), 0, 2, 1},
    {Op::log1p, floats, UNARY(log1p), 0, 2, 1},
    {Op::sqrt, floats, UNARY(sqrt)},
    {Op::rsqrt, floats, UNARY(rsqrt)},
    {Op::tanh, floats, UNARY(tanh), 0, 4, 1},
    {Op::logistic, floats, UNARY(logistic), 2, 3, 1},
    {Op::erf, floats, UNARY(erf), 0, 2, 1},
    {Op::sine, floats, UNARY(sine), 0, 2, 1},
    {Op::cosine, floats, UNARY(cosine), 0, 2, 1},
    {Op::floor, floats, UNARY(floor)},
    {Op::ceil, floats, UNARY(ceil)},
    {Op::round_nearest_even, floats, UNARY(round_nearest_even)},
    {Op::is_finite, floats, UNARY(is_finite)},
    {Op::logical_not, booleans, UNARY(logical_not)},
    {Op::reduce_precision, floats, [](Tensor x, Tensor, Tensor) { return reduce_precision(x, 5, 3); }},
    {Op::reduce_precision, floats, [](Tensor x, Tensor, Tensor) { return reduce_precision(x, 4, 10); }},
    {Op::reduce_precision, floats, [](Tensor x, Tensor, Tensor) { return reduce_precision(x, 8, 7); }},
    {Op::reduce_precision, floats, [](Tensor x, Tensor, Tensor) { return reduce_precision(x, 11, 1); }},
    {Op::reduce_precision, floats, [](Tensor x, Tensor, Tensor) { return reduce_precision(x, 1, 0); }},
    {Op::stop_gradient, everything, UNARY(stop_gradient)},
    {Op::add, numbers, BINARY(add)},
    {Op::subtract, numbers, BINARY(subtract)},
    {Op::multiply, numbers, BINARY(multiply)},
    {Op::divide, numbers, BINARY(divide)},
    {Op::remainder, numbers, BINARY(remainder)},
    {Op::maximum, numbers, BINARY(maximum)},
    {Op::minimum, numbers, BINARY(minimum)},
    {Op::power, floats, BINARY(power), 0, 2, 1},
    {Op::bitwise_and, discrete, BINARY(bitwise_and)},
    {Op::bitwise_or, discrete, BINARY(bitwise_or)},
    {Op::bitwise_xor, discrete, BINARY(bitwise_xor)},
    {Op::shift_left, integers, BINARY(shift_left)},
    {Op::shift_right_logical, integers, BINARY(shift_right_logical)},
    {Op::shift_right_arithmetic, integers, BINARY(shift_right_arithmetic)},
    {Op::compare, everything, [](Tensor x, Tensor y, Tensor) { return compare(x, y, Direction::eq); }},
    {Op::compare, everything, [](Tensor x, Tensor y, Tensor) { return compare(x, y, Direction::ne); }},
    {Op::compare, everything, [](Tensor x, Tensor y, Tensor) { return compare(x, y, Direction::lt); }},
    {Op::compare, everything, [](Tensor x, Tensor y, Tensor) { return compare(x, y, Direction::le); }},
    {Op::compare, everything, [](Tensor x, Tensor y, Tensor) { return compare(x, y, Direction::gt); }},
    {Op::compare, everything, [](Tensor x, Tensor y, Tensor) { return compare(x, y, Direction::ge); }},
    {Op::select, everything, [](Tensor x, Tensor y, Tensor z) { return select(compare(x, z, Direction::le), x, y); }},
    {Op::clamp, numbers, [](Tensor x, Tensor y, Tensor z) { return clamp(y, x, z); }},
};

int64_t allowed(const Primitive& p, DType dtype) {
  return dtype == DType::f64 ? p.f64 : dtype == DType::f32 ? p.f32 : is_half(dtype) ? p.half : 0;
}

// Values of a dtype: its edges, then random bits and small numbers in turn.
Array values(DType dtype, int64_t n, uint32_t seed) {
  std::vector<double> special;
  if (is_float(dtype)) {
    struct Range {
      double most, normal, least;  // the largest, the smallest normal and the smallest positive number
    };
    const Range range = dtype == DType::f64   ? Range{0x1.fffffffffffffp1023, 0x1p-1022, 0x1p-1074}
                        : dtype == DType::f32 ? Range{0x1.fffffep127, 0x1p-126, 0x1p-149}
                        : dtype == DType::f16 ? Range{0x1.ffcp15, 0x1p-14, 0x1p-24}
                                              : Range{0x1.fep127, 0x1p-126, 0x1p-133};
    for (double x : {0.0, 1.0, 0.5, 1.5, 2.5, 3.0, 88.8, 103.9, 4095.5, HUGE_VAL, range.most, range.normal,
                     range.normal - range.least, range.least})
      special.push_back(x), special.push_back(-x);
    special.push_back(std::nan(""));
  } else if (is_integer(dtype)) {
    const int bits = static_cast<int>(8 * size_of(dtype));
    for (int64_t x : {0, 1, 2, 3, 7, -1, -2, -3, bits - 1, bits, bits + 1}) special.push_back(static_cast<double>(x));
    for (double x : {-100.0, 100.0, -0x1p64, 0x1p64}) special.push_back(x);  // the last two become the dtype's extremes
  } else {
    special = {0, 1};
  }
  std::mt19937_64 random(seed);
  std::normal_distribution<double> near(0, 3);
  Array a(dtype, {n});
  const auto edges = static_cast<int64_t>(special.size());
  for (int64_t i = 0; i < n; ++i) {
    if (i < edges * edges) {  // the second array of a pair steps through them while the first stands
      a.set(i, special[static_cast<size_t>(seed % 2 ? i / edges : i % edges)]);
    } else if (dtype == DType::boolean) {
      a.set(i, static_cast<double>(random() % 2));
    } else if (i % 3 == 0) {
      a.set(i, is_float(dtype) ? near(random) : std::round(20 * near(random)));
    } else {
      const uint64_t bits = random();
      std::memcpy(static_cast<char*>(a.raw()) + i * size_of(dtype), &bits, static_cast<size_t>(size_of(dtype)));
    }
  }
  return a;
}

// Bits as integers in the order of the values.
int64_t ordered(const Array& a, int64_t i) {
  const auto of = [](auto bits) {
    using Bits = decltype(bits);
    return bits < 0 ? -static_cast<int64_t>(bits & std::numeric_limits<Bits>::max()) : static_cast<int64_t>(bits);
  };
  switch (a.dtype()) {
    case DType::f64: return of(std::bit_cast<int64_t>(a.data<double>()[i]));
    case DType::f32: return of(std::bit_cast<int32_t>(a.data<float>()[i]));
    case DType::bf16: return of(static_cast<int16_t>(a.data<bf16>()[i].bits));
    case DType::f16: return of(static_cast<int16_t>(a.data<f16>()[i].bits));
    case DType::i64: return a.data<int64_t>()[i];
    default: return static_cast<int64_t>(a.at(i));
  }
}

// The largest distance in units of the last place. Two NaN agree. Where no distance is allowed, neither are a zero's signs.
int64_t distance(const Array& got, const Array& expected, int64_t allowed, int64_t& where) {
  if (got.dtype() != expected.dtype() || got.shape() != expected.shape()) return INT64_MAX;
  int64_t worst = 0;
  for (int64_t i = 0; i < got.size(); ++i) {
    const double x = got.at(i), y = expected.at(i);
    int64_t d = 0;
    if (std::isnan(x) || std::isnan(y)) d = std::isnan(x) && std::isnan(y) ? 0 : INT64_MAX;
    else if (allowed == 0 && std::signbit(x) != std::signbit(y)) d = INT64_MAX;
    else if (const int64_t a = ordered(got, i), b = ordered(expected, i); a != b)
      d = is_float(got.dtype()) ? std::abs(a - b) : INT64_MAX;
    if (d > worst) worst = d, where = i;
  }
  return worst;
}

struct Tested {
  std::string name;
  std::unique_ptr<Device> device;
};
std::vector<Tested> tested() {
  std::vector<Tested> devices;
  devices.push_back({"cpu", make_cpu_device()});
  devices.push_back({"tpu-v3", make_tpu_device(sim::load_chip("tpu-v3"))});
  return devices;
}

void agree(const Program& program, const std::vector<Array>& inputs, const std::vector<Tested>& devices, int64_t allowed) {
  StateStore state;
  const Array expected = make_reference_device()->compile(program)->run(inputs, state)[0];
  for (const Tested& d : devices) {
    CAPTURE(d.name);
    const Array got = d.device->compile(program)->run(inputs, state)[0];
    int64_t at = 0;
    const int64_t far = distance(got, expected, allowed, at);
    if (far > allowed) {
      for (const Array& input : inputs) MESSAGE("operand ", input.at(at));
      MESSAGE("got ", got.at(at), ", expected ", expected.at(at));
    }
    CHECK(far <= allowed);
  }
}

constexpr int64_t count = 2500;

}  // namespace

TEST_CASE("elementwise: every primitive in every dtype on every device") {
  const std::vector<Tested> devices = tested();
  for (const Primitive& p : primitives)
    for (DType dtype : all_dtypes) {
      CAPTURE(name_of(p.op));
      CAPTURE(name_of(dtype));
      if (!admits(p.set, dtype)) continue;
      const Program program = record("test", [&](Recorder& r) {
        const Tensor x = r.input("x", dtype, {count}), y = r.input("y", dtype, {count}), z = r.input("z", dtype, {count});
        r.output("out", p.record(x, y, z));
      });
      agree(program, {values(dtype, count, 1), values(dtype, count, 2), values(dtype, count, 3)}, devices, allowed(p, dtype));
    }
}

TEST_CASE("elementwise: what a primitive does not admit is refused while recording") {
  for (const Primitive& p : primitives)
    for (DType dtype : all_dtypes) {
      if (admits(p.set, dtype)) continue;
      CAPTURE(name_of(p.op));
      CAPTURE(name_of(dtype));
      std::string message = "nothing was thrown";
      try {
        record("test", [&](Recorder& r) {
          const Tensor x = r.input("x", dtype, {3});
          r.output("out", p.record(x, x, x));
        });
      } catch (const Error& error) {
        message = error.what();
      }
      CHECK(message.find(concat('[', p.op, "] ")) == 0);
      CHECK(message.find(concat(dtype, "[3]")) != std::string::npos);
    }
}

TEST_CASE("elementwise: every conversion on every device") {
  const std::vector<Tested> devices = tested();
  for (DType from : all_dtypes)
    for (DType to : all_dtypes) {
      if (from == to) continue;
      CAPTURE(name_of(from));
      CAPTURE(name_of(to));
      const Program program =
          record("test", [&](Recorder& r) { r.output("out", convert(r.input("x", from, {count}), to)); });
      agree(program, {values(from, count, 4)}, devices, 0);
    }
}

TEST_CASE("elementwise: the table misses no primitive") {
  for (int i = 0; i < static_cast<int>(Op::count_); ++i) {
    const Op op = static_cast<Op>(i);
    if (!is_elementwise(op) || op == Op::convert) continue;
    CAPTURE(name_of(op));
    CHECK(std::any_of(std::begin(primitives), std::end(primitives), [&](const Primitive& p) { return p.op == op; }));
  }
}

TEST_CASE("elementwise: folding constants changes no bit, and leaves reduce_precision alone") {
  const std::unique_ptr<Device> cpu = make_cpu_device();
  constexpr int64_t few = 900;
  for (const Primitive& p : primitives)
    for (DType dtype : all_dtypes) {
      if (!admits(p.set, dtype)) continue;
      CAPTURE(name_of(p.op));
      CAPTURE(name_of(dtype));
      const Program program = record("test", [&](Recorder& r) {
        Tensor x[3];
        for (uint32_t i = 0; i < 3; ++i) x[i] = constant(r.tape(), values(dtype, few, i));
        r.output("out", p.record(x[0], x[1], x[2]));
      });
      const Program folded = optimize(program, {});
      bool stays = false;
      for (NodeId id = 0; id < folded.tape.size(); ++id) stays = stays || folded.tape[id].op == p.op;
      const bool gone = p.op == Op::compare || p.op == Op::stop_gradient;  // i64 is not folded, but a bool is
      CHECK(stays == (p.op == Op::reduce_precision || (dtype == DType::i64 && !gone)));
      StateStore state;
      int64_t at = 0;
      CHECK(distance(cpu->compile(folded)->run({}, state)[0], cpu->compile(program)->run({}, state)[0], 0, at) == 0);
    }
}

// The values are those of jax 0.10.2 (lax functions on the CPU backend), where they settle what an operation means.
TEST_CASE("elementwise: what jax says of edges") {
  std::vector<Tested> devices = tested();
  devices.push_back({"reference", make_reference_device()});
  const auto f32 = [](std::vector<uint32_t> bits) {
    Array a(DType::f32, {static_cast<int64_t>(bits.size())});
    std::memcpy(a.raw(), bits.data(), bits.size() * 4);
    return a;
  };
  const auto half = [](DType dtype, std::vector<uint16_t> bits) {
    Array a(dtype, {static_cast<int64_t>(bits.size())});
    std::memcpy(a.raw(), bits.data(), bits.size() * 2);
    return a;
  };
  const auto floats_of = [](std::vector<float> v) { return Array::from<float>({static_cast<int64_t>(v.size())}, v); };
  const auto i8 = [](std::vector<int8_t> v) { return Array::from<int8_t>({static_cast<int64_t>(v.size())}, v); };
  const auto u8 = [](std::vector<uint8_t> v) { return Array::from<uint8_t>({static_cast<int64_t>(v.size())}, v); };
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  struct Golden {
    std::string name;
    Record record;
    std::vector<Array> inputs;
    Array expected;
  };
  const auto reduced = [](int e, int m) -> Record {
    return [=](Tensor x, Tensor, Tensor) { return reduce_precision(x, e, m); };
  };
  const auto to = [](DType dtype) -> Record { return [=](Tensor x, Tensor, Tensor) { return convert(x, dtype); }; };
  const Array x32 = f32({0x1, 0x7fffff, 0x800000, 0x387fffff, 0x38800000, 0x387fefff, 0x387ff000, 0x33000000, 0x477fefff,
                         0x477ff000, 0x7f7fffff, 0xff800000, 0x3f801000, 0x3f803000, 0x3f801001, 0xbf80f000, 0x7f000000});
  const Array x16 = half(DType::f16, {0x1, 0x200, 0x3ff, 0x400, 0x401, 0x7bff, 0x7c00, 0x3c01, 0x3c02, 0x3c03, 0x83ff, 0x8001,
                                      0x5555});
  const Array xb = half(DType::bf16, {0x1, 0x40, 0x7f, 0x80, 0x81, 0x7f7f, 0x7f80, 0x3f81, 0x3f83, 0x807f, 0x4755, 0x3855});
  const Array dividend = i8({7, -7, 7, -7, 5, -128, -128, 127, -1}), divisor = i8({3, 3, -3, -3, 0, -1, 0, -1, -128});
  const Array far = i8({0, 1, 7, 8, 127, -1});  // shifts
  const Array beyond = floats_of({300.7f, -300.7f, nan, inf, -inf, 1.5f});
  const Golden table[] = {
      {"reduce_precision f32 to (8, 23)", reduced(8, 23), {x32}, x32},
      {"reduce_precision f32 to (8, 7)", reduced(8, 7), {x32},
       f32({0x0, 0x800000, 0x800000, 0x38800000, 0x38800000, 0x38800000, 0x38800000, 0x33000000, 0x47800000, 0x47800000, 0x7f800000,
            0xff800000, 0x3f800000, 0x3f800000, 0x3f800000, 0xbf810000, 0x7f000000})},
      {"reduce_precision f32 to (5, 10)", reduced(5, 10), {x32},
       f32({0x0, 0x0, 0x0, 0x38800000, 0x38800000, 0x0, 0x38800000, 0x0, 0x477fe000, 0x7f800000, 0x7f800000, 0xff800000, 0x3f800000,
            0x3f804000, 0x3f802000, 0xbf810000, 0x7f800000})},
      {"reduce_precision f32 to (4, 3)", reduced(4, 3), {x32},
       f32({0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x7f800000, 0x7f800000, 0x7f800000, 0xff800000, 0x3f800000, 0x3f800000, 0x3f800000,
            0xbf800000, 0x7f800000})},
      {"reduce_precision f16 to (5, 10)", reduced(5, 10), {x16}, x16},
      {"reduce_precision f16 to (5, 2)", reduced(5, 2), {x16},
       half(DType::f16, {0x0, 0x200, 0x400, 0x400, 0x400, 0x7c00, 0x7c00, 0x3c00, 0x3c00, 0x3c00, 0x8400, 0x8000, 0x5500})},
      {"reduce_precision f16 to (4, 3)", reduced(4, 3), {x16},
       half(DType::f16, {0x0, 0x0, 0x0, 0x0, 0x0, 0x7c00, 0x7c00, 0x3c00, 0x3c00, 0x3c00, 0x8000, 0x8000, 0x5580})},
      {"reduce_precision bf16 to (8, 3)", reduced(8, 3), {xb},
       half(DType::bf16, {0x0, 0x40, 0x80, 0x80, 0x80, 0x7f80, 0x7f80, 0x3f80, 0x3f80, 0x8080, 0x4750, 0x3850})},
      {"reduce_precision bf16 to (5, 10)", reduced(5, 10), {xb},
       half(DType::bf16, {0x0, 0x0, 0x0, 0x0, 0x0, 0x7f80, 0x7f80, 0x3f81, 0x3f83, 0x8000, 0x4755, 0x0})},
      {"round_nearest_even", UNARY(round_nearest_even),
       {floats_of({-2.5f, -1.5f, -0.5f, -0.3f, -0.0f, 0.5f, 1.5f, 2.5f, 8388609.0f})},
       floats_of({-2, -2, -0.0f, -0.0f, -0.0f, 0, 2, 2, 8388609})},
      {"floor", UNARY(floor), {floats_of({-0.0f, -0.3f, -1, 0.7f})}, floats_of({-0.0f, -1, -1, 0})},
      {"ceil", UNARY(ceil), {floats_of({-0.0f, -0.3f, -0.7f, 0.7f, -1})}, floats_of({-0.0f, -0.0f, -0.0f, 1, -1})},
      {"remainder of floats", BINARY(remainder),
       {floats_of({5.5f, -5.5f, 5.5f, -5.5f, -4, 1, inf, 3, -0.0f, 3}), floats_of({2, 2, -2, -2, 2, 0, 2, inf, 3, -inf})},
       floats_of({1.5f, -1.5f, 1.5f, -1.5f, -0.0f, nan, nan, 3, -0.0f, 3})},
      {"remainder of integers", BINARY(remainder), {dividend, divisor},
       i8({1, -1, 1, -1, 5, 0, -128, 0, -1})},
      {"quotient of integers", BINARY(divide), {dividend, divisor},
       i8({2, -2, -2, 2, -1, -128, -1, -127, 0})},
      {"quotient without sign", BINARY(divide), {u8({7, 255, 5, 0}), u8({3, 2, 0, 0})}, u8({2, 127, 255, 255})},
      {"shift_left", BINARY(shift_left), {i8({127, 127, 127, 127, 127, 127}), far}, i8({127, -2, -128, 0, 0, 0})},
      {"shift_right_logical", BINARY(shift_right_logical), {i8({-1, -1, -1, -1, -1, -1}), far}, i8({-1, 127, 1, 0, 0, 0})},
      {"shift_right_arithmetic", BINARY(shift_right_arithmetic), {i8({-128, -128, -128, -128, -128, -128}), far},
       i8({-128, -64, -1, -1, -1, -1})},
      {"shift_right_arithmetic without sign", BINARY(shift_right_arithmetic), {u8({128, 128, 128, 128, 5}), u8({0, 1, 7, 8, 1})},
       u8({128, 192, 255, 255, 2})},
      {"clamp", [](Tensor x, Tensor low, Tensor high) { return clamp(low, x, high); },
       {floats_of({nan, -1, 2, 0, 0, 0}), floats_of({0, 0, 0, nan, 0, 2}), floats_of({1, 1, 1, 1, nan, 1})},
       floats_of({nan, 0, 1, nan, nan, 1})},
      {"abs of the smallest integer", UNARY(abs), {i8({-128, 127})}, i8({-128, 127})},
      {"negative without sign", UNARY(negate), {u8({1, 0})}, u8({255, 0})},
      {"to i8", to(DType::i8), {beyond}, i8({127, -128, 0, 127, -128, 1})},
      {"to u8", to(DType::u8), {beyond}, u8({255, 0, 0, 255, 0, 1})},
      {"i32 to i8", to(DType::i8), {Array::from<int32_t>({3}, {300, -300, 128})}, i8({44, -44, -128})},
  };
  for (const Golden& g : table) {
    CAPTURE(g.name);
    const Program program = record("test", [&](Recorder& r) {
      std::vector<Tensor> in;
      for (const Array& x : g.inputs) in.push_back(r.input(concat("in", in.size()), x.dtype(), x.shape()));
      in.resize(3);
      r.output("out", g.record(in[0], in[1], in[2]));
    });
    for (const Tested& d : devices) {
      CAPTURE(d.name);
      StateStore state;
      const Array got = d.device->compile(program)->run(g.inputs, state)[0];
      int64_t at = 0;
      CAPTURE(got);
      CAPTURE(g.expected);
      CHECK(distance(got, g.expected, 0, at) == 0);
    }
  }
}
