#include "engine/io/npy.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <string_view>

#include "engine/io/declared.hpp"
#include "engine/io/file.hpp"

namespace backbeat {

namespace {

static_assert(std::endian::native == std::endian::little, "what is not marked big-endian is copied as it is");

constexpr std::string_view magic = "\x93NUMPY";
constexpr int64_t largest_header = 1 << 16;  // as long as version 1.0 can say; ours is below 256

struct FileType {
  std::string_view code;  // kind and bytes, as in '<f4'
  DType dtype;
};
constexpr FileType file_types[] = {
    {"f8", DType::f64}, {"f4", DType::f32}, {"f2", DType::f16}, {"i8", DType::i64},
    {"i4", DType::i32}, {"i2", DType::i16}, {"i1", DType::i8},  {"u4", DType::u32},
    {"u2", DType::i32}, {"u1", DType::u8},  {"b1", DType::boolean}};

// What a dtype that has no counterpart here is, by the letter of its kind.
std::string_view refused_kind(char kind) {
  switch (kind) {
    case 'c': return "complex numbers";
    case 'f': return "floats of this width";
    case 'i':
    case 'u': return "integers of this width";
    case 'S':
    case 'a':
    case 'U':
    case 'T': return "strings";
    case 'O': return "Python objects";
    case 'M':
    case 'm': return "dates and times";
    case 'V': return "raw bytes";
    default: return "elements of this type";
  }
}

// The one line of Python in the header: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
class HeaderReader {
 public:
  HeaderReader(const char* where, const std::string& name, std::string_view text)
      : where_(where), name_(name), text_(text) {}

  NpyHeader read() {
    std::optional<std::string> descr;
    std::optional<bool> fortran_order;
    std::optional<Shape> shape;
    expect('{');
    while (!accept('}')) {
      const std::string key = string();
      expect(':');
      if (key == "descr" && !descr) {
        if (peek() == '[') refuse("records");
        descr = string();
      } else if (key == "fortran_order" && !fortran_order) {
        fortran_order = word("True");
        if (!*fortran_order && !word("False")) fail_here();
      } else if (key == "shape" && !shape) {
        shape = sizes();
      } else {
        fail_here();
      }
      if (!accept(',') && peek() != '}') fail_here();
    }
    if (peek() != '\0' || !descr || !fortran_order || !shape) fail_here();

    NpyHeader h;
    set_type(h, *descr);
    h.fortran_order = *fortran_order;
    h.shape = *shape;
    h.value_bytes = declared_bytes(h.width, h.shape);
    if (h.value_bytes < 0) fail(where_, name_, ": expected sizes that fit in memory, got ", h.shape);
    return h;
  }

 private:
  [[noreturn]] void fail_here() {
    fail(where_, name_, ": expected a header {'descr': ..., 'fortran_order': ..., 'shape': ...}, got another at its byte ",
         position_);
  }
  [[noreturn]] void refuse(std::string_view what) {
    fail(where_, name_, ": ", what, " are not supported, expected numbers or bools");
  }
  char peek() {  // the next character that is not a space, or 0 at the end
    while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\n')) ++position_;
    return position_ < text_.size() ? text_[position_] : '\0';
  }
  bool accept(char wanted) {
    if (peek() != wanted) return false;
    ++position_;
    return true;
  }
  void expect(char wanted) {
    if (!accept(wanted)) fail_here();
  }
  bool word(std::string_view wanted) {
    peek();
    if (!text_.substr(position_).starts_with(wanted)) return false;
    position_ += wanted.size();
    return true;
  }
  std::string string() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') fail_here();
    const size_t end = text_.find(quote, ++position_);
    if (end == std::string_view::npos) fail_here();
    const std::string value(text_.substr(position_, end - position_));
    position_ = end + 1;
    return value;
  }
  int64_t whole_number() {
    if (peek() < '0' || peek() > '9') fail_here();
    int64_t value = 0;
    for (; position_ < text_.size() && text_[position_] >= '0' && text_[position_] <= '9'; ++position_)
      if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, text_[position_] - '0', &value))
        fail(where_, name_, ": expected sizes that fit in memory, got one beyond 2^63");
    if (position_ < text_.size() && text_[position_] == 'L') ++position_;  // Python 2 wrote its long integers so
    return value;
  }
  Shape sizes() {
    Shape shape;
    expect('(');
    while (!accept(')')) {
      if (shape.size() == Shape::max_rank)
        fail(where_, name_, ": expected at most ", Shape::max_rank, " dimensions, got more");
      shape.push_back(whole_number());
      if (!accept(',') && (peek() != ')' || shape.size() == 1)) fail_here();  // (3) is a number, (3,) a shape
    }
    return shape;
  }
  void set_type(NpyHeader& h, const std::string& descr) {
    const char order = descr.empty() ? '\0' : descr[0];
    const bool ordered = order != '\0' && std::string_view("<>|=").find(order) != std::string_view::npos;
    const std::string_view code = std::string_view(descr).substr(ordered ? 1 : 0);
    const FileType* type =
        std::find_if(std::begin(file_types), std::end(file_types), [&](auto& t) { return t.code == code; });
    if (type == std::end(file_types)) refuse(concat(refused_kind(code.empty() ? '\0' : code[0]), " (", quoted(descr), ")"));
    h.dtype = type->dtype;
    h.width = code[1] - '0';
    h.big_endian = order == '>' && h.width > 1;
  }

  const char* where_;
  const std::string& name_;
  std::string_view text_;
  size_t position_ = 0;
};

