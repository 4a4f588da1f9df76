// The tape as text, one line a node, and as a graph for Graphviz.
#include <algorithm>
#include <iomanip>

#include "engine/composite.hpp"
#include "engine/passes.hpp"
#include "engine/print.hpp"

namespace backbeat {

namespace {

void print(std::ostream& out, const DotDims& d) {
  out << "contract " << d.lhs_contracting << d.rhs_contracting << " batch " << d.lhs_batch << d.rhs_batch;
  if (d.precision != Precision::standard) out << ' ' << name_of(d.precision);
  if (d.accumulation) out << " in " << *d.accumulation;
}
void print(std::ostream& out, const ConvDims& d) {
  out << "strides " << d.strides << " pad " << d.pad_low << d.pad_high << " dilation " << d.lhs_dilation << d.kernel_dilation
      << " groups " << d.feature_groups << ',' << d.batch_groups;
  if (d.precision != Precision::standard) out << ' ' << name_of(d.precision);
}
void print(std::ostream& out, const WindowDims& d) {
  out << name_of(d.kind) << " window " << d.window << " strides " << d.strides << " pad " << d.pad_low << d.pad_high;
  const Dims ones = Dims::filled(d.window.size(), 1);
  if (d.base_dilation != ones || d.window_dilation != ones) out << " dilation " << d.base_dilation << d.window_dilation;
}
void print(std::ostream& out, const GatherDims& d) {
  out << "slices " << d.slice_sizes << " starts along " << d.index_map << " at " << d.offset << " collapsed " << d.collapsed
      << (d.bounds == Bounds::clip ? " clip" : " fill_or_drop");
}
void print(std::ostream& out, const ScatterDims& d) {
  out << (d.add ? "add " : "set ");
  print(out, d.where);
}
void print(std::ostream& out, const CollectiveDims& d) {
  out << d.replicas << " replicas " << name_of(d.kind) << " axis " << d.axis;
  for (const auto& [from, to] : d.pairs) out << ' ' << from << "->" << to;
}

void print_attributes(std::ostream& out, const Attributes& attributes) {
  std::visit(
      [&]<class T>(const T& a) {
        if constexpr (!std::is_same_v<T, std::monostate>) out << ' ';
        if constexpr (std::is_same_v<T, Dims> || std::is_same_v<T, Array>) out << a;
        else if constexpr (std::is_same_v<T, Direction>) out << name_of(a);
        else if constexpr (std::is_same_v<T, ReduceDims>) out << name_of(a.kind) << " over " << a.axes;
        else if constexpr (std::is_same_v<T, SliceDims>) out << a.start << ':' << a.limit << ':' << a.stride;
        else if constexpr (std::is_same_v<T, PadDims>) out << a.low << ' ' << a.high << ' ' << a.interior;
        else if constexpr (std::is_same_v<T, Axis>) out << "axis " << a.index;
        else if constexpr (std::is_same_v<T, CumulativeDims>) out << "axis " << a.axis << (a.reverse ? " reverse" : "");
        else if constexpr (std::is_same_v<T, FloatFormat>) out << 'e' << a.exponent_bits << 'm' << a.mantissa_bits;
        else if constexpr (std::is_same_v<T, InputName>) out << '"' << a.name << '"';
        else if constexpr (std::is_same_v<T, CallDims>) out << a.composite->name << " result " << a.result;
        else if constexpr (requires { print(out, *a); }) print(out, *a);
      },
      attributes);
}

// By Phase: forward, backward, second backward, higher, update, collective, recompute.
constexpr const char* colours[] = {"#dceefb", "#fde3c8", "#f9c9c9", "#e5b8d8", "#e3e3e3", "#d5f0d3", "#fff3b8"};

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

// The last two parts of a path say enough.
std::string_view short_path(const char* file) {
  std::string_view path = file;
  size_t slash = path.rfind('/');
  if (slash != path.npos && slash > 0) slash = path.rfind('/', slash - 1);
  return slash == path.npos ? path : path.substr(slash + 1);
}

}  // namespace

std::string describe(const Tape& tape, NodeId id) {
  const Node& node = tape[id];
  std::ostringstream out;
  out << '%' << std::left << std::setw(5) << id << std::setw(20) << concat(node.dtype, node.shape) << node.op;
  for (NodeId operand : node.operands) out << " %" << operand;
  print_attributes(out, node.attributes);
  out << "   # " << name_of(tape.phase_of(id));
  if (node.serves >= 0) out << " for " << name_of(static_cast<Phase>(std::min<int>(node.serves, 3)));
  if (!tape.scope_of(id).empty()) out << ", " << tape.scope_of(id);
  if (node.line.line > 0) out << ", " << short_path(node.line.file) << ':' << node.line.line;
  return out.str();
}

std::ostream& operator<<(std::ostream& out, const Tape& tape) {
  for (NodeId id = 0; id < tape.size(); ++id) out << describe(tape, id) << '\n';
  return out;
}

namespace {

void print_body(std::ostream& out, const Composite& composite) {
  out << "body of " << composite.name << '\n';
  for (NodeId id = 0; id < composite.tape.size(); ++id) out << "  " << describe(composite.tape, id) << '\n';
  for (size_t i = 0; i < composite.results.size(); ++i) out << "  result " << i << " = %" << composite.results[i] << '\n';
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Program& program) {
  const Tape& tape = program.tape;
  const std::vector<char> live = live_nodes(program);
  std::vector<const Composite*> bodies;
  out << program.name << '\n';
  for (NodeId id = 0; id < tape.size(); ++id) {
    if (!live[static_cast<size_t>(id)]) continue;
    out << describe(tape, id) << '\n';
    const CallDims* call = std::get_if<CallDims>(&tape[id].attributes);
    if (call && std::find(bodies.begin(), bodies.end(), call->composite.get()) == bodies.end()) bodies.push_back(call->composite.get());
  }
  for (const Program::Port& port : program.outputs) out << "output " << port.name << " = %" << port.node << '\n';
  for (const Program::State& s : program.states) {
    out << "state " << s.name << " is %" << s.read;
    if (s.write) out << ", becomes %" << *s.write;
    out << '\n';
  }
  for (const Composite* body : bodies) print_body(out, *body);
  return out;
}

std::string graphviz(const Program& program) {
  const Tape& tape = program.tape;
  const std::vector<char> live = live_nodes(program);
  std::ostringstream out;
  out << "digraph " << quoted(program.name) << " {\n  node [shape=box, style=filled, fontname=\"sans-serif\", fontsize=10];\n";
  std::vector<std::ostringstream> clusters(tape.scopes().size());
  for (NodeId id = 0; id < tape.size(); ++id) {
    if (!live[static_cast<size_t>(id)]) continue;
    const Node& node = tape[id];
    const Phase phase = tape.phase_of(id);
    std::string label = concat(node.op, "\\n", node.dtype, node.shape);
    if (const auto* name = std::get_if<InputName>(&node.attributes)) label = concat(name->name, "\\n", node.dtype, node.shape);
    std::ostringstream& cluster = clusters[static_cast<size_t>(node.scope)];
    cluster << "    n" << id << " [label=\"" << label << "\", fillcolor=\"" << colours[static_cast<size_t>(phase)] << "\", tooltip="
            << quoted(describe(tape, id)) << "];\n";
  }
  for (size_t i = 0; i < clusters.size(); ++i) {
    if (clusters[i].str().empty()) continue;
    if (tape.scopes()[i].empty()) out << clusters[i].str();
    else out << "  subgraph cluster_" << i << " { label=" << quoted(tape.scopes()[i]) << "; color=\"#999999\";\n" << clusters[i].str() << "  }\n";
  }
  for (NodeId id = 0; id < tape.size(); ++id)
    if (live[static_cast<size_t>(id)])
      for (NodeId operand : tape[id].operands) out << "  n" << operand << " -> n" << id << ";\n";
  for (size_t i = 0; i < program.outputs.size(); ++i)
    out << "  o" << i << " [label=" << quoted(program.outputs[i].name) << ", shape=ellipse, fillcolor=white];\n  n"
        << program.outputs[i].node << " -> o" << i << ";\n";
  for (size_t i = 0; i < program.states.size(); ++i)
    if (program.states[i].write)
      out << "  s" << i << " [label=" << quoted(program.states[i].name) << ", shape=cylinder, fillcolor=white];\n  n"
          << *program.states[i].write << " -> s" << i << ";\n";
  out << "}\n";
  return out.str();
}

}  // namespace backbeat
