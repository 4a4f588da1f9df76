// Program: a tape with named inputs, outputs and state, ready for a device. StateStore: where that state lives.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/tape.hpp"

namespace backbeat {

struct Program {
  struct Port {
    std::string name;
    NodeId node;
  };
  // Read at the start of a run; if `write` is set, the store holds that node's value when the run ends.
  struct State {
    std::string name;
    NodeId read;
    std::optional<NodeId> write;
  };

  std::string name;
  Tape tape;
  std::vector<Port> inputs, outputs;
  std::vector<State> states;

  std::vector<NodeId> roots() const;  // what must be computed: outputs and written state
};

// Parameters, optimizer state, step counters and keys by name; several Programs share one.
class StateStore {
 public:
  void set(const std::string& name, Array value) { arrays_[name] = std::move(value); }
  bool contains(const std::string& name) const { return arrays_.count(name) != 0; }
  Array& at(const std::string& name);  // Error naming the missing entry
  const Array& at(const std::string& name) const { return const_cast<StateStore*>(this)->at(name); }
  const std::map<std::string, Array>& arrays() const { return arrays_; }

 private:
  std::map<std::string, Array> arrays_;
};

// What `record` hands to the function that writes a step.
class Recorder {
 public:
  Recorder(Program& program) : program_(program) {}
  Tape& tape() { return program_.tape; }
  Tensor input(const std::string& name, DType dtype, const Shape& shape,
               SourceLine where = SourceLine::here());
  Tensor state(const std::string& name, DType dtype, const Shape& shape,
               SourceLine where = SourceLine::here());  // the same tensor for the same name
  void update(const std::string& name, Tensor value);  // the state's value after the run; same shape and dtype
  void output(const std::string& name, Tensor value);

 private:
  Program& program_;
};

Program record(const std::string& name, const std::function<void(Recorder&)>& step);

}  // namespace backbeat
