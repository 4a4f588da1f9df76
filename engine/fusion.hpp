// Fusion groups: which nodes of a Program are computed together. They do not depend on any chip.
//
// A group is a chain of elementwise nodes over one shape, possibly headed by a product or convolution whose epilogue
// the chain is, possibly ended by reductions of the chain over the same axes. Broadcasts into a chain are folded: the
// chain reads their source. Every other operation is a group of its own.
#pragma once
#include <vector>

#include "engine/program.hpp"

namespace backbeat {

struct FusionGroup {
  NodeId head = -1;                // the product, convolution or other operation it starts with; -1: a pure chain
  std::vector<NodeId> chain;       // elementwise members, ascending
  std::vector<NodeId> reductions;  // of members, or of `operands` where the chain is empty; ascending
  Shape shape;                     // of the chain
  std::vector<NodeId> operands;    // nodes outside that are read, folded broadcasts seen through; ascending, each once
  std::vector<NodeId> outputs;     // members that are read outside or are roots; ascending

  std::vector<NodeId> nodes() const;  // head, chain and reductions
};

struct Fusion {
  std::vector<FusionGroup> groups;  // in an order in which they can run
  std::vector<NodeId> folded;       // broadcasts that no group computes
  std::vector<bool> live;           // by node: needed for the roots
};

// Without `fuse` every node is a group, and only broadcasts of single elements are folded.
Fusion fusion_groups(const Program& program, bool fuse = true);

// Whether a node is a broadcast that no group computes: what reads it reads its operand instead.
bool is_folded(const Fusion& fusion, NodeId node);

}  // namespace backbeat
