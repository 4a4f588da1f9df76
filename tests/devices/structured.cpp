// Operations on whole arrays (slices at computed places, gather, scatter, sort, scans, windows) and between replicas: small
// examples worked out by hand on every device, and the cpu device against the reference to the last bit.
#include <doctest/doctest.h>

#include <cmath>
#include <omp.h>
#include <random>

#include "engine/ops.hpp"
#include "tests/devices.hpp"

using namespace backbeat;

namespace {

const DType numbers[] = {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64,
                         DType::i32, DType::i16, DType::i8,   DType::u32, DType::u8};
const DType index_types[] = {DType::i64, DType::i32, DType::i16, DType::i8, DType::u32, DType::u8};

using Tensors = std::vector<Tensor>;

// Few distinct numbers, so that there are ties; or many, large ones, which wrap. Among floats NaN, -0 and infinities.
Array values(DType dtype, const Shape& shape, std::mt19937& random, bool few) {
  Array a(dtype, shape);
  visit(dtype, [&]<class T>() {
    for (int64_t i = 0; i < a.size(); ++i) {
      const uint64_t word = static_cast<uint64_t>(random()) << 32 | random();
      if constexpr (std::is_integral_v<T>) {
        a.data<T>()[i] = static_cast<T>(few ? word % 5 : word);
      } else {
        const double special[] = {std::nan(""), -0.0, 0.0, INFINITY, -INFINITY};
        const double x = few ? static_cast<double>(word % 5) - 2 : static_cast<double>(word % 40001) / 7000 - 2.5;
        a.set(i, word % 23 == 0 ? special[word / 23 % 5] : x);
      }
    }
  });
  return a;
}

// Bits; any NaN is any other.
bool same(const Array& a, const Array& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  const int64_t width = size_of(a.dtype());
  const char *x = static_cast<const char*>(a.raw()), *y = static_cast<const char*>(b.raw());
  for (int64_t i = 0; i < a.size(); ++i, x += width, y += width) {
    if (is_float(a.dtype()) && std::isnan(a.at(i)) && std::isnan(b.at(i))) continue;
    if (std::memcmp(x, y, static_cast<size_t>(width)) != 0) return false;
  }
  return true;
}

std::vector<Array> inputs_of(const Program& program, unsigned seed, bool few) {
  std::mt19937 random(seed);
  std::vector<Array> inputs;
  for (const Program::Port& port : program.inputs)
    inputs.push_back(values(program.tape[port.node].dtype, program.tape[port.node].shape, random, few));
  return inputs;
}

// The cpu computes what the reference computes.
void agree(const std::function<void(Recorder&)>& write) {
  const Program program = record("structured", write);
  for (bool few : {true, false}) {
    const auto inputs = inputs_of(program, 3, few);
    const auto expected = test::run(program, inputs);
    const auto got = test::run(program, inputs, {"cpu", make_cpu_device});
    for (size_t i = 0; i < got.size(); ++i) {
      INFO(program.outputs[i].name, few ? ", few numbers" : ", many numbers");
      INFO("got ", concat(got[i]), ", expected ", concat(expected[i]));
      CHECK(same(got[i], expected[i]));
    }
  }
}

// f of some inputs on every device.
void computes(const std::vector<Array>& inputs, const std::function<Tensor(const Tensors&)>& f, const Array& expected) {
  const Program program = record("values", [&](Recorder& r) {
    Tensors x;
    for (size_t i = 0; i < inputs.size(); ++i) x.push_back(r.input(concat('x', i), inputs[i].dtype(), inputs[i].shape()));
    r.output("y", f(x));
  });
  for (const test::NamedDevice& device : test::all_devices()) {
    const Array got = test::run(program, inputs, device)[0];
    INFO(device.name, ": got ", concat(got), ", expected ", concat(expected));
    CHECK(same(got, expected));
  }
}

Array f32(const Shape& shape, const std::vector<float>& v) { return Array::from<float>(shape, v); }
Array i32(const Shape& shape, const std::vector<int32_t>& v) { return Array::from<int32_t>(shape, v); }

WindowDims window(Reduction kind, Dims size, Dims strides = {}, Dims low = {}, Dims high = {}, Dims base = {},
                  Dims dilation = {}) {
  const auto or_all = [&](const Dims& d, int64_t value) { return d.empty() ? Dims::filled(size.size(), value) : d; };
  return {kind, size, or_all(strides, 1), or_all(low, 0), or_all(high, 0), or_all(base, 1), or_all(dilation, 1)};
}

}  // namespace

