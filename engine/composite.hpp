// Composite: a body that the tape calls as one operation. Checkpointed segments, repeated cells and operations with a
// derivative of their own are calls. A call computes what its body computes; devices run the body in its place unless
// they have a kernel of that name.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/program.hpp"

namespace backbeat {

// What a derivative of its own sees: the operands and results of the call, and for a vjp the cotangents of the results, for
// a jvp the tangents of the operands. An undefined Tensor among them is "none". All are on the tape of the call.
struct CompositeCall {
  std::vector<Tensor> operands, results, seeds;
};
// The cotangents of the operands, or the tangents of the results; undefined for none.
using CompositeDerivative = std::function<std::vector<Tensor>(const CompositeCall&)>;

struct Composite {
  std::string name;
  Tape tape;                             // of the body
  std::vector<NodeId> inputs, results;
  int order = 0;                         // of the call that it was recorded for, and its scope: labels of later calls are
  std::string scope;                     // shifted by the difference
  bool recompute = false;                // the backward pass computes the body again and keeps nothing of it
  CompositeDerivative vjp, jvp;          // empty: those of the body
};

// --- recording a call
using CompositeBody = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

struct CallOptions {
  bool recompute = false;
  CompositeDerivative vjp = {}, jvp = {};
};

// Records body(operands) as a call. Tensors of the same tape that the body uses beside its operands become operands too,
// unless the call has a derivative of its own, which could not know them: then they are an Error.
std::vector<Tensor> call(const std::string& name, const CompositeBody& body, const std::vector<Tensor>& operands,
                         const CallOptions& options = {}, SourceLine where = SourceLine::here());
// Makes a body of what was recorded on the tape of `operands` since it had `start` nodes, and records a call of that. What
// was recorded stays on the tape, dead.
std::vector<Tensor> enclose(const std::string& name, NodeId start, const std::vector<Tensor>& operands,
                            const std::vector<Tensor>& results, const CallOptions& options = {});
// Calls a composite once more, on other operands of the same shapes and dtypes.
std::vector<Tensor> call(std::shared_ptr<const Composite> composite, const std::vector<Tensor>& operands,
                         SourceLine where = SourceLine::here());

// --- taking calls apart
// Appends the body of `call` to `tape` on these operands; the results. Orders and scopes are those of the call and of the
// body together. `serves`: the order of the derivative that computes the body again, or -1.
std::vector<NodeId> append_body(Tape& tape, const Node& call, std::span<const NodeId> operands, int serves = -1);
// The same Program without a call: each body once for all results of a call.
Program inline_calls(const Program& program);

}  // namespace backbeat
