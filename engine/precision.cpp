#include "engine/precision.hpp"

#include <charconv>

#include "engine/composite.hpp"

namespace backbeat {

PrecisionRule precision_rule_from_text(const std::string& text) {
  const auto wrong = [&]() { fail("precision", '\'', text, "': expected SCOPE=NAME, order:K=NAME or SCOPE,order:K=NAME"); };
  const size_t equals = text.rfind('=');
  if (equals == text.npos || equals == 0) wrong();
  PrecisionRule rule;
  rule.precision = precision_from_name(text.substr(equals + 1));
  rule.scope = text.substr(0, equals);
  constexpr std::string_view word = "order:";
  const size_t at = rule.scope.rfind(word);
  if (at == rule.scope.npos || (at > 0 && rule.scope[at - 1] != ',')) return rule;
  const char *first = rule.scope.data() + at + word.size(), *last = rule.scope.data() + rule.scope.size();
  if (const auto [end, error] = std::from_chars(first, last, rule.order); error != std::errc() || end != last || rule.order < 0) wrong();
  rule.scope.resize(at > 0 ? at - 1 : 0);
  return rule;
}

int64_t override_precision(Program& program, std::span<const PrecisionRule> rules) {
  program = inline_calls(program);  // the body of a call is shared by others
  Tape& tape = program.tape;
  int64_t changed = 0;
  const auto named = [&](const PrecisionRule& rule, NodeId id) {
    const std::string& scope = tape.scope_of(id);
    const bool inside = rule.scope.empty() || scope == rule.scope || scope.rfind(rule.scope + '/', 0) == 0;
    return inside && (rule.order < 0 || rule.order == tape[id].order);
  };
  const auto set = [&]<class T>(const std::shared_ptr<const T>& dims, Precision precision) -> Attributes {
    T other = *dims;
    other.precision = precision;
    return std::make_shared<const T>(other);
  };
  for (NodeId id = 0; id < tape.size(); ++id) {
    Node& node = tape.node(id);
    if (node.op != Op::dot_general && node.op != Op::convolution) continue;
    const PrecisionRule* last = nullptr;
    for (const PrecisionRule& rule : rules)
      if (named(rule, id)) last = &rule;
    if (!last) continue;
    ++changed;
    if (node.op == Op::dot_general) node.attributes = set(std::get<std::shared_ptr<const DotDims>>(node.attributes), last->precision);
    else node.attributes = set(std::get<std::shared_ptr<const ConvDims>>(node.attributes), last->precision);
  }
  return changed;
}

}  // namespace backbeat