// --- by hand, for every dtype

TEST_CASE("structured: small examples of every dtype") {
  const auto in = [](DType to, const Shape& shape, const std::vector<float>& v) { return f32(shape, v).converted(to); };
  for (DType dtype : numbers) {
    CAPTURE(name_of(dtype));
    const Array x = in(dtype, {2, 3}, {3, 1, 2, 5, 4, 5});
    for (DType index : index_types) {
      const Array start = i32({2}, {1, 2}).converted(index);  // moved to 1, 1
      computes({x, start}, [](const Tensors& t) { return dynamic_slice(t[0], t[1], {1, 2}); }, in(dtype, {1, 2}, {4, 5}));
      computes({x, in(dtype, {1, 2}, {8, 9}), start}, [](const Tensors& t) { return dynamic_update_slice(t[0], t[1], t[2]); },
               in(dtype, {2, 3}, {3, 1, 2, 5, 8, 9}));
      computes({x, i32({2}, {2, 0}).converted(index)}, [](const Tensors& t) { return take(t[0], t[1], 1); },
               in(dtype, {2, 2}, {2, 3, 5, 5}));
      const Array twice = i32({3, 1}, {1, 3, 1}).converted(index);  // one outside
      const GatherDims places{{}, {0}, {0}, {1}, Bounds::fill_or_drop};
      const Array y = in(dtype, {2}, {1, 2}), u = in(dtype, {3}, {10, 20, 30});
      computes({y, twice, u}, [&](const Tensors& t) { return scatter(t[0], t[1], t[2], {places, true}); },
               in(dtype, {2}, {1, 42}));
      computes({y, twice, u}, [&](const Tensors& t) { return scatter(t[0], t[1], t[2], {places, false}); },
               in(dtype, {2}, {1, 30}));
    }
    computes({x}, [](const Tensors& t) { return sort(t[0], 1); }, in(dtype, {2, 3}, {1, 2, 3, 4, 5, 5}));
    computes({x}, [](const Tensors& t) { return argsort(t[0], 1); }, i32({2, 3}, {1, 2, 0, 1, 0, 2}));
    computes({x}, [](const Tensors& t) { return argmax(t[0], 1); }, i32({2}, {0, 0}));
    computes({x}, [](const Tensors& t) { return argmin(t[0], 0); }, i32({3}, {0, 0, 0}));
    computes({x}, [](const Tensors& t) { return cumsum(t[0], 1); }, in(dtype, {2, 3}, {3, 4, 6, 5, 9, 14}));
    computes({x}, [](const Tensors& t) { return cumsum(t[0], 0, true); }, in(dtype, {2, 3}, {8, 5, 7, 5, 4, 5}));
    const WindowDims two = window(Reduction::sum, {1, 2});
    computes({x}, [&](const Tensors& t) { return reduce_window(t[0], two); }, in(dtype, {2, 2}, {4, 3, 9, 9}));
    WindowDims most = two;
    most.kind = Reduction::max;
    computes({x}, [&](const Tensors& t) { return reduce_window(t[0], most); }, in(dtype, {2, 2}, {3, 2, 5, 5}));
    const Array source = in(dtype, {2, 2}, {10, 20, 30, 40});
    computes({x, source}, [&](const Tensors& t) { return select_and_scatter(t[0], t[1], most); },
             in(dtype, {2, 3}, {10, 0, 20, 30, 0, 40}));
    computes({x, in(dtype, {2, 3}, {1, 2, 3, 4, 5, 6})}, [&](const Tensors& t) { return select_and_gather(t[0], t[1], most); },
             in(dtype, {2, 2}, {1, 3, 4, 6}));
  }
}

