// Kernels through the public API: their values, and times that can be worked out by hand.
#include "sim/kernel.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "sim/evaluation.hpp"
#include "sim/recording.hpp"

using namespace backbeat;
using namespace backbeat::sim;

namespace {

Kernel tiled_matmul(DType dtype, int64_t m, int64_t n, int64_t k, int64_t bm, int64_t bn, int64_t bk) {
  const auto up = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  Kernel kernel("matmul", {up(m, bm), up(n, bn), up(k, bk)});
  const Ref a = kernel.in("a", {dtype, {m, k}}, {bm, bk}, at(0, 2));
  const Ref b = kernel.in("b", {dtype, {k, n}}, {bk, bn}, at(2, 1));
  const Ref c = kernel.out("c", {DType::f32, {m, n}}, {bm, bn}, at(0, 1));
  kernel.body([=](Step& s) { s.matmul(c, a, b, {.accumulate = !s.first(2)}); });
  return kernel;
}

std::vector<float> gaussian(int64_t count, uint32_t seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> v(static_cast<size_t>(count));
  for (float& x : v) x = normal(engine);
  return v;
}

Times time_of(const Kernel& kernel, const Chip& chip, Stream* keep = nullptr) {
  Recording recording(chip);
  std::vector<sim::Operand> operands;
  for (size_t i = 0; i < kernel.refs().size(); ++i) operands.push_back({recording.new_tensor()});
  const Label label = recording.new_label({{0, 1.0}});
  const Launch launch{&kernel, operands, label, label, label, chip.vmem.bytes};
  recording.run(launch, nullptr);
  const Stream& stream = recording.finish();
  if (keep) *keep = stream;
  return simulate(stream, chip);
}

}  // namespace

TEST_CASE("kernel: the bits of a product do not depend on how it is cut") {
  const Chip chip = load_chip("edu-8x8");
  const int64_t m = 37, n = 29, k = 83;
  std::vector<float> a = gaussian(m * k, 1), b = gaussian(k * n, 2);
  std::vector<std::vector<float>> results;
  for (Dims block : {Dims{m, n, k}, Dims{8, 8, 8}, Dims{16, 29, 40}, Dims{5, 7, 16}, Dims{37, 3, 80}}) {
    const Kernel kernel = tiled_matmul(DType::f32, m, n, k, block[0], block[1], block[2]);
    std::vector<float> c(static_cast<size_t>(m * n), -1);
    void* const arrays[] = {a.data(), b.data(), c.data()};
    Evaluation().run(kernel, arrays, chip);
    results.push_back(c);
  }
  for (const auto& c : results) CHECK(c == results[0]);
}

TEST_CASE("kernel: a product of f16 blocks is that of f32 at full precision") {
  const Chip chip = load_chip("edu-8x8");
  const int64_t m = 12, n = 9, k = 20;
  const std::vector<float> a = gaussian(m * k, 3), b = gaussian(k * n, 4);
  std::vector<f16> ah, bh;
  for (float x : a) ah.push_back(f16(x));
  for (float x : b) bh.push_back(f16(x));
  std::vector<float> c(static_cast<size_t>(m * n), -1);
  void* const arrays[] = {ah.data(), bh.data(), c.data()};
  Evaluation().run(tiled_matmul(DType::f16, m, n, k, 8, 8, 8), arrays, chip);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0, size = 0;
      for (int64_t l = 0; l < k; ++l) {
        const double term = static_cast<double>(ah[static_cast<size_t>(i * k + l)]) * static_cast<double>(bh[static_cast<size_t>(l * n + j)]);
        sum += term, size += std::fabs(term);
      }
      CHECK(std::fabs(c[static_cast<size_t>(i * n + j)] - sum) <= size * 0x1p-20);
    }
  const auto total = [&](DType dtype) { return time_of(tiled_matmul(dtype, 256, 8, 8, 256, 8, 8), chip).total; };
  CHECK(total(DType::f16) == total(DType::bf16) + 5 * 256);  // five passes more, of 256 rows each
}

