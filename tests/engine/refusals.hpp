// What the recording functions refuse, in which words: a table of what is recorded and what the Error says.
#pragma once
#include <doctest/doctest.h>

#include <functional>

#include "engine/ops.hpp"

namespace backbeat::test {

struct Inputs {
  Tape tape, other;
  Tensor of(DType dtype, const Shape& shape) {
    return {tape, tape.append(Op::input, {}, InputName{"x"}, shape, dtype)};
  }
  Tensor f32(const Shape& shape) { return of(DType::f32, shape); }
  Tensor elsewhere(const Shape& shape) {
    return {other, other.append(Op::input, {}, InputName{"x"}, shape, DType::f32)};
  }
};

struct Refusal {
  std::function<void(Inputs&)> record;
  std::string message;  // starts with this
};

inline void refuses(const std::vector<Refusal>& refusals) {
  for (const Refusal& refusal : refusals) {
    Inputs inputs;
    std::string message = "nothing was thrown";
    try {
      refusal.record(inputs);
    } catch (const Error& error) {
      message = error.what();
    }
    CHECK(message.substr(0, refusal.message.size()) == refusal.message);
    CHECK(message.find('\n') == std::string::npos);
  }
}

}  // namespace backbeat::test