TEST_CASE("structured: NaN, ties and zeros") {
  const float nan = std::nanf("");
  const Array x = f32({6}, {1, nan, -0.0f, 0, nan, -1});
  computes({x}, [](const Tensors& t) { return sort(t[0], 0); }, f32({6}, {-1, -0.0f, 0, 1, nan, nan}));
  computes({x}, [](const Tensors& t) { return argsort(t[0], 0); }, i32({6}, {5, 2, 3, 0, 1, 4}));
  computes({x}, [](const Tensors& t) { return argmax(t[0], 0); }, i32({}, {1}));
  computes({x}, [](const Tensors& t) { return argmin(t[0], 0); }, i32({}, {1}));
  computes({f32({3}, {2, 7, 7})}, [](const Tensors& t) { return argmax(t[0], 0); }, i32({}, {1}));
  computes({x}, [](const Tensors& t) { return reduce_window(t[0], window(Reduction::max, {2}, {2})); },
           f32({3}, {nan, 0, nan}));
  // A window of padding alone holds the identity and has no extreme.
  const WindowDims beyond = window(Reduction::max, {2}, {2}, {2}, {2});
  const Array y = f32({2}, {4, 4}), s = f32({3}, {10, 20, 30});
  computes({y}, [&](const Tensors& t) { return reduce_window(t[0], beyond); }, f32({3}, {-INFINITY, 4, -INFINITY}));
  computes({y, s}, [&](const Tensors& t) { return select_and_scatter(t[0], t[1], beyond); }, f32({2}, {20, 0}));
  computes({y, f32({2}, {8, 9})}, [&](const Tensors& t) { return select_and_gather(t[0], t[1], beyond); },
           f32({3}, {0, 8, 0}));
  computes({i32({1}, {4})}, [](const Tensors& t) { return reduce_window(t[0], window(Reduction::min, {1}, {1}, {1}, {0})); },
           i32({2}, {INT32_MAX, 4}));
}

TEST_CASE("structured: integers wrap, halves carry f32 and round once") {
  computes({Array::from<int8_t>({3}, {100, 100, 100})}, [](const Tensors& t) { return cumsum(t[0], 0); },
           Array::from<int8_t>({3}, {100, -56, 44}));
  const WindowDims two = window(Reduction::sum, {2});
  computes({Array::from<uint8_t>({2}, {200, 100})}, [&](const Tensors& t) { return reduce_window(t[0], two); },
           Array::from<uint8_t>({1}, {44}));
  computes({Array::from<int64_t>({2}, {INT64_MAX, 1})}, [](const Tensors& t) { return cumsum(t[0], 0); },
           Array::from<int64_t>({2}, {INT64_MAX, INT64_MIN}));
  for (DType dtype : {DType::bf16, DType::f16}) {  // 1 + tiny + tiny: each sum alone would round back to 1
    const double tiny = dtype == DType::bf16 ? 0x1p-8 : 0x1p-11;
    const auto in = [&](const Shape& shape, const std::vector<double>& v) {
      return Array::from<double>(shape, v).converted(dtype);
    };
    const Array terms = in({3}, {1, tiny, tiny});
    computes({terms}, [](const Tensors& t) { return cumsum(t[0], 0); }, in({3}, {1, 1, 1 + 2 * tiny}));
    computes({terms}, [](const Tensors& t) { return reduce_window(t[0], window(Reduction::sum, {3})); },
             in({1}, {1 + 2 * tiny}));
    const GatherDims all{{}, {0}, {0}, {1}, Bounds::clip};
    computes({in({1}, {1}), i32({2, 1}, {0, 0}), in({2}, {tiny, tiny})},
             [&](const Tensors& t) { return scatter(t[0], t[1], t[2], {all, true}); }, in({1}, {1 + 2 * tiny}));
    const WindowDims around = window(Reduction::max, {3}, {1}, {1}, {1});
    computes({in({3}, {0, 9, 0}), terms}, [&](const Tensors& t) { return select_and_scatter(t[0], t[1], around); },
             in({3}, {0, 1 + 2 * tiny, 0}));
  }
}

TEST_CASE("structured: moves of bool") {
  const auto in = [](const Shape& shape, const std::vector<bool>& v) { return Array::from<bool>(shape, v); };
  const Array x = in({3}, {true, false, true}), at = i32({1}, {1});
  computes({x, at}, [](const Tensors& t) { return dynamic_slice(t[0], t[1], {2}); }, in({2}, {false, true}));
  computes({x, in({1}, {true}), at}, [](const Tensors& t) { return dynamic_update_slice(t[0], t[1], t[2]); },
           in({3}, {true, true, true}));
  computes({x, at}, [](const Tensors& t) { return take(t[0], t[1], 0); }, in({1}, {false}));
  const ScatterDims set{{{}, {0}, {0}, {1}, Bounds::clip}, false};
  computes({x, i32({1, 1}, {2}), in({1}, {false})}, [&](const Tensors& t) { return scatter(t[0], t[1], t[2], set); },
           in({3}, {true, false, false}));
  computes({f32({3}, {3, 1, 2}), x}, [](const Tensors& t) { return sort_by(t[0], t[1], 0); }, in({3}, {false, true, true}));
}

