// What the recording functions of computed places, scans, windows, collectives, barriers and calls refuse, in which words.
#include "engine/composite.hpp"
#include "tests/engine/refusals.hpp"

using namespace backbeat;
using namespace backbeat::test;

namespace {
Tensor i32(Inputs& in, const Shape& shape) { return in.of(DType::i32, shape); }
Tensor boolean(Inputs& in, const Shape& shape) { return in.of(DType::boolean, shape); }

// Rows of f32[5,4], with one thing changed.
std::function<void(Inputs&)> rows(void (*change)(GatherDims&)) {
  return [change](Inputs& in) {
    GatherDims dims{{1}, {0}, {0}, {1, 4}, Bounds::clip};
    change(dims);
    gather(in.f32({5, 4}), i32(in, {3, 1}), dims);
  };
}

// 2x2 windows over f32[6,6], with one thing changed.
WindowDims pool(void (*change)(WindowDims&)) {
  WindowDims dims{Reduction::max, {2, 2}, {2, 2}, {0, 0}, {0, 0}, {1, 1}, {1, 1}};
  change(dims);
  return dims;
}
std::function<void(Inputs&)> windows(void (*change)(WindowDims&)) {
  return [change](Inputs& in) { reduce_window(in.f32({6, 6}), pool(change)); };
}
const auto as_it_is = [](WindowDims&) {};
}  // namespace

TEST_SUITE_BEGIN("ops refuse");

TEST_CASE("slices at computed places") {
  refuses({
      {[](Inputs& in) { dynamic_slice(in.f32({5, 4}), in.f32({2}), {1, 1}); },
       "[dynamic_slice] the start must be integers, got f32[2]"},
      {[](Inputs& in) { dynamic_slice(in.f32({5, 4}), i32(in, {1}), {1, 1}); },
       "[dynamic_slice] expected a start of shape [2] for f32[5,4], got i32[1]"},
      {[](Inputs& in) { dynamic_slice(in.f32({5, 4}), i32(in, {2}), {1}); },
       "[dynamic_slice] expected 2 sizes for f32[5,4], got [1]"},
      {[](Inputs& in) { dynamic_slice(in.f32({5, 4}), i32(in, {2}), {1, 5}); },
       "[dynamic_slice] size 5 does not fit f32[5,4] dim 1"},
      {[](Inputs& in) { dynamic_slice(in.f32({5, 4}), i32(in, {2}), {-1, 1}); },
       "[dynamic_slice] size -1 does not fit f32[5,4] dim 0"},
      {[](Inputs& in) { dynamic_slice(in.elsewhere({5}), i32(in, {1}), {1}); },
       "[dynamic_slice] operands come from two tapes (f32[5] and i32[1])"},
      {[](Inputs& in) { dynamic_slice(Tensor(), i32(in, {1}), {1}); }, "[dynamic_slice] an operand is no tensor"},
      {[](Inputs& in) { dynamic_update_slice(in.f32({5}), i32(in, {2}), i32(in, {1})); },
       "[dynamic_update_slice] the update i32[2] does not fit f32[5]"},
      {[](Inputs& in) { dynamic_update_slice(in.f32({5}), in.f32({2, 1}), i32(in, {1})); },
       "[dynamic_update_slice] the update f32[2,1] does not fit f32[5]"},
      {[](Inputs& in) { dynamic_update_slice(in.f32({5}), in.f32({6}), i32(in, {1})); },
       "[dynamic_update_slice] the update f32[6] is larger than f32[5] in dim 0"},
      {[](Inputs& in) { dynamic_update_slice(in.f32({5}), in.f32({2}), boolean(in, {1})); },
       "[dynamic_update_slice] the start must be integers, got bool[1]"},
  });
}