TEST_CASE("kernel: slots of a register, by operation and dtype") {
  const Chip chip = load_chip("tpu-v3");
  struct Row {
    Op op;
    DType dtype, operand;
    double slots, pushes;
  };
  const double medium = chip.vpu.medium_slots, dear = chip.vpu.dear_slots;
  for (const Row& row : {Row{Op::add, DType::f32, DType::f32, 1, 0}, Row{Op::add, DType::f16, DType::f16, 2, 0},
                         Row{Op::add, DType::bf16, DType::bf16, 2, 0}, Row{Op::add, DType::i8, DType::i8, 1, 0},
                         Row{Op::shift_left, DType::i16, DType::i16, 1, 0}, Row{Op::clamp, DType::u8, DType::u8, 2, 0},
                         Row{Op::is_finite, DType::boolean, DType::f32, 2, 0}, Row{Op::reduce_precision, DType::f32, DType::f32, 9, 0},
                         Row{Op::remainder, DType::f32, DType::f32, medium + 4, 1}, Row{Op::expm1, DType::f32, DType::f32, 2 * medium, 2},
                         Row{Op::erf, DType::f16, DType::f16, dear + 1, 0},
                         Row{Op::is_finite, DType::boolean, DType::f64, 2 * chip.emulation.f64_slots, 0}}) {
    CAPTURE(name_of(row.op));
    CAPTURE(name_of(row.dtype));
    host::VectorProgram program;
    program.ops = {{.op = row.op, .dtype = row.dtype, .operand_dtype = row.operand}};
    const VectorWork work = work_of(program, chip);
    CHECK(work.alu_slots == row.slots);
    CHECK(work.eup_pushes == row.pushes);
  }
}

TEST_CASE("kernel: softmax in one block, written by hand") {
  const Chip chip = load_chip("edu-8x8");
  const int64_t rows = 12, columns = 20;
  Kernel kernel("softmax", {3});
  const ArraySpec array{DType::f32, {rows, columns}};
  const Ref x = kernel.in("x", array, {4, columns}, at(0, -1));
  const Ref y = kernel.out("y", array, {4, columns}, at(0, -1));
  const Ref top = kernel.scratch("top", {DType::f32, {4, 1}}), total = kernel.scratch("total", {DType::f32, {4, 1}});
  using host::VectorOp;
  host::VectorProgram shifted{2, {DType::f32, DType::f32}, {}, {2}, {DType::f32}, 3};
  shifted.ops = {{.op = Op::subtract, .destination = 2, .a = 0, .b = 1}, {.op = Op::exp, .destination = 2, .a = 2}};
  host::VectorProgram divided{
      2, {DType::f32, DType::f32}, {{.op = Op::divide, .destination = 2, .a = 0, .b = 1}}, {2}, {DType::f32}, 3};
  kernel.body([=](Step& s) {
    s.reduce(top, x, Reduction::max, 1);
    s.vector(shifted, {x, top}, {y});
    s.reduce(total, y, Reduction::sum, 1);
    s.vector(divided, {y, total}, {y});
  });
  std::vector<float> in = gaussian(rows * columns, 5), out(in.size());
  void* const arrays[] = {in.data(), out.data(), nullptr, nullptr};
  Evaluation().run(kernel, arrays, chip);
  for (int64_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (int64_t c = 0; c < columns; ++c)
      sum += std::exp(static_cast<double>(in[static_cast<size_t>(r * columns + c)]));
    for (int64_t c = 0; c < columns; ++c)
      CHECK(out[static_cast<size_t>(r * columns + c)] ==
            doctest::Approx(std::exp(in[static_cast<size_t>(r * columns + c)]) / sum).epsilon(1e-5));
  }
  CHECK(time_of(kernel, chip).total > 0);
}

