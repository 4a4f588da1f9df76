#include "engine/program.hpp"

#include <algorithm>

namespace backbeat {

std::vector<NodeId> Program::roots() const {
  std::vector<NodeId> ids;
  for (const Port& port : outputs) ids.push_back(port.node);
  for (const State& state : states)
    if (state.write) ids.push_back(*state.write);
  return ids;
}

Array& StateStore::at(const std::string& name) {
  auto found = arrays_.find(name);
  if (found == arrays_.end()) fail("state", "there is no '", name, "' in the store");
  return found->second;
}

namespace {
void check_shape(const char* what, const std::string& name, const Shape& shape) {
  for (int64_t d : shape)
    if (d < 0) fail(what, "'", name, "' has a negative dimension: ", shape);
}
}  // namespace

Tensor Recorder::input(const std::string& name, DType dtype, const Shape& shape, SourceLine where) {
  const RecordedAt at(where);
  for (const Program::Port& port : program_.inputs)
    if (port.name == name) fail("input", "'", name, "' is declared twice in ", program_.name);
  for (const Program::State& state : program_.states)
    if (state.name == name) fail("input", "'", name, "' is a state of ", program_.name, " already");
  check_shape("input", name, shape);
  const NodeId id = tape().append(Op::input, {}, InputName{name}, shape, dtype);
  program_.inputs.push_back({name, id});
  return {tape(), id};
}

Tensor Recorder::state(const std::string& name, DType dtype, const Shape& shape, SourceLine where) {
  const RecordedAt at(where);
  for (const Program::State& state : program_.states) {
    if (state.name != name) continue;
    const Tensor t(tape(), state.read);
    if (t.shape() != shape || t.dtype() != dtype)
      fail("state", "'", name, "' is ", t, ", asked for as ", dtype, shape);
    return t;
  }
  for (const Program::Port& port : program_.inputs)
    if (port.name == name) fail("state", "'", name, "' is an input of ", program_.name, " already");
  check_shape("state", name, shape);
  const NodeId id = tape().append(Op::input, {}, InputName{name}, shape, dtype);
  program_.states.push_back({name, id, {}});
  return {tape(), id};
}

void Recorder::update(const std::string& name, Tensor value) {
  for (Program::State& state : program_.states) {
    if (state.name != name) continue;
    const Tensor t(tape(), state.read);
    if (&value.tape() != &tape()) fail("update", "'", name, "' would be set from another tape");
    if (t.shape() != value.shape() || t.dtype() != value.dtype())
      fail("update", "'", name, "' is ", t, ", cannot become ", value);
    if (state.write) fail("update", "'", name, "' is updated twice in ", program_.name);
    state.write = value.id();
    return;
  }
  fail("update", "there is no state '", name, "' in ", program_.name);
}

void Recorder::output(const std::string& name, Tensor value) {
  if (&value.tape() != &tape()) fail("output", "'", name, "' comes from another tape");
  program_.outputs.push_back({name, value.id()});
}

Program record(const std::string& name, const std::function<void(Recorder&)>& step) {
  Program program;
  program.name = name;
  Recorder recorder(program);
  step(recorder);
  return program;
}

}  // namespace backbeat
