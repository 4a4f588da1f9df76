// Tape: the Wengert list. Recording computes nothing; the list is the program that devices compile.
#pragma once
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "engine/primitive.hpp"

namespace backbeat {

using NodeId = int32_t;

enum class Phase : uint8_t { forward, backward, second_backward, higher, update, collective, recompute };
std::string_view name_of(Phase phase);

// Where user code asked for a node.
struct SourceLine {
  const char* file = "";
  uint32_t line = 0;
  // As a default argument: the line of the call.
  static constexpr SourceLine here(const char* file = __builtin_FILE(), uint32_t line = __builtin_LINE()) { return {file, line}; }
};

struct Node {
  Op op = Op::constant;
  std::vector<NodeId> operands;
  Attributes attributes;
  Shape shape;
  DType dtype = DType::f32;
  int order = 0;      // 0: the forward computation; see Tape::append
  bool from_constants = false;  // no operand, however far back, is an input
  bool derivative = false;      // appended by grad
  int8_t serves = -1;  // computed again for the derivative of that order: a checkpoint's backward pass; -1: not a recomputation
  int32_t scope = 0;  // index into Tape::scopes()
  SourceLine line;    // of a derivative: that of the node differentiated
};

class Tape {
 public:
  Tape() : scopes_{""} {}

  // Appends without checking shapes: the functions of ops.hpp do that. The node's order is the largest order among its
  // operands; while grad differentiates a node of order k it is at least k + 1. One exception: what is computed from
  // constants alone while a node of user code is differentiated has order 0. Else the constant -1 that reaches f in the
  // derivative of g - f would lift all of f's derivative to the order of g's. The scope is the innermost open Scope, or
  // while grad runs that of the differentiated node.
  NodeId append(Op op, std::vector<NodeId> operands, Attributes attributes, const Shape& shape, DType dtype);

  // For passes: a node with its labels as they are, and an empty tape that knows the scopes of another.
  NodeId push(Node node) { nodes_.push_back(std::move(node)); return size() - 1; }
  static Tape with_scopes_of(const Tape& other) { Tape tape; tape.scopes_ = other.scopes_; return tape; }

  const Node& operator[](NodeId id) const { return nodes_[static_cast<size_t>(id)]; }
  Node& node(NodeId id) { return nodes_[static_cast<size_t>(id)]; }
  NodeId size() const { return static_cast<NodeId>(nodes_.size()); }

  const std::vector<std::string>& scopes() const { return scopes_; }
  const std::string& scope_of(NodeId id) const { return scopes_[static_cast<size_t>((*this)[id].scope)]; }
  // recompute where a checkpoint computes again; collective; update under the scope "optimizer"; else from the order.
  Phase phase_of(NodeId id) const;
  int32_t intern_scope(const std::string& path);
  // What a node appended now gets beside its operands: the least order, the scope.
  int least_order() const { return derivative_ ? derivative_->order_floor_ : 0; }
  const std::string& current_scope() const;

  // While one is alive, what is recorded on the tape is labelled as the derivative of `node`. Used by grad.
  class DerivativeOf {
   public:
    DerivativeOf(Tape& tape, NodeId node);
    ~DerivativeOf();
    DerivativeOf(const DerivativeOf&) = delete;
    DerivativeOf& operator=(const DerivativeOf&) = delete;

   private:
    friend class Tape;
    Tape& tape_;
    const DerivativeOf* outer_;
    int order_floor_;
    int32_t scope_;
    SourceLine line_;
    bool of_derivative_;
  };

 private:
  std::deque<Node> nodes_;  // a deque, so that rules may hold a Node while they append
  std::vector<std::string> scopes_;
  const DerivativeOf* derivative_ = nullptr;  // the innermost that is alive
};

// While the outermost one on this thread is alive, what is recorded is labelled with its line. Every function of ops.hpp
// opens one, so that what is composed of others names the line that asked for the whole.
class RecordedAt {
 public:
  explicit RecordedAt(SourceLine where) : outermost_(current_.line == 0) {
    if (outermost_) current_ = where;
  }
  ~RecordedAt() {
    if (outermost_) current_ = {};
  }
  RecordedAt(const RecordedAt&) = delete;
  RecordedAt& operator=(const RecordedAt&) = delete;
  static SourceLine current() { return current_; }

 private:
  static thread_local constinit SourceLine current_;
  bool outermost_;
};

// Labels what this thread records while it is alive: Scope a("critic"); Scope b("dense_1") gives "critic/dense_1".
class Scope {
 public:
  explicit Scope(const std::string& name);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  static const std::string& current();

 private:
  std::string outer_;
};

// A light handle to a node. The tape must outlive it.
class Tensor {
 public:
  Tensor() = default;
  Tensor(Tape& tape, NodeId id) : tape_(&tape), id_(id) {}

  bool defined() const { return tape_ != nullptr; }
  Tape& tape() const {
    if (!tape_) fail("tensor", "it is undefined (an input without a cotangent?)");
    return *tape_;
  }
  NodeId id() const { return id_; }
  const Node& node() const { return tape()[id_]; }
  const Shape& shape() const { return node().shape; }
  int64_t rank() const { return node().shape.size(); }
  int64_t dim(int64_t axis) const {
    if (axis < 0 || axis >= rank()) fail("tensor", "there is no dimension ", axis, " in ", node().dtype, node().shape);
    return node().shape[axis];
  }
  int64_t size() const { return element_count(node().shape); }
  DType dtype() const { return node().dtype; }
  bool operator==(const Tensor& other) const { return tape_ == other.tape_ && id_ == other.id_; }

 private:
  Tape* tape_ = nullptr;
  NodeId id_ = -1;
};

// A Tensor as the functions of ops.hpp take it: it knows the line that passed it.
struct Operand : Tensor {
  Operand(Tensor tensor, SourceLine where = SourceLine::here()) : Tensor(tensor), where(where) {}
  SourceLine where;
};

std::ostream& operator<<(std::ostream& out, const Tensor& tensor);  // f32[2,3]
// One line a node: id, result, operation, operands, attributes, and behind # phase, scope and source line.
std::ostream& operator<<(std::ostream& out, const Tape& tape);
std::string describe(const Tape& tape, NodeId id);  // that line

}  // namespace backbeat
