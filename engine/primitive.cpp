// Names and kinds of the primitives: one row each.
#include "engine/primitive.hpp"

namespace backbeat {

namespace {
struct OpRow {
  Op op;
  const char* name;
  bool elementwise;
  bool differentiable;
};
constexpr OpRow rows[] = {
    {Op::input, "input", false, false},
    {Op::constant, "constant", false, false},
    {Op::iota, "iota", false, false},
    {Op::replica_id, "replica_id", false, false},
    {Op::negate, "negate", true, true},
    {Op::abs, "abs", true, true},
    {Op::sign, "sign", true, false},
    {Op::exp, "exp", true, true},
    {Op::expm1, "expm1", true, true},
    {Op::log, "log", true, true},
    {Op::log1p, "log1p", true, true},
    {Op::sqrt, "sqrt", true, true},
    {Op::rsqrt, "rsqrt", true, true},
    {Op::tanh, "tanh", true, true},
    {Op::logistic, "logistic", true, true},
    {Op::erf, "erf", true, true},
    {Op::sine, "sine", true, true},
    {Op::cosine, "cosine", true, true},
    {Op::floor, "floor", true, false},
    {Op::ceil, "ceil", true, false},
    {Op::round_nearest_even, "round_nearest_even", true, false},
    {Op::is_finite, "is_finite", true, false},
    {Op::logical_not, "logical_not", true, false},
    {Op::convert, "convert", true, true},
    {Op::reduce_precision, "reduce_precision", true, true},
    {Op::stop_gradient, "stop_gradient", true, false},
    {Op::add, "add", true, true},
    {Op::subtract, "subtract", true, true},
    {Op::multiply, "multiply", true, true},
    {Op::divide, "divide", true, true},
    {Op::remainder, "remainder", true, true},
    {Op::maximum, "maximum", true, true},
    {Op::minimum, "minimum", true, true},
    {Op::power, "power", true, true},
    {Op::bitwise_and, "bitwise_and", true, false},
    {Op::bitwise_or, "bitwise_or", true, false},
    {Op::bitwise_xor, "bitwise_xor", true, false},
    {Op::shift_left, "shift_left", true, false},
    {Op::shift_right_logical, "shift_right_logical", true, false},
    {Op::shift_right_arithmetic, "shift_right_arithmetic", true, false},
    {Op::compare, "compare", true, false},
    {Op::select, "select", true, true},
    {Op::clamp, "clamp", true, true},
    {Op::reshape, "reshape", false, true},
    {Op::transpose, "transpose", false, true},
    {Op::broadcast_in_dim, "broadcast_in_dim", false, true},
    {Op::slice, "slice", false, true},
    {Op::pad, "pad", false, true},
    {Op::concatenate, "concatenate", false, true},
    {Op::reverse, "reverse", false, true},
    {Op::dynamic_slice, "dynamic_slice", false, true},
    {Op::dynamic_update_slice, "dynamic_update_slice", false, true},
    {Op::gather, "gather", false, true},
    {Op::scatter, "scatter", false, true},
    {Op::sort, "sort", false, true},
    {Op::reduce, "reduce", false, true},
    {Op::argmax, "argmax", false, false},
    {Op::cumsum, "cumsum", false, true},
    {Op::reduce_window, "reduce_window", false, true},
    {Op::select_and_scatter, "select_and_scatter", false, true},
    {Op::select_and_gather, "select_and_gather", false, true},
    {Op::dot_general, "dot_general", false, true},
    {Op::convolution, "convolution", false, true},
    {Op::rng_bit_generator, "rng_bit_generator", false, false},
    {Op::all_reduce, "all_reduce", false, true},
    {Op::all_gather, "all_gather", false, true},
    {Op::reduce_scatter, "reduce_scatter", false, true},
    {Op::all_to_all, "all_to_all", false, true},
    {Op::collective_permute, "collective_permute", false, true},
    {Op::optimization_barrier, "optimization_barrier", false, true},
    {Op::call, "call", false, true},
};
static_assert(std::size(rows) == static_cast<size_t>(Op::count_), "one row an operation, in the order of the enum");

const OpRow& row(Op op) { return rows[static_cast<size_t>(op)]; }
constexpr const char* direction_names[] = {"eq", "ne", "lt", "le", "gt", "ge"};
constexpr const char* reduction_names[] = {"sum", "max", "min", "product"};
constexpr const char* precision_names[] = {"default", "high", "highest"};
}  // namespace

std::string_view name_of(Op op) { return row(op).name; }
std::string_view name_of(Direction d) { return direction_names[static_cast<size_t>(d)]; }
std::string_view name_of(Reduction r) { return reduction_names[static_cast<size_t>(r)]; }
std::string_view name_of(Precision p) { return precision_names[static_cast<size_t>(p)]; }
std::ostream& operator<<(std::ostream& out, Op op) { return out << name_of(op); }
bool is_elementwise(Op op) { return row(op).elementwise; }
bool is_differentiable(Op op) { return row(op).differentiable; }
bool is_collective(Op op) { return op >= Op::all_reduce && op <= Op::collective_permute; }

int passes_of(Precision p) { return p == Precision::standard ? 1 : p == Precision::high ? 3 : 6; }

Precision precision_from_name(std::string_view name) {
  for (size_t i = 0; i < std::size(precision_names); ++i)
    if (name == precision_names[i]) return static_cast<Precision>(i);
  fail("precision", "unknown precision '", name, "', expected default, high or highest");
}

bool same_attributes(const Attributes& a, const Attributes& b) {
  if (a.index() != b.index()) return false;
  return std::visit(
      [&]<class T>(const T& x) {
        const T& y = std::get<T>(b);
        if constexpr (std::is_same_v<T, Array>) return bitwise_equal(x, y);
        else if constexpr (requires { *x == *y; }) return *x == *y;
        else return x == y;
      },
      a);
}

}  // namespace backbeat