TEST_CASE("kernel: one array tile takes the time that can be counted by hand") {
  const Chip chip = load_chip("edu-8x8");
  Stream stream;
  const Times t = time_of(tiled_matmul(DType::f32, 16, 8, 8, 16, 8, 8), chip, &stream);
  // A step is opened in 10 cycles; the operands, 512 and 256 bytes at 32 a cycle, take 20 cycles to arrive.
  const Cycles arrived = 10 + 16 + 8 + 20;
  // 8 rows of weights at one a cycle, 16 rows stream, the wave leaves the 8x8 array 14 cycles after the last one
  // entered.
  const Cycles product = arrived + 8 + 16 + 14;
  CHECK(t.total == product + 512 / 32 + 20);
}

TEST_CASE("kernel: traffic is what the grid fetches, and unchanged blocks are not fetched again") {
  const Chip chip = load_chip("edu-8x8");
  Stream stream;
  time_of(tiled_matmul(DType::f32, 64, 32, 16, 16, 8, 16), chip, &stream);
  int64_t in = 0, out = 0;
  for (const Instruction& i : stream.instructions) {
    if (i.kind == Kind::fetch) in += i.bytes;
    if (i.kind == Kind::write_back) out += i.bytes;
  }
  CHECK(in == 4 * (64 * 16 + 4 * 16 * 32));  // a once, b for each of four row blocks
  CHECK(out == 4 * 64 * 32);
}

TEST_CASE("kernel: the published cost of a grid step and of large blocks on a v5e") {
  Chip chip = load_chip("tpu-v3");
  set(chip, {"clock=1503 MHz", "mxu.count=4", "hbm.bandwidth=819 GB/s", "vmem.bytes=128 MiB", "vmem.loads_per_cycle=2",
             "vpu.alus=4", "overhead.step=360"});
  // 128x128x128 blocks took 350 to 359 ns a step (Pallas documentation); here 16^3 steps of them.
  const double small =
      static_cast<double>(time_of(tiled_matmul(DType::bf16, 2048, 2048, 2048, 128, 128, 128), chip).total);
  CHECK(small / 4096 / chip.clock_hz * 1e9 == doctest::Approx(355).epsilon(0.05));
  const double large =
      static_cast<double>(time_of(tiled_matmul(DType::bf16, 4096, 4096, 4096, 512, 1024, 1024), chip).total);
  const double ideal = 2.0 * 4096 * 4096 * 4096 / chip.peak_flops() * chip.clock_hz;
  CHECK(ideal / large > 0.88);
  CHECK(ideal / large < 0.96);
}

TEST_CASE("kernel: rows of an operand that stays in main memory") {
  const Chip chip = load_chip("edu-8x8");
  const auto kernel = [&](bool out_stays) {
    Kernel k("lookup", {2});
    const ArraySpec rows{DType::f32, {16, 8}};
    const Ref table = k.staying("table", RefSpec::input, {DType::f32, {1000, 8}});
    const Ref y = out_stays ? k.staying("y", RefSpec::output, rows) : k.out("y", rows, {8, 8}, at(0, -1));
    k.body([=](Step& s) { s.rows(y, table, {.rows = 8, .addresses = 8, .vregs = 1, .piece_bytes = 32}); });
    return k;
  };
  Stream stream;
  const Times t = time_of(kernel(false), chip, &stream);
  // A step is opened in 10 cycles; 8 rows take 4 + 1 scalar cycles each, the last one 20 to arrive. Main memory serves in
  // order: the first block leaves in 8 before the rows of the second come; that one takes 20 more to be there.
  CHECK(t.total == 10 + 40 + 20 + 8 + 40 + 20 + 8 + 20);
  int64_t in = 0;
  for (const Instruction& i : stream.instructions)
    if (i.kind == Kind::fetch) in += i.bytes;
  CHECK(in == 16 * 32);
  CHECK_THROWS_WITH(time_of(kernel(true), chip), "[rows] lookup: one end has to lie in VMEM");
}