// --- the cpu against the reference

TEST_CASE("structured: windows of every dtype, cpu against reference") {
  struct Case {
    Shape x;
    WindowDims dims;
  };
  const Case cases[] = {
      {{2, 3, 8, 10}, window({}, {1, 1, 2, 2}, {1, 1, 2, 2})},
      {{2, 2, 9, 9}, window({}, {1, 1, 3, 3}, {1, 1, 2, 2}, {0, 0, 1, 1}, {0, 0, 0, 2})},
      {{2, 6, 7, 3}, window({}, {1, 3, 2, 1}, {1, 2, 1, 1}, {0, 1, 0, 0}, {0, 1, 0, 0})},
      {{40}, window({}, {7}, {1}, {6}, {0})},
      {{600}, window({}, {3}, {1}, {1}, {1})},  // several strips
      {{300}, window({}, {4}, {3}, {-5}, {-7}, {1}, {5})},
      {{7, 9}, window({}, {2, 3}, {3, 1}, {4, -1}, {-2, 5}, {2, 3}, {1, 2})},
      {{5, 8}, window({}, {3, 4}, {2, 3}, {0, 2}, {1, 0}, {3, 2}, {2, 3})},
      {{2, 3, 4, 3, 5},
       window({}, {2, 1, 3, 2, 2}, {1, 2, 1, 1, 2}, {1, 0, -1, 0, 1}, {0, 1, 1, 1, 0}, {1, 1, 1, 2, 1}, {1, 1, 1, 1, 2})},
      {{2, 3}, window({}, {3, 1})},           // no window fits
      {{0, 3}, window({}, {1, 2}, {1, 1}, {1, 0}, {2, 0})},
      {{3}, window({}, {2}, {1}, {9}, {9})},  // many hold nothing
      {{}, window({}, {})},
      {{1, 1, 1}, window({}, {1, 1, 1})},
  };
  for (DType dtype : numbers)
    agree([&](Recorder& r) {
      int number = 0;
      for (Case c : cases) {
        const Tensor x = r.input(concat("x", number), dtype, c.x);
        for (Reduction kind : {Reduction::sum, Reduction::max, Reduction::min}) {
          c.dims.kind = kind;
          const auto what = [&](const char* name) {
            return concat(name, ' ', name_of(kind), ' ', name_of(dtype), " case ", number);
          };
          r.output(what("reduce_window"), reduce_window(x, c.dims));
          if (kind == Reduction::sum) continue;
          // The source may be of another dtype.
          const DType half = dtype == DType::bf16 ? DType::f64 : DType::bf16, byte = dtype == DType::u8 ? DType::i16 : DType::u8;
          for (DType other : {dtype, half, byte}) {
            const Tensor s = r.input(concat(what("s"), name_of(other)), other, window_shape(c.x, c.dims));
            const Tensor t = r.input(concat(what("t"), name_of(other)), other, c.x);
            r.output(concat(what("select_and_scatter"), name_of(other)), select_and_scatter(x, s, c.dims));
            r.output(concat(what("select_and_gather"), name_of(other)), select_and_gather(x, t, c.dims));
          }
        }
        ++number;
      }
    });
}

TEST_CASE("structured: scans and sorts over every axis, cpu against reference") {
  for (DType dtype : numbers)
    agree([&](Recorder& r) {
      const Shape shapes[] = {{37}, {3, 300}, {300, 3}, {2, 1100}, {2, 3, 4, 5, 3}, {1, 7, 1}, {0, 3}, {2, 1, 0}};
      for (const Shape& shape : shapes) {
        const Tensor x = r.input(concat("x", shape), dtype, shape);
        for (int64_t axis = 0; axis < shape.size(); ++axis) {
          const auto what = [&](const char* name) { return concat(name, ' ', name_of(dtype), shape, " axis ", axis); };
          r.output(what("cumsum"), cumsum(x, axis));
          r.output(what("cumsum from the end"), cumsum(x, axis, true));
          r.output(what("sort"), sort(x, axis));
          r.output(what("argsort"), argsort(x, axis));
          r.output(what("sort_by"), sort_by(x, r.input(what("values"), DType::f64, shape), axis));
          if (shape[axis] == 0) continue;
          r.output(what("argmax"), argmax(x, axis));
          r.output(what("argmin"), argmin(x, axis));
        }
      }
    });
}