TEST_CASE("gather and scatter") {
  refuses({
      {[](Inputs& in) { gather(in.f32({5, 4}), in.f32({3, 1}), {}); },
       "[gather] the indices must be integers, got f32[3,1]"},
      {[](Inputs& in) { gather(in.f32({5, 4}), i32(in, {}), {}); },
       "[gather] the last dimension of the indices holds a start: got i32[]"},
      {rows([](GatherDims& d) { d.index_map = {0, 1}; }),
       "[gather] the indices i32[3,1] hold 1 numbers a start, index_map [0,1] names 2"},
      {rows([](GatherDims& d) { d.index_map = {2}; }), "[gather] axis 2 is outside of f32[5,4]"},
      {[](Inputs& in) { gather(in.f32({5, 4}), i32(in, {3, 2}), {{1}, {0}, {0, 0}, {1, 4}, Bounds::clip}); },
       "[gather] index_map [0,0] names dimension 0 twice"},
      {rows([](GatherDims& d) { d.collapsed = {2}; }), "[gather] collapsed dimensions [2] must rise and lie below 2"},
      {rows([](GatherDims& d) { d.collapsed = {0, 0}; }), "[gather] collapsed dimensions [0,0] must rise and lie below 2"},
      {rows([](GatherDims& d) { d.slice_sizes = {1}; }), "[gather] expected 2 slice sizes for f32[5,4], got [1]"},
      {rows([](GatherDims& d) { d.slice_sizes = {1, 5}; }), "[gather] slice size 5 does not fit f32[5,4] dim 1"},
      {rows([](GatherDims& d) { d.slice_sizes = {2, 4}; }), "[gather] collapsed dimension 0 has slice size 2, expected 1"},
      {rows([](GatherDims& d) { d.offset = {}; }), "[gather] slices of f32[5,4] keep 1 dimensions, offset [] names 0"},
      {rows([](GatherDims& d) { d.offset = {2}; }), "[gather] offset dimensions [2] must rise and lie below 2"},
      {[](Inputs& in) { scatter(in.f32({5, 4}), i32(in, {3, 1}), in.f32({3, 5}), {{{1}, {0}, {0}, {1, 4}, Bounds::clip}, true}); },
       "[scatter] expected updates f32[3,4] for f32[5,4] at i32[3,1], got f32[3,5]"},
      {[](Inputs& in) { scatter(in.f32({5}), i32(in, {3, 1}), i32(in, {3}), {{{}, {0}, {0}, {1}, Bounds::clip}, true}); },
       "[scatter] expected updates f32[3] for f32[5] at i32[3,1], got i32[3]"},
      {[](Inputs& in) { scatter(boolean(in, {5}), i32(in, {3, 1}), boolean(in, {3}), {{{}, {0}, {0}, {1}, Bounds::clip}, true}); },
       "[scatter] expected numbers, got bool[5]"},
      {[](Inputs& in) { scatter(in.f32({5}), i32(in, {1, 1}), in.elsewhere({1}), {}); },
       "[scatter] operands come from two tapes"},
      {[](Inputs& in) { take(in.f32({5}), i32(in, {3}), 1); }, "[gather] axis 1 is outside of f32[5]"},
      {[](Inputs& in) { take(in.f32({5}), in.f32({3}), 0); }, "[gather] the indices must be integers, got f32[3,1]"},
  });
}

TEST_CASE("sorts and scans") {
  refuses({
      {[](Inputs& in) { sort(in.f32({5}), 1); }, "[sort] axis 1 is outside of f32[5]"},
      {[](Inputs& in) { sort(boolean(in, {5}), 0); }, "[sort] expected numbers, got bool[5]"},
      {[](Inputs& in) { sort_by(in.f32({5}), in.f32({4}), 0); },
       "[sort] expected values of the shape of the keys f32[5], got f32[4]"},
      {[](Inputs& in) { argsort(in.f32({5}), -1); }, "[sort] axis -1 is outside of f32[5]"},
      {[](Inputs&) { argsort(Tensor(), 0); }, "[sort] an operand is no tensor"},
      {[](Inputs& in) { argmax(in.f32({5}), 1); }, "[argmax] axis 1 is outside of f32[5]"},
      {[](Inputs& in) { argmax(in.f32({2, 0}), 1); }, "[argmax] no elements along axis 1 of f32[2,0]"},
      {[](Inputs& in) { argmin(boolean(in, {5}), 0); }, "[argmax] expected numbers, got bool[5]"},
      {[](Inputs& in) { cumsum(in.f32({5}), 1); }, "[cumsum] axis 1 is outside of f32[5]"},
      {[](Inputs& in) { cumsum(boolean(in, {5}), 0); }, "[cumsum] expected numbers, got bool[5]"},
  });
}

