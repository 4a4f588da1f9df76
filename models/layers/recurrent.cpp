#include "models/layers/recurrent.hpp"

#include "models/layers/activation.hpp"

namespace backbeat {

namespace {

constexpr const char* peephole_names[] = {"/peephole_input", "/peephole_forget", "/peephole_output"};

void append_peepholes(std::vector<ParameterSpec>& specs, const std::string& layer, const Shape& shape) {
  for (const char* name : peephole_names) specs.push_back({layer + name, shape});
}

LstmState gated(const Parameters& p, const std::string& layer, Tensor z, Tensor c, const Lstm& options) {
  const std::vector<Tensor> parts = split(z, 4, z.rank() - 1);  // i, f, g, o
  const auto gate = [&](Tensor x) { return options.hard_gates ? hard_sigmoid(x) : logistic(x); };
  const auto peeped = [&](Tensor x, int64_t which, Tensor cell) {
    const std::string name = layer + peephole_names[which];
    return p.contains(name) ? x + p(name) * cell : x;
  };
  const Tensor i = gate(peeped(parts[0], 0, c));
  Tensor f = peeped(parts[1], 1, c);
  if (options.forget_bias != 0) f = f + options.forget_bias;
  const Tensor kept = gate(f) * c, added = i * tanh(parts[2]);
  const Tensor next = kept + added;
  const Tensor o = gate(peeped(parts[3], 2, next));
  return {o * tanh(next), next};
}

void check_state(const char* where, const std::string& layer, const LstmState& state, const Tensor& z) {
  Shape expected = z.shape();
  expected[expected.size() - 1] /= 4;
  if (state.h.shape() != expected || state.c.shape() != expected)
    fail(where, layer, ": expected h and c of shape ", expected, ", got ", state.h, " and ", state.c);
}

}  // namespace

std::vector<ParameterSpec> lstm_parameters(const std::string& layer, int64_t in, int64_t units, bool peepholes, Initial input,
                                           Initial hidden) {
  std::vector<ParameterSpec> specs{{layer + "/input_weight", {in, 4 * units}, input},
                                   {layer + "/hidden_weight", {units, 4 * units}, hidden},
                                   {layer + "/bias", {4 * units}}};
  if (peepholes) append_peepholes(specs, layer, {units});
  return specs;
}

LstmState lstm(const Parameters& p, const std::string& layer, Tensor x, const LstmState& state, const Lstm& options) {
  Scope network(p.network()), scope(layer);
  const Tensor of_input = matmul(x, p(layer + "/input_weight"), options.precision);
  const Tensor of_hidden = matmul(state.h, p(layer + "/hidden_weight"), options.precision);
  const Tensor z = of_input + of_hidden + p(layer + "/bias");
  check_state("lstm", layer, state, z);
  return gated(p, layer, z, state.c, options);
}

std::vector<ParameterSpec> conv_lstm_parameters(const std::string& layer, int64_t kernel, int64_t in, int64_t units,
                                                const Dims& peephole_image, Initial input, Initial hidden) {
  std::vector<ParameterSpec> specs{{layer + "/input_weight", {kernel, kernel, in, 4 * units}, input},
                                   {layer + "/hidden_weight", {kernel, kernel, units, 4 * units}, hidden},
                                   {layer + "/bias", {4 * units}}};
  if (!peephole_image.empty()) append_peepholes(specs, layer, {peephole_image[0], peephole_image[1], units});
  return specs;
}

LstmState conv_lstm(const Parameters& p, const std::string& layer, Tensor x, const LstmState& state, const Lstm& options) {
  Scope network(p.network()), scope(layer);
  const Conv2d conv{.precision = options.precision};
  const Tensor of_input = conv2d(x, p(layer + "/input_weight"), conv);
  const Tensor of_hidden = conv2d(state.h, p(layer + "/hidden_weight"), conv);
  const Tensor z = of_input + of_hidden + p(layer + "/bias");
  check_state("conv_lstm", layer, state, z);
  return gated(p, layer, z, state.c, options);
}

std::vector<Tensor> Repeated::operator()(const std::vector<Tensor>& operands, SourceLine where) {
  if (composite_) {
    std::vector<Tensor> all = operands;
    all.insert(all.end(), captured_.begin(), captured_.end());
    return call(composite_, all, where);
  }
  const std::vector<Tensor> results = call(name_, body_, operands, {}, where);
  const Node& node = results[0].node();
  composite_ = std::get<CallDims>(node.attributes).composite;
  for (size_t i = operands.size(); i < node.operands.size(); ++i) captured_.push_back({results[0].tape(), node.operands[i]});
  return results;
}

std::vector<std::vector<Tensor>> unroll(const std::string& name, const Cell& cell, std::vector<Tensor> state,
                                        const std::vector<Tensor>& inputs, SourceLine where) {
  Repeated step(name, [&](const std::vector<Tensor>& operands) {
    return cell({operands.begin(), operands.end() - 1}, operands.back());
  });
  std::vector<std::vector<Tensor>> states;
  for (Tensor input : inputs) {
    std::vector<Tensor> operands = state;
    operands.push_back(input);
    std::vector<Tensor> next = step(operands, where);
    if (next.size() != state.size()) fail("unroll", name, ": a state of ", state.size(), " tensors became ", next.size());
    state = next;
    states.push_back(std::move(next));
  }
  return states;
}

std::vector<Tensor> unstack(Operand x, int64_t axis) {
  const RecordedAt at(x.where);
  if (axis < 0 || axis >= x.rank()) fail("unstack", "axis ", axis, " is outside of ", x);
  Shape shape;
  for (int64_t i = 0; i < x.rank(); ++i)
    if (i != axis) shape.push_back(x.dim(i));
  std::vector<Tensor> parts;
  for (Tensor part : split(x, x.dim(axis), axis)) parts.push_back(reshape(part, shape));
  return parts;
}

Tensor stack(const std::vector<Tensor>& parts, int64_t axis) {
  if (parts.empty() || axis < 0 || axis > parts[0].rank()) fail("stack", "no axis ", axis, " between ", parts.size(), " parts");
  std::vector<Tensor> rows;
  for (Tensor part : parts) {
    Shape shape;
    for (int64_t i = 0; i <= part.rank(); ++i) shape.push_back(i < axis ? part.dim(i) : i == axis ? 1 : part.dim(i - 1));
    rows.push_back(reshape(part, shape));
  }
  return concatenate(rows, axis);
}

}  // namespace backbeat