namespace {
struct Places {
  Shape x, leading;  // of the indices, without the last
  GatherDims dims;
};
const Places places[] = {
    {{9}, {5}, {{}, {0}, {0}, {1}, {}}},
    {{9, 17}, {5}, {{1}, {0}, {0}, {1, 17}, {}}},
    {{17, 9}, {5}, {{0}, {1}, {1}, {17, 1}, {}}},
    {{9, 8}, {2, 3}, {{2}, {0}, {0}, {1, 5}, {}}},
    {{5, 4}, {3}, {{0, 2}, {}, {1, 0}, {2, 3}, {}}},
    {{4, 3, 5}, {2, 2}, {{0, 3}, {1}, {2, 1}, {2, 1, 3}, {}}},
    {{4, 3, 5}, {6}, {{}, {0, 1, 2}, {2, 0, 1}, {1, 1, 1}, {}}},
    {{4, 3, 5}, {}, {{0, 1, 2}, {}, {1}, {4, 2, 5}, {}}},
    {{4, 3, 5}, {2}, {{0, 1, 3}, {}, {}, {4, 2, 5}, {}}},  // starts of no numbers
    {{2, 3, 2, 4, 3}, {3, 2}, {{0, 2, 3, 5}, {2}, {3, 1}, {2, 2, 1, 2, 3}, {}}},
    {{4, 3}, {0}, {{1}, {0}, {0}, {1, 3}, {}}},
    {{4, 0}, {2}, {{1}, {0}, {0}, {1, 0}, {}}},
    {{1, 1}, {2}, {{1}, {0}, {0}, {1, 1}, {}}},
    {{}, {3}, {{}, {}, {}, {}, {}}},
};
}  // namespace

TEST_CASE("structured: computed places of every dtype, cpu against reference") {
  std::vector<DType> dtypes(std::begin(numbers), std::end(numbers));
  dtypes.push_back(DType::boolean);
  for (DType dtype : dtypes)
    agree([&](Recorder& r) {
      int number = 0;
      for (Places p : places) {
        Shape starts = p.leading;
        starts.push_back(p.dims.index_map.size());
        const DType index = index_types[static_cast<size_t>(number) % std::size(index_types)];
        const Tensor x = r.input(concat("x", number), dtype, p.x), indices = r.input(concat("i", number), index, starts);
        for (Bounds bounds : {Bounds::clip, Bounds::fill_or_drop}) {
          p.dims.bounds = bounds;
          const auto what = [&](const char* name) {
            return concat(name, ' ', name_of(dtype), " case ", number, bounds == Bounds::clip ? " clip" : " drop");
          };
          const Tensor y = gather(x, indices, p.dims);
          r.output(what("gather"), y);
          const Tensor u = r.input(what("u"), dtype, y.shape());
          r.output(what("set"), scatter(x, indices, u, {p.dims, false}));
          if (dtype != DType::boolean) r.output(what("add"), scatter(x, indices, u, {p.dims, true}));
        }
        ++number;
      }
      const std::pair<Shape, Shape> slices[] = {{{30}, {7}}, {{6, 7}, {6, 3}}, {{6, 7}, {2, 7}}, {{3, 4, 2, 5, 3}, {2, 3, 2, 4, 1}},
                                                {{4, 3}, {0, 2}}, {{0, 3}, {0, 1}}, {{1, 1}, {1, 1}}, {{}, {}}};
      for (const auto& [shape, sizes] : slices) {
        const DType index = index_types[static_cast<size_t>(number++) % std::size(index_types)];
        const Tensor x = r.input(concat("x", number), dtype, shape);
        const Tensor start = r.input(concat("at", number), index, {shape.size()});
        r.output(concat("dynamic_slice ", name_of(dtype), shape, sizes), dynamic_slice(x, start, sizes));
        const Tensor u = r.input(concat("u", number), dtype, sizes);
        r.output(concat("dynamic_update_slice ", name_of(dtype), shape, sizes), dynamic_update_slice(x, u, start));
        r.output(concat("itself ", name_of(dtype), shape), dynamic_update_slice(x, x, start));
      }
    });
}