TEST_CASE("windows") {
  refuses({
      {windows([](WindowDims& d) { d.window = {2}; }), "[reduce_window] expected 2 values an attribute for [6,6], got [2]"},
      {windows([](WindowDims& d) { d.pad_high = {}; }), "[reduce_window] expected 2 values an attribute for [6,6], got []"},
      {windows([](WindowDims& d) { d.window = {2, 0}; }),
       "[reduce_window] window [2,0], strides [2,2] and dilations [1,1][1,1] must be at least 1"},
      {windows([](WindowDims& d) { d.strides = {0, 1}; }),
       "[reduce_window] window [2,2], strides [0,1] and dilations [1,1][1,1] must be at least 1"},
      {windows([](WindowDims& d) { d.base_dilation = {0, 1}; }),
       "[reduce_window] window [2,2], strides [2,2] and dilations [0,1][1,1] must be at least 1"},
      {windows([](WindowDims& d) { d.window_dilation = {1, -1}; }),
       "[reduce_window] window [2,2], strides [2,2] and dilations [1,1][1,-1] must be at least 1"},
      {windows([](WindowDims& d) { d.kind = Reduction::product; }), "[reduce_window] expected sum, max or min, got product"},
      {[](Inputs& in) { reduce_window(boolean(in, {6, 6}), pool(as_it_is)); },
       "[reduce_window] expected numbers, got bool[6,6]"},
      {[](Inputs& in) { select_and_scatter(in.f32({6, 6}), in.f32({3, 2}), pool(as_it_is)); },
       "[select_and_scatter] f32[6,6] has windows [3,3], the source is f32[3,2]"},
      {[](Inputs& in) { select_and_scatter(in.f32({6, 6}), in.f32({3, 3}), pool([](WindowDims& d) { d.kind = Reduction::sum; })); },
       "[select_and_scatter] selects by max or min, not by sum"},
      {[](Inputs& in) { select_and_scatter(in.f32({6, 6}), boolean(in, {3, 3}), pool(as_it_is)); },
       "[select_and_scatter] expected numbers, got bool[3,3]"},
      {[](Inputs& in) { select_and_gather(in.f32({6, 6}), in.f32({3, 3}), pool(as_it_is)); },
       "[select_and_gather] expected a source of the shape of f32[6,6], got f32[3,3]"},
      {[](Inputs& in) { select_and_gather(boolean(in, {6, 6}), in.f32({6, 6}), pool(as_it_is)); },
       "[select_and_gather] expected numbers, got bool[6,6]"},
      {[](Inputs& in) { select_and_gather(in.f32({6, 6}), in.elsewhere({6, 6}), pool(as_it_is)); },
       "[select_and_gather] operands come from two tapes"},
  });
}

