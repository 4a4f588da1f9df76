// Programs for people: the printed tape and its graph; and precision changed by scope and order.
#include <doctest/doctest.h>

#include "engine/composite.hpp"
#include "engine/ops.hpp"
#include "engine/precision.hpp"
#include "engine/print.hpp"

using namespace backbeat;

namespace {

Tensor doubled(Tensor x) { return x + x; }   // labelled with this line
Tensor trebled(Operand x) { return x + doubled(x); }  // the sum with the line that calls it

Program small(uint32_t& line) {
  return record("small", [&](Recorder& r) {
    const Tensor x = r.input("x", DType::f32, {2, 3}), w = r.state("w", DType::f32, {3, 4});
    const Scope scope("layer");
    line = __LINE__ + 1;
    const Tensor y = tanh(matmul(x, w, Precision::high));
    r.update("w", w * 0.5);
    r.output("loss", mean(y));
    exp(x);  // dead
  });
}

}  // namespace

TEST_CASE("a node prints as one line: what, from what, phase, scope and source line") {
  uint32_t line = 0;
  const Program program = small(line);
  const std::string place = concat("engine/print.cpp:", line);
  CHECK(describe(program.tape, 2) ==
        "%2    f32[2,4]            dot_general %0 %1 contract [1][0] batch [][] high   # forward, layer, " + place);
  CHECK(describe(program.tape, 3) == "%3    f32[2,4]            tanh %2   # forward, layer, " + place);
  const std::string text = concat(program);
  CHECK(text.rfind("small\n%0 ", 0) == 0);
  CHECK(text.find("\noutput loss = %") != std::string::npos);
  CHECK(text.find("\nstate w is %1, becomes %") != std::string::npos);
  CHECK(text.find(" exp ") == std::string::npos);  // dead
}

TEST_CASE("a function composed of others names the line that called it; an operator its own") {
  Tape tape;
  const Tensor x = constant(tape, Array::full(DType::f32, {2, 3}, 1));
  const NodeId first = tape.size();
  const uint32_t line = __LINE__ + 1;
  mean(softplus(x));
  for (NodeId id = first; id < tape.size(); ++id) CHECK(tape[id].line.line == line);
  CHECK(doubled(x).node().line.line < line - 20);
  CHECK(trebled(x).node().line.line == __LINE__);
  CHECK((2.0 * x).node().line.line == __LINE__);
  CHECK_THROWS_AS(reshape(x, {7}), Error);
  CHECK((x + x).node().line.line == __LINE__);  // the line of what threw is forgotten
}

TEST_CASE("every kind of attribute prints") {
  Tape tape;
  const auto ends = [&](Tensor t, const std::string& attributes) {
    CAPTURE(describe(tape, t.id()));
    CHECK(describe(tape, t.id()).find(attributes + "   #") != std::string::npos);
  };
  const Tensor x = constant(tape, Array::zeros(DType::f32, {4, 4})), i = constant(tape, Array::zeros(DType::i32, {2, 1}));
  ends(cumsum(x, 1, true), "axis 1 reverse");
  ends(sort(x, 0), "axis 0");
  ends(argmax(x, 1), "max over [1]");
  ends(reduce_precision(x, 5, 10), "e5m10");
  ends(slice(x, {0, 1}, {4, 3}, {1, 2}), "[0,1]:[4,3]:[1,2]");
  ends(reduce_window(x, {Reduction::max, {2, 2}, {2, 2}, {0, 0}, {0, 0}, {1, 1}, {1, 1}}), "max window [2,2] strides [2,2] pad [0,0][0,0]");
  ends(gather(x, i, {{1}, {0}, {0}, {1, 4}, Bounds::clip}), "slices [1,4] starts along [0] at [1] collapsed [0] clip");
  ends(scatter(x, i, constant(tape, Array::zeros(DType::f32, {2, 4})), {{{1}, {0}, {0}, {1, 4}, Bounds::fill_or_drop}, true}),
       "add slices [1,4] starts along [0] at [1] collapsed [0] fill_or_drop");
  ends(all_reduce(x, Reduction::sum, 2), "2 replicas sum axis 0");
  ends(collective_permute(x, {{0, 1}}, 2), "2 replicas sum axis 0 0->1");
  ends(call("cell", [](const std::vector<Tensor>& t) { return std::vector{-t[0]}; }, {x})[0], "cell result 0");
}

TEST_CASE("the graph holds live nodes in boxes of their scopes, with what leaves the program") {
  uint32_t line = 0;
  const std::string graph = graphviz(small(line));
  CHECK(graph.rfind("digraph \"small\" {", 0) == 0);
  for (const char* part : {"label=\"x\\nf32[2,3]\"", "label=\"tanh\\nf32[2,4]\"", "label=\"layer\"", "  n0 -> n2;\n", "[label=\"loss\", shape=ellipse",
                           "[label=\"w\", shape=cylinder"})
    CHECK_MESSAGE(graph.find(part) != std::string::npos, part);
  CHECK(graph.find("exp") == std::string::npos);
  CHECK(std::count(graph.begin(), graph.end(), '{') == std::count(graph.begin(), graph.end(), '}'));
}

TEST_CASE("precision by scope, by order, by both; later rules win") {
  Program program = record("p", [](Recorder& r) {
    const Tensor x = r.input("x", DType::f32, {2, 2});
    Tensor y = x;
    for (const char* name : {"critic", "critic/dense", "criticism"}) {
      const Scope scope(name);
      y = matmul(y, x);
    }
    r.output("y", y);
  });
  const auto precisions = [&](std::vector<std::string> rules) {
    Program changed = program;
    std::vector<PrecisionRule> parsed;
    for (const std::string& rule : rules) parsed.push_back(precision_rule_from_text(rule));
    override_precision(changed, parsed);
    std::string text;
    for (NodeId id = 1; id < 4; ++id)
      text += concat(name_of(std::get<std::shared_ptr<const DotDims>>(changed.tape[id].attributes)->precision), ' ');
    return text;
  };
  CHECK(precisions({}) == "default default default ");
  CHECK(precisions({"critic=high"}) == "high high default ");
  CHECK(precisions({"order:0=highest", "critic/dense=high"}) == "highest high highest ");
  CHECK(precisions({"critic,order:1=high"}) == "default default default ");
  for (const char* wrong : {"critic", "=high", "order:=high", "order:x=high", "order:-1=high", "critic,order:1x=high"})
    CHECK_THROWS_WITH_AS(precision_rule_from_text(wrong),
                         concat("[precision] '", wrong, "': expected SCOPE=NAME, order:K=NAME or SCOPE,order:K=NAME").c_str(), Error);
  CHECK_THROWS_WITH_AS(precision_rule_from_text("critic=low"), "[precision] unknown precision 'low', expected default, high or highest", Error);
}