TEST_CASE("structured: state is updated in place where nobody reads the old one") {
  const Program p = record("cache", [](Recorder& r) {
    const Tensor cache = r.state("cache", DType::f32, {4, 2}), other = r.state("other", DType::f32, {4, 2});
    const Tensor row = r.input("row", DType::f32, {1, 2});
    const Tensor at = r.input("at", DType::i32, {2}), rows = r.input("rows", DType::i32, {2, 1});
    r.update("cache", dynamic_update_slice(cache, row, at));
    const GatherDims dims{{1}, {0}, {0}, {1, 2}, Bounds::clip};
    r.update("other", scatter(other, rows, broadcast_to(row, {2, 2}), {dims, true}));
    r.output("before", reduce_sum(other, {0}));
    // What is read as the updates too must not change on the way.
    const Tensor ring = r.state("ring", DType::f32, {4}), next = r.input("next", DType::i32, {4, 1});
    r.update("ring", scatter(ring, next, ring, {{{}, {0}, {0}, {1}, Bounds::clip}, false}));
  });
  for (const test::NamedDevice& device : test::all_devices()) {
    INFO(device.name);
    StateStore store;
    store.set("cache", Array::zeros(DType::f32, {4, 2})), store.set("other", Array::full(DType::f32, {4, 2}, 1));
    store.set("ring", f32({4}, {1, 2, 3, 4}));
    const auto executable = device.make()->compile(p);
    Array before;
    for (int32_t step = 0; step < 2; ++step)
      before = executable->run(std::vector{f32({1, 2}, {5, 6}), i32({2}, {step + 1, 0}), i32({2, 1}, {3, 3}),
                                           i32({4, 1}, {1, 2, 3, 0})}, store)[0];
    CHECK(same(store.at("ring"), f32({4}, {3, 4, 1, 2})));
    CHECK(same(store.at("cache"), f32({4, 2}, {0, 0, 5, 6, 5, 6, 0, 0})));
    CHECK(same(store.at("other"), f32({4, 2}, {1, 1, 1, 1, 1, 1, 21, 25})));
    CHECK(same(before, f32({2}, {14, 16})));
  }
}

TEST_CASE("structured: products") {
  for (DType dtype : numbers) {
    const auto in = [&](const Shape& shape, const std::vector<float>& v) { return f32(shape, v).converted(dtype); };
    const Array x = in({2, 3}, {1, 2, 3, 2, 1, 5});
    computes({x}, [](const Tensors& t) { return reduce(t[0], Reduction::product, {1}); }, in({2}, {6, 10}));
    computes({x}, [](const Tensors& t) { return reduce(t[0], Reduction::product, {0}); }, in({3}, {2, 2, 15}));
    computes({x}, [](const Tensors& t) { return reduce(t[0], Reduction::product, {0, 1}); }, in({}, {60}));
    computes({in({2, 0}, {})}, [](const Tensors& t) { return reduce(t[0], Reduction::product, {1}); }, in({2}, {1, 1}));
  }
  Array powers = Array::full(DType::f32, {5000}, 1);  // several blocks of lanes
  for (int64_t i = 0; i < 5000; i += 100) powers.set(i, i % 200 ? 0.5 : -2);
  computes({powers}, [](const Tensors& t) { return reduce(t[0], Reduction::product, {0}); }, f32({}, {-1}));
  computes({powers.reshaped({1000, 5})}, [](const Tensors& t) { return reduce(t[0], Reduction::product, {0}); },
           f32({5}, {-1, 1, 1, 1, 1}));
  computes({i32({2}, {INT32_MAX, 3})}, [](const Tensors& t) { return reduce(t[0], Reduction::product, {0}); },
           i32({}, {INT32_MAX - 2}));
  const Array halves = Array::full(DType::bf16, {20}, 1 + 0x1p-7);  // each product alone would round to 1 + k / 2^7
  computes({halves}, [](const Tensors& t) { return reduce(t[0], Reduction::product, {0}); },
           Array::full(DType::bf16, {}, std::pow(1 + 0x1p-7, 20)));
}