TEST_CASE("between replicas") {
  refuses({
      {[](Inputs& in) { all_reduce(in.f32({4}), Reduction::sum, 0); }, "[all_reduce] expected at least one replica, got 0"},
      {[](Inputs& in) { all_reduce(boolean(in, {4}), Reduction::sum, 2); }, "[all_reduce] expected numbers, got bool[4]"},
      {[](Inputs& in) { all_gather(in.f32({4}), 1, 2); }, "[all_gather] axis 1 is outside of f32[4]"},
      {[](Inputs& in) { reduce_scatter(in.f32({4}), 0, 3); },
       "[reduce_scatter] f32[4] dim 0 cannot be split over 3 replicas"},
      {[](Inputs& in) { all_to_all(in.f32({4, 5}), 1, 0, 2); },
       "[all_to_all] f32[4,5] dim 1 cannot be split over 2 replicas"},
      {[](Inputs& in) { all_to_all(in.f32({4, 5}), 0, 2, 2); }, "[all_to_all] axis 2 is outside of f32[4,5]"},
      {[](Inputs& in) { collective_permute(in.f32({4}), {{0, 2}}, 2); },
       "[collective_permute] pair 0->2 lies outside of 2 replicas"},
      {[](Inputs& in) { collective_permute(in.f32({4}), {{0, 1}, {0, 0}}, 2); },
       "[collective_permute] replica 0 is named twice as a source"},
      {[](Inputs& in) { collective_permute(in.f32({4}), {{0, 1}, {1, 1}}, 2); },
       "[collective_permute] replica 1 is named twice as a target"},
      {[](Inputs&) { all_gather(Tensor(), 0, 2); }, "[all_gather] an operand is no tensor"},
  });
}

TEST_CASE("barriers and calls") {
  const CompositeBody same = [](const std::vector<Tensor>& x) { return x; };
  refuses({
      {[](Inputs&) { optimization_barrier(Tensor()); }, "[optimization_barrier] an operand is no tensor"},
      {[](Inputs& in) { optimization_barrier(in.f32({2}), {in.elsewhere({3})}); },
       "[optimization_barrier] operands come from two tapes (f32[2] and f32[3])"},
      {[=](Inputs&) { call("cell", same, {}); }, "[call] cell: expected at least one operand"},
      {[=](Inputs& in) { call("cell", same, {in.f32({2}), Tensor()}); }, "[call] cell: operand 1 is no tensor"},
      {[=](Inputs& in) { call("cell", same, {in.f32({2}), in.elsewhere({2})}); },
       "[call] cell: operand 1, f32[2], is on another tape"},
      {[](Inputs& in) { call("cell", [](const std::vector<Tensor>&) { return std::vector<Tensor>{}; }, {in.f32({2})}); },
       "[call] cell: the body has no result"},
      {[](Inputs& in) { call("cell", [](const std::vector<Tensor>&) { return std::vector<Tensor>{Tensor()}; }, {in.f32({2})}); },
       "[call] cell: result 0 is no tensor"},
      {[](Inputs& in) {
         const Tensor far = in.elsewhere({2});
         call("cell", [=](const std::vector<Tensor>&) { return std::vector<Tensor>{far}; }, {in.f32({2})});
       },
       "[call] cell: result 0, f32[2], is on another tape than the operands"},
      {[](Inputs& in) {
         const Tensor beside = in.f32({2});
         CallOptions options;
         options.vjp = [](const CompositeCall& c) { return c.seeds; };
         call("cell", [=](const std::vector<Tensor>& x) { return std::vector<Tensor>{x[0] + beside}; }, {in.f32({2})}, options);
       },
       "[call] cell: has a derivative of its own, so all that the body uses must be an operand; f32[2] (node 0) is not"},
      {[](Inputs& in) { call(std::shared_ptr<const Composite>(), {in.f32({2})}); }, "[call] there is no composite"},
      {[=](Inputs& in) {
         const Tensor x = in.f32({2});
         const auto composite = std::get<CallDims>(call("cell", same, {x})[0].node().attributes).composite;
         call(composite, {x, x});
       },
       "[call] cell takes 1 operands, got 2"},
      {[=](Inputs& in) {
         const auto composite = std::get<CallDims>(call("cell", same, {in.f32({2})})[0].node().attributes).composite;
         call(composite, {in.f32({3})});
       },
       "[call] cell: operand 0 is f32[3], expected f32[2]"},
  });
}

TEST_SUITE_END();
