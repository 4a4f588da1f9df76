#include "engine/tape.hpp"

#include <algorithm>

namespace backbeat {

namespace {
thread_local std::string current_scope;
constexpr const char* phase_names[] = {"forward", "backward", "second_backward", "higher", "update", "collective", "recompute"};
}  // namespace

std::string_view name_of(Phase phase) { return phase_names[static_cast<size_t>(phase)]; }

NodeId Tape::append(Op op, std::vector<NodeId> operands, Attributes attributes, const Shape& shape, DType dtype) {
  Node node;
  node.op = op, node.operands = std::move(operands), node.attributes = std::move(attributes);
  node.shape = shape, node.dtype = dtype;
  node.derivative = derivative_ != nullptr;
  if (derivative_) node.order = derivative_->order_floor_, node.scope = derivative_->scope_, node.line = derivative_->line_;
  else node.line = RecordedAt::current();
  node.from_constants = op != Op::input;
  for (NodeId id : node.operands) {
    node.order = std::max(node.order, (*this)[id].order);
    node.from_constants = node.from_constants && (*this)[id].from_constants;
  }
  if (node.from_constants && !(derivative_ && derivative_->of_derivative_)) node.order = 0;
  if (!derivative_) node.scope = intern_scope(Scope::current());
  nodes_.push_back(std::move(node));
  return size() - 1;
}

int32_t Tape::intern_scope(const std::string& path) {
  // The last few scopes are the likely ones.
  for (size_t i = scopes_.size(); i-- > 0;)
    if (scopes_[i] == path) return static_cast<int32_t>(i);
  scopes_.push_back(path);
  return static_cast<int32_t>(scopes_.size()) - 1;
}

const std::string& Tape::current_scope() const {
  return derivative_ ? scopes_[static_cast<size_t>(derivative_->scope_)] : Scope::current();
}

Phase Tape::phase_of(NodeId id) const {
  const Node& node = (*this)[id];
  const std::string& scope = scope_of(id);
  if (node.serves >= 0) return Phase::recompute;
  if (is_collective(node.op)) return Phase::collective;
  if (scope == "optimizer" || scope.rfind("optimizer/", 0) == 0) return Phase::update;
  return static_cast<Phase>(std::min(node.order, 3));
}

Tape::DerivativeOf::DerivativeOf(Tape& tape, NodeId node)
    : tape_(tape), outer_(tape.derivative_), order_floor_(tape[node].order + 1), scope_(tape[node].scope), line_(tape[node].line),
      of_derivative_(tape[node].derivative) {
  if (outer_) order_floor_ = std::max(order_floor_, outer_->order_floor_);
  tape_.derivative_ = this;
}

Tape::DerivativeOf::~DerivativeOf() { tape_.derivative_ = outer_; }

thread_local constinit SourceLine RecordedAt::current_;

Scope::Scope(const std::string& name) : outer_(current_scope) {
  current_scope = outer_.empty() ? name : outer_ + '/' + name;
}
Scope::~Scope() { current_scope = outer_; }
const std::string& Scope::current() { return current_scope; }

std::ostream& operator<<(std::ostream& out, const Tensor& t) {
  return t.defined() ? out << t.dtype() << t.shape() : out << "(no tensor)";
}

}  // namespace backbeat