template <class Word>
Word reversed(Word word) {
  if constexpr (sizeof word == 2) return static_cast<Word>(__builtin_bswap16(word));
  if constexpr (sizeof word == 4) return __builtin_bswap32(word);
  if constexpr (sizeof word == 8) return __builtin_bswap64(word);
  return word;
}

// Words of the file, one after another, to their places in row-major order.
template <class Word, class To = Word>
void place(const NpyHeader& h, const uint8_t* from, void* raw) {
  To* to = static_cast<To*>(raw);
  const Dims strides = row_major_strides(h.shape);
  Dims index = Dims::filled(h.shape.size(), 0);
  int64_t offset = 0;
  for (int64_t i = 0, n = element_count(h.shape); i < n; ++i, from += sizeof(Word)) {
    Word word;
    std::memcpy(&word, from, sizeof word);
    to[offset] = h.big_endian ? reversed(word) : word;
    if (!h.fortran_order) {
      ++offset;
      continue;
    }
    for (int64_t axis = 0; axis < h.shape.size(); ++axis) {  // the first axis runs fastest
      offset += strides[axis];
      if (++index[axis] < h.shape[axis]) break;
      offset -= strides[axis] * h.shape[axis];
      index[axis] = 0;
    }
  }
}

}  // namespace

int64_t npy_header_bytes(const char* where, const std::string& name, std::span<const uint8_t> bytes) {
  const std::string_view start(reinterpret_cast<const char*>(bytes.data()), std::min(bytes.size(), magic.size()));
  if (start != magic) fail(where, name, ": expected the magic number \\x93NUMPY of a .npy file, got another");
  const auto missing = [&] { fail(where, name, ": expected a header, got a file of ", bytes.size(), " bytes"); };
  if (bytes.size() < 10) missing();
  const int major = bytes[6], minor = bytes[7];
  if (major < 1 || major > 3 || minor != 0)
    fail(where, name, ": expected version 1.0, 2.0 or 3.0 of .npy, got ", major, '.', minor);
  int64_t begin = 10, length = bytes[8] + 256 * bytes[9];
  if (major > 1) {
    if (bytes.size() < 12) missing();
    begin = 12;
    length += (int64_t{bytes[10]} << 16) + (int64_t{bytes[11]} << 24);
  }
  if (length > largest_header)
    fail(where, name, ": expected a header of at most ", largest_header, " bytes, got a length of ", length);
  return begin + length;
}

NpyHeader parse_npy_header(const char* where, const std::string& name, std::span<const uint8_t> bytes) {
  const int64_t end = npy_header_bytes(where, name, bytes);
  if (static_cast<int64_t>(bytes.size()) < end)
    fail(where, name, ": expected a header of ", end, " bytes, got ", bytes.size(), " bytes");
  const int64_t begin = bytes[6] == 1 ? 10 : 12;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + begin, static_cast<size_t>(end - begin));
  NpyHeader h = HeaderReader(where, name, text).read();
  h.header_bytes = end;
  return h;
}

Array parse_npy(const char* where, const std::string& name, std::span<const uint8_t> bytes) {
  const NpyHeader h = parse_npy_header(where, name, bytes);
  const int64_t got = static_cast<int64_t>(bytes.size()) - h.header_bytes;
  if (got != h.value_bytes)
    fail(where, name, ": expected ", h.value_bytes, " bytes of values for shape ", h.shape, ", got ", got);
  Array array(h.dtype, h.shape);
  const uint8_t* from = bytes.data() + h.header_bytes;
  if (size_of(h.dtype) != h.width) place<uint16_t, int32_t>(h, from, array.raw());
  else if (!h.big_endian && !h.fortran_order) std::copy_n(from, got, static_cast<uint8_t*>(array.raw()));
  else if (h.width == 1) place<uint8_t>(h, from, array.raw());
  else if (h.width == 2) place<uint16_t>(h, from, array.raw());
  else if (h.width == 4) place<uint32_t>(h, from, array.raw());
  else place<uint64_t>(h, from, array.raw());
  check_booleans(where, name, array);
  return array;
}

std::string npy_header(const char* where, const std::string& name, const Array& array) {
  if (array.empty()) fail(where, name, ": expected an array, got an empty one");
  const DType dtype = array.dtype();
  const FileType* type = std::find_if(std::begin(file_types), std::end(file_types), [&](auto& t) {
    return t.dtype == dtype && t.code != "u2";
  });
  if (type == std::end(file_types)) fail(where, name, ": NumPy has no ", dtype, "; convert it to f32");
  std::string text =
      concat("{'descr': '", size_of(dtype) == 1 ? '|' : '<', type->code, "', 'fortran_order': False, 'shape': (");
  for (int64_t axis = 0; axis < array.shape().size(); ++axis)
    text += concat(axis > 0 ? " " : "", array.shape()[axis], axis == 0 || axis + 1 < array.shape().size() ? "," : "");
  text += "), }";
  constexpr size_t begin = 10, alignment = 64;  // the values begin at a multiple of 64
  text.append(alignment - 1 - (begin + text.size()) % alignment, ' ');
  text += '\n';
  return concat(magic, '\1', '\0', static_cast<char>(text.size() & 255), static_cast<char>(text.size() >> 8), text);
}

Array read_npy(const std::string& path) { return parse_npy("npy", path, read_file("npy", path)); }

void write_npy(const std::string& path, const Array& array) {
  const std::string header = npy_header("npy", path, array);
  write_file_atomically("npy", path,
                        {std::as_bytes(std::span(header)),
                         {static_cast<const std::byte*>(array.raw()), static_cast<size_t>(array.bytes())}});
}

}  // namespace backbeat
