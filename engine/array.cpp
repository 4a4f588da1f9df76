#include "engine/array.hpp"

#include <cstdlib>
#include <limits>

namespace backbeat {

namespace {
struct Traits {
  DType dtype;
  const char* name;
  int64_t size;
};
constexpr Traits traits[] = {{DType::f64, "f64", 8}, {DType::f32, "f32", 4}, {DType::bf16, "bf16", 2},
                             {DType::f16, "f16", 2}, {DType::i64, "i64", 8}, {DType::i32, "i32", 4},
                             {DType::i16, "i16", 2}, {DType::i8, "i8", 1},   {DType::u32, "u32", 4},
                             {DType::u8, "u8", 1},   {DType::boolean, "bool", 1}};

template <class T>
constexpr bool half = std::is_same_v<T, bf16> || std::is_same_v<T, f16>;

// A float becomes an integer by truncation, saturated; NaN becomes 0.
template <class To>
To truncated(double value) {
  using Limits = std::numeric_limits<To>;
  if (value != value) return To(0);
  if (value <= static_cast<double>(Limits::min())) return Limits::min();
  return value >= static_cast<double>(Limits::max()) ? Limits::max() : static_cast<To>(value);
}

template <class To, class From>
To convert_element(From value) {
  if constexpr (std::is_same_v<To, From>) return value;
  else if constexpr (half<From>) return convert_element<To>(static_cast<float>(value));
  else if constexpr (half<To> && std::is_floating_point_v<From>) return To(value);
  else if constexpr (half<To>) return To(round_to_odd(static_cast<int64_t>(value)));
  else if constexpr (std::is_same_v<To, bool>) return value != From(0);
  else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) return truncated<To>(static_cast<double>(value));
  else return static_cast<To>(value);
}
}  // namespace

int64_t size_of(DType dtype) { return traits[static_cast<size_t>(dtype)].size; }
std::string_view name_of(DType dtype) { return traits[static_cast<size_t>(dtype)].name; }
std::ostream& operator<<(std::ostream& out, DType dtype) { return out << name_of(dtype); }

Array::Array(DType dtype, const Shape& shape) : dtype_(dtype), shape_(shape) {
  int64_t total = size_of(dtype);
  for (int64_t d : shape) {
    if (d < 0) fail("array", "negative dimension in shape ", shape);
    if (__builtin_mul_overflow(total, d, &total)) fail("array", dtype, shape, " has more bytes than an int64 counts");
  }
  // Padded to the alignment, so that vector code may read a whole last register.
  const size_t size = (static_cast<size_t>(bytes()) / alignment + 1) * alignment;
  auto* raw = static_cast<std::byte*>(std::aligned_alloc(alignment, size));
  if (!raw) throw RunError(concat("[array] no memory for ", dtype, shape, " (", bytes(), " bytes)"));
  buffer_ = std::shared_ptr<std::byte>(raw, [](std::byte* p) { std::free(p); });
}

Array Array::zeros(DType dtype, const Shape& shape) {
  Array a(dtype, shape);
  std::memset(a.raw(), 0, static_cast<size_t>(a.bytes()));
  return a;
}

Array Array::full(DType dtype, const Shape& shape, double value) {
  Array a(dtype, shape);
  visit(dtype, [&]<class T>() {
    const T v = convert_element<T>(value);
    T* out = a.data<T>();
    for (int64_t i = 0, n = a.size(); i < n; ++i) out[i] = v;
  });
  return a;
}

void Array::check_index(int64_t i) const {
  if (empty()) fail("array", "index ", i, " of an array without a buffer");
  if (i < 0 || i >= size()) fail("array", "index ", i, " is outside of ", dtype_, shape_);
}

double Array::at(int64_t i) const {
  check_index(i);
  return visit(dtype_, [&]<class T>() -> double { return convert_element<double>(data<T>()[i]); });
}

void Array::set(int64_t i, double value) {
  check_index(i);
  visit(dtype_, [&]<class T>() { data<T>()[i] = convert_element<T>(value); });
}

double Array::item() const {
  if (size() != 1) fail("item", "expected one element, got shape ", shape_);
  return at(0);
}

Array Array::clone() const {
  Array a(dtype_, shape_);
  std::memcpy(a.raw(), raw(), static_cast<size_t>(bytes()));
  return a;
}

Array Array::converted(DType to) const {
  if (to == dtype_) return *this;
  Array out(to, shape_);
  visit(dtype_, [&]<class From>() {
    visit(to, [&]<class To>() {
      const From* in = data<From>();
      To* o = out.data<To>();
      for (int64_t i = 0, n = size(); i < n; ++i) o[i] = convert_element<To>(in[i]);
    });
  });
  return out;
}

Array Array::reshaped(const Shape& shape) const {
  if (element_count(shape) != size()) fail("reshape", "cannot view ", dtype_, shape_, " as ", shape);
  Array a = *this;
  a.shape_ = shape;
  return a;
}

void Array::check_dtype(DType asked) const {
  if (asked != dtype_) fail("array", "holds ", dtype_, shape_, ", asked for ", asked);
}

bool bitwise_equal(const Array& a, const Array& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.bytes())) == 0;
}

std::ostream& operator<<(std::ostream& out, const Array& array) {
  out << array.dtype() << array.shape() << " {";
  const int64_t n = array.empty() ? 0 : array.size(), shown = n > 12 ? 8 : n;
  const auto print = [&](int64_t i) {
    visit(array.dtype(), [&]<class T>() {
      if constexpr (std::is_integral_v<T>) out << +array.data<T>()[i];  // a char is a number here
      else out << array.at(i);
    });
  };
  for (int64_t i = 0; i < shown; ++i) {
    if (i) out << ", ";
    print(i);
  }
  if (shown < n) {
    out << ", ... ";
    print(n - 1);
  }
  return out << '}';
}

}  // namespace backbeat
