// The table in docs/primitives.md: every primitive in every dtype on every device against the reference, and the highest
// order of derivative that is checked. BACKBEAT_UPDATE=1 writes the file instead of comparing with it.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include <doctest/doctest.h>

#include "devices/tpu/tpu.hpp"
#include "engine/passes.hpp"
#include "sim/chip.hpp"
#include "tests/devices.hpp"
#include "tests/samples.hpp"

using namespace backbeat;
using namespace backbeat::test;

namespace {

constexpr DType dtypes[] = {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64,    DType::i32,
                            DType::i16, DType::i8,  DType::u32,  DType::u8,  DType::boolean};
constexpr uint32_t seeds = 12;

// A float's place among all of its type, so that neighbours differ by one.
template <class Bits, class Float>
double place(Float value) {
  const Bits bits = std::bit_cast<Bits>(value);
  constexpr Bits sign = Bits(1) << (8 * sizeof(Bits) - 1);
  return bits & sign ? -static_cast<double>(bits & (sign - 1)) : static_cast<double>(bits);
}

double ulps_apart(const Array& a, const Array& b) {
  double worst = 0;
  for (int64_t i = 0; i < a.size(); ++i) {
    double apart = 0;
    switch (a.dtype()) {
      case DType::f64: apart = place<uint64_t>(a.data<double>()[i]) - place<uint64_t>(b.data<double>()[i]); break;
      case DType::f32: apart = place<uint32_t>(a.data<float>()[i]) - place<uint32_t>(b.data<float>()[i]); break;
      case DType::bf16: apart = place<uint16_t>(a.data<bf16>()[i].bits) - place<uint16_t>(b.data<bf16>()[i].bits); break;
      case DType::f16: apart = place<uint16_t>(a.data<f16>()[i].bits) - place<uint16_t>(b.data<f16>()[i].bits); break;
      default: apart = a.at(i) == b.at(i) ? 0 : INFINITY; break;
    }
    const bool nans = a.at(i) != a.at(i) && b.at(i) != b.at(i);
    worst = std::max(worst, nans ? 0 : std::abs(apart));
  }
  return worst;
}

// Products of numbers that bf16 holds are the same on a chip in one pass as anywhere else.
bool is_product(Op op) { return op == Op::dot_general || op == Op::convolution; }

Array operand(const Array& drawn, DType dtype, Op op) {
  if (is_float(dtype)) return is_product(op) ? drawn.converted(DType::bf16).converted(dtype) : drawn.converted(dtype);
  Array whole = drawn.clone();
  for (int64_t i = 0; i < whole.size(); ++i) {
    const double v = std::round(4 * drawn.at(i));
    whole.set(i, dtype == DType::u32 || dtype == DType::u8 ? std::abs(v) : v);
  }
  return whole.converted(dtype);
}

double allowed(const PrimitiveSamples& row, DType result) {
  if (result == DType::f64) return row.ulps_f64;
  if (result == DType::f32) return row.ulps_f32;
  return is_half(result) && row.ulps_f32 > 0 ? 1 : 0;
}

struct Target {
  const char* name;
  std::unique_ptr<Device> device;
};

// Runs the program on every device; how far the worst result may lie from the reference's.
double compare(const std::string& what, const Program& program, const std::vector<Array>& inputs, double bound,
               const std::vector<Target>& targets) {
  const Array expected = run(program, inputs)[0];
  for (const Target& target : targets) {
    StateStore state;
    const double apart = ulps_apart(expected, target.device->compile(optimize(program))->run(inputs, state)[0]);
    CHECK_MESSAGE(apart <= bound, concat(what, " on ", target.name, ": ", apart, " ulps, allowed ", bound));
  }
  return bound;
}

// One use in one dtype. "–" where the engine refuses the dtype while recording; else the bound, which every device keeps.
std::string cell(const PrimitiveSamples& row, DType dtype, const std::vector<Target>& targets) {
  double bound = -1;
  for (uint32_t seed = 1; seed <= seeds; ++seed) {
    Draw draw(seed);
    const Sample sample = row.draw(draw);
    std::vector<Array> operands;
    for (const Array& drawn : sample.operands) operands.push_back(operand(drawn, dtype, row.op));
    Program program;
    DType result = dtype;
    try {
      program = record("coverage", [&](Recorder& r) {
        std::vector<Tensor> t;
        for (size_t i = 0; i < operands.size(); ++i) t.push_back(r.input(concat("x", i), dtype, operands[i].shape()));
        const Tensor y = sample.record(t);
        result = y.dtype();
        r.output("y", y);
      });
    } catch (const Error&) {
      CHECK_MESSAGE(bound < 0, concat(row.label, " takes ", dtype, " with some seeds only"));
      continue;
    }
    CHECK_MESSAGE((seed == 1 || bound >= 0), concat(row.label, " takes ", dtype, " with some seeds only"));
    bound = std::max(bound, compare(concat(row.label, ' ', dtype, ", seed ", seed), program, operands, allowed(row, result), targets));
  }
  return bound < 0 ? "–" : concat(bound);
}

// What has no operands to draw.
struct Leaf {
  const char* name;
  std::function<Tensor(Recorder&, DType)> record;
};
const Leaf leaves[] = {
    {"input", [](Recorder& r, DType dtype) { return r.input("x", dtype, {2, 3}); }},
    {"constant", [](Recorder& r, DType dtype) { return constant(r.tape(), Array::full(dtype, {2, 3}, 1)); }},
    {"iota", [](Recorder& r, DType dtype) { return iota(r.tape(), dtype, {3, 40}, 1); }},
    {"rng_bit_generator",
     [](Recorder& r, DType dtype) {
       if (dtype != DType::u32) fail("rng_bit_generator", "gives u32");
       return rng_bit_generator(constant(r.tape(), Array::from<uint32_t>({5}, {1, 2, 3, 4, 5})), {4, 7});
     }},
    {"replica_id",
     [](Recorder& r, DType dtype) {
       if (dtype != DType::u32) fail("replica_id", "gives u32");
       return replica_id(r.tape());
     }},
};

std::string cell(const Leaf& leaf, DType dtype, const std::vector<Target>& targets) {
  Program program;
  try {
    program = record("coverage", [&](Recorder& r) { r.output("y", leaf.record(r, dtype)); });
  } catch (const Error&) {
    return "–";
  }
  std::vector<Array> inputs;
  for (const Program::Port& port : program.inputs) inputs.push_back(Array::full(dtype, program.tape[port.node].shape, 1));
  return concat(compare(concat(leaf.name, ' ', dtype), program, inputs, 0, targets));
}

std::string highest_order(const PrimitiveSamples& row) {
  if (!is_differentiable(row.op)) return "–";
  Draw draw(1);
  const Sample sample = row.draw(draw);
  return concat(check_grads(sample.record, sample.operands, 3, on_reference).back().order);
}

std::string table() {
  std::vector<Target> targets;
  targets.push_back({"cpu", make_cpu_device()});
  targets.push_back({"tpu", make_tpu_device(sim::load_chip("tpu-v3"))});
  std::ostringstream out;
  out << "# Primitives\n\n"
         "Every primitive in every dtype on the `cpu` and `tpu` devices, against `reference`: how far a result may lie from it, in units of\n"
         "the last place of its dtype (0: the same bits; –: refused while recording). The last column is the highest order of derivative\n"
         "that is checked against differences of the next lower one, in reverse, forward and mixed mode. Products are compared on numbers\n"
         "that bf16 holds, where one pass of the matrix unit is exact; the precisions are the subject of `tests/devices/tpu.cpp`.\n\n"
         "Made by `BACKBEAT_UPDATE=1 meson test -C build devices`; the same test fails when this page is not what it finds.\n\n"
         "| primitive |";
  for (DType dtype : dtypes) out << ' ' << dtype << " |";
  out << " order |\n|---|";
  for (size_t i = 0; i < std::size(dtypes); ++i) out << "---|";
  out << "---|\n";
  for (const Leaf& leaf : leaves) {
    out << "| " << leaf.name << " |";
    for (DType dtype : dtypes) out << ' ' << cell(leaf, dtype, targets) << " |";
    out << " – |\n";
  }
  for (const PrimitiveSamples& row : all_samples()) {
    out << "| " << row.label << " |";
    for (DType dtype : dtypes) out << ' ' << cell(row, dtype, targets) << " |";
    out << ' ' << highest_order(row) << " |\n";
  }
  return out.str();
}

}  // namespace

TEST_CASE("docs/primitives.md is what the devices do") {
  const char* data = std::getenv("BACKBEAT_TEST_DATA");
  REQUIRE(data);
  const std::string path = std::string(data) + "/../../docs/primitives.md", made = table();
  if (std::getenv("BACKBEAT_UPDATE")) {
    std::ofstream(path) << made;
    return;
  }
  std::ifstream in(path);
  std::ostringstream kept;
  kept << in.rdbuf();
  CHECK_MESSAGE(kept.str() == made, "docs/primitives.md is out of date: BACKBEAT_UPDATE=1 meson test -C build devices");
}