TEST_CASE("structured: one replica is alone, barriers are what they hold") {
  const Array x = f32({2, 2}, {1, 2, 3, 4});
  computes({x}, [](const Tensors& t) { return all_reduce(t[0], Reduction::max, 1); }, x);
  computes({x}, [](const Tensors& t) { return all_gather(t[0], 1, 1); }, x);
  computes({x}, [](const Tensors& t) { return reduce_scatter(t[0], 0, 1); }, x);
  computes({x}, [](const Tensors& t) { return all_to_all(t[0], 0, 1, 1); }, x);
  computes({x}, [](const Tensors& t) { return collective_permute(t[0], {{0, 0}}, 1); }, x);
  computes({x}, [](const Tensors& t) { return collective_permute(t[0], {}, 1); }, f32({2, 2}, {0, 0, 0, 0}));
  computes({x}, [](const Tensors& t) { return replica_id(t[0].tape()); }, Array::from<uint32_t>({}, {0}));
  computes({x}, [](const Tensors& t) { return optimization_barrier(t[0] + 1.0, {t[0] * 2.0}) * 2.0; },
           f32({2, 2}, {4, 6, 8, 10}));
  for (const test::NamedDevice& device : test::all_devices()) {
    const Program p = record("four", [](Recorder& r) {
      r.output("y", all_reduce(r.input("x", DType::f32, {2}), Reduction::sum, 4));
    });
    const std::string message = concat("[all_reduce] ", device.name, " runs with 1 replica, four expects 4");
    CHECK_THROWS_WITH_AS(device.make()->compile(p), message.c_str(), Error);
  }
}

TEST_SUITE_BEGIN("threads");

TEST_CASE("structured: the same bits on one thread and on two") {
  for (DType dtype : {DType::f32, DType::bf16, DType::i16}) {
    const Program p = record("threads", [&](Recorder& r) {
      const Tensor x = r.input("x", dtype, {8, 16, 70, 70}), table = r.input("table", dtype, {3000, 300});
      const Tensor rows = r.input("rows", DType::u8, {4000, 1}), at = r.input("at", DType::u8, {2});
      for (Reduction kind : {Reduction::sum, Reduction::max}) {
        const WindowDims dims = window(kind, {1, 1, 3, 3}, {1, 1, 2, 2}, {0, 0, 1, 1}, {0, 0, 1, 1});
        r.output(concat("reduce_window ", name_of(kind)), reduce_window(x, dims));
        if (kind == Reduction::sum) continue;
        r.output("select_and_scatter", select_and_scatter(x, r.input("s", dtype, window_shape(x.shape(), dims)), dims));
        r.output("select_and_gather", select_and_gather(x, x, dims));
      }
      const GatherDims dims{{1}, {0}, {0}, {1, 300}, Bounds::clip};
      const Tensor g = gather(table, rows, dims);
      r.output("gather", g);
      r.output("scatter", scatter(table, rows, g, {dims, true}));
      r.output("columns", take(table, reshape(rows, {4000}), 1));
      r.output("slice", dynamic_slice(table, at, {2500, 290}));
      r.output("update", dynamic_update_slice(table, r.input("u", dtype, {2900, 300}), at));
      for (int64_t axis : {0, 1}) {
        r.output(concat("cumsum ", axis), cumsum(table, axis));
        r.output(concat("sort ", axis), sort(table, axis));
        r.output(concat("argmax ", axis), argmax(table, axis));
        const Tensor factors = r.input(concat("p", axis), DType::f32, {3000, 300});
        r.output(concat("product ", axis), reduce(factors, Reduction::product, {axis}));
      }
    });
    const auto inputs = inputs_of(p, 9, false);
    const int threads = omp_get_max_threads();
    std::vector<std::vector<Array>> results;
    for (int n : {1, 2}) {
      omp_set_num_threads(n);
      results.push_back(test::run(p, inputs, {"cpu", make_cpu_device}));
    }
    omp_set_num_threads(threads);
    for (size_t i = 0; i < p.outputs.size(); ++i) {
      INFO(p.outputs[i].name, ' ', name_of(dtype));
      CHECK(bitwise_equal(results[0][i], results[1][i]));
    }
  }
}

TEST_SUITE_END();
