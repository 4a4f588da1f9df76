#include "engine/tape.hpp"

#include <algorithm>
#include <iomanip>

namespace backbeat {

namespace {
thread_local std::string current_scope;
constexpr const char* phase_names[] = {"forward", "backward", "second_backward", "higher", "update"};

void print_attributes(std::ostream& out, const Attributes& attributes) {
  std::visit(
      [&]<class T>(const T& a) {
        if constexpr (std::is_same_v<T, Dims>) out << ' ' << a;
        else if constexpr (std::is_same_v<T, Direction>) out << ' ' << name_of(a);
        else if constexpr (std::is_same_v<T, ReduceDims>) out << ' ' << name_of(a.kind) << " over " << a.axes;
        else if constexpr (std::is_same_v<T, SliceDims>) out << ' ' << a.start << ':' << a.limit << ':' << a.stride;
        else if constexpr (std::is_same_v<T, PadDims>) out << ' ' << a.low << ' ' << a.high << ' ' << a.interior;
        else if constexpr (std::is_same_v<T, Axis>) out << " axis " << a.index;
        else if constexpr (std::is_same_v<T, InputName>) out << " \"" << a.name << '"';
        else if constexpr (std::is_same_v<T, Array>) out << ' ' << a;
        else if constexpr (std::is_same_v<T, std::shared_ptr<const DotDims>>)
          out << " contract " << a->lhs_contracting << a->rhs_contracting << " batch " << a->lhs_batch << a->rhs_batch;
        else if constexpr (std::is_same_v<T, std::shared_ptr<const ConvDims>>)
          out << " strides " << a->strides << " pad " << a->pad_low << a->pad_high << " dilation " << a->lhs_dilation
              << a->kernel_dilation << " groups " << a->feature_groups << ',' << a->batch_groups;
      },
      attributes);
}
}  // namespace

std::string_view name_of(Phase phase) { return phase_names[static_cast<size_t>(phase)]; }

NodeId Tape::append(Op op, std::vector<NodeId> operands, Attributes attributes, const Shape& shape, DType dtype) {
  Node node;
  node.op = op, node.operands = std::move(operands), node.attributes = std::move(attributes);
  node.shape = shape, node.dtype = dtype;
  node.order = order_floor_, node.scope = derivative_scope_, node.derivative = order_floor_ > 0;
  node.from_constants = op != Op::input;
  for (NodeId id : node.operands) {
    node.order = std::max(node.order, (*this)[id].order);
    node.from_constants = node.from_constants && (*this)[id].from_constants;
  }
  if (node.from_constants && !of_derivative_) node.order = 0;
  if (node.scope < 0) node.scope = intern_scope(Scope::current());
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

Phase Tape::phase_of(NodeId id) const {
  const std::string& scope = scope_of(id);
  if (scope == "optimizer" || scope.rfind("optimizer/", 0) == 0) return Phase::update;
  return static_cast<Phase>(std::min((*this)[id].order, 3));
}

Tape::DerivativeOf::DerivativeOf(Tape& tape, NodeId node)
    : tape_(tape), order_floor_(tape.order_floor_), scope_(tape.derivative_scope_), of_derivative_(tape.of_derivative_) {
  tape_.order_floor_ = std::max(order_floor_, tape[node].order + 1);
  tape_.derivative_scope_ = tape[node].scope;
  tape_.of_derivative_ = tape[node].derivative;
}

Tape::DerivativeOf::~DerivativeOf() {
  tape_.order_floor_ = order_floor_;
  tape_.derivative_scope_ = scope_;
  tape_.of_derivative_ = of_derivative_;
}

Scope::Scope(const std::string& name) : outer_(current_scope) {
  current_scope = outer_.empty() ? name : outer_ + '/' + name;
}
Scope::~Scope() { current_scope = outer_; }
const std::string& Scope::current() { return current_scope; }

std::ostream& operator<<(std::ostream& out, const Tensor& t) {
  return t.defined() ? out << t.dtype() << t.shape() : out << "(no tensor)";
}

std::ostream& operator<<(std::ostream& out, const Tape& tape) {
  for (NodeId id = 0; id < tape.size(); ++id) {
    const Node& node = tape[id];
    out << '%' << std::left << std::setw(5) << id << std::setw(20) << concat(node.dtype, node.shape) << node.op;
    for (NodeId operand : node.operands) out << " %" << operand;
    print_attributes(out, node.attributes);
    out << "   # " << name_of(tape.phase_of(id));
    if (!tape.scope_of(id).empty()) out << ", " << tape.scope_of(id);
    out << '\n';
  }
  return out;
}

}  // namespace backbeat
