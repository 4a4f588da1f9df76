// Programs for people: as text, and as a graph.
#pragma once
#include <ostream>
#include <string>

#include "engine/program.hpp"

namespace backbeat {

// The live nodes, what the outputs are, where state is read and what it becomes, and the bodies of calls.
std::ostream& operator<<(std::ostream& out, const Program& program);
// The live nodes in Graphviz's language: colours are phases, boxes scopes; `dot -Tsvg`.
std::string graphviz(const Program& program);

}  // namespace backbeat
