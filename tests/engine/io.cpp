// Files in and out: IDX, safetensors, SHA-256, atomic writing; and Philox, whose answers are published.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numbers>

#include "engine/io/file.hpp"
#include "engine/io/idx.hpp"
#include "engine/io/safetensors.hpp"
#include "engine/io/sha256.hpp"
#include "engine/philox.hpp"

using namespace backbeat;
namespace fs = std::filesystem;

namespace {

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "backbeat-io-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Folder() { fs::remove_all(path_); }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(path_)) found.push_back(entry.path().filename().string());
    std::sort(found.begin(), found.end());
    return found;
  }

 private:
  fs::path path_;
};

using Bytes = std::vector<uint8_t>;

std::string written(const std::string& path, const Bytes& bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  out.close();
  REQUIRE(out.good());
  return path;
}

Bytes joined(const Bytes& a, const Bytes& b) {
  Bytes all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}
Bytes first(const Bytes& bytes, size_t count) {
  return Bytes(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(count));
}

Bytes gzipped(const Bytes& bytes) {
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 9, Z_DEFAULT_STRATEGY) == Z_OK);
  Bytes out(bytes.size() + 1000);
  stream.next_in = const_cast<Bytef*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = out.data();
  stream.avail_out = static_cast<uInt>(out.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// The text of the Error that `body` throws; it must be one line.
template <class Body>
std::string error_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    const std::string text = error.what();
    CHECK(text.find('\n') == std::string::npos);
    return text;
  }
  return "no error";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

const Bytes small_idx = {0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 253, 254, 255};

}  // namespace

TEST_CASE("philox4x32: the known answers of Random123") {
  struct Row {
    std::array<uint32_t, 4> counter;
    std::array<uint32_t, 2> key;
    std::array<uint32_t, 4> answer;
  };
  constexpr uint32_t ones = 0xffffffff;
  constexpr Row rows[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{ones, ones, ones, ones}, {ones, ones}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (const Row& row : rows) CHECK(philox4x32(row.counter, row.key) == row.answer);
  static_assert(philox4x32({0, 0, 0, 0}, {0, 0})[0] == 0x6627e8d5, "usable in constants");
}

TEST_CASE("idx: each type, plain and gzipped") {
  const Folder folder;
  struct Row {
    Bytes bytes;
    Array expected;
  };
  const Row rows[] = {
      {small_idx, Array::from<int32_t>({2, 3}, {1, 2, 3, 253, 254, 255})},
      {{0, 0, 0x09, 1, 0, 0, 0, 2, 0x7f, 0x80}, Array::from<int32_t>({2}, {127, -128})},
      {{0, 0, 0x0B, 1, 0, 0, 0, 2, 0x01, 0x02, 0xff, 0xfe}, Array::from<int32_t>({2}, {258, -2})},
      {{0, 0, 0x0C, 1, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xfd}, Array::from<int32_t>({1}, {-3})},
      {{0, 0, 0x0D, 1, 0, 0, 0, 1, 0x3f, 0xc0, 0, 0}, Array::from<float>({1}, {1.5f})},
      {{0, 0, 0x0E, 1, 0, 0, 0, 1, 0xbf, 0xf8, 0, 0, 0, 0, 0, 0}, Array::from<double>({1}, {-1.5})},
      {{0, 0, 8, 2, 0, 0, 0, 0, 0, 0, 0, 3}, Array::from<int32_t>({0, 3}, {})},
      {{0, 0, 8, 8, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 9},
       Array::from<int32_t>({1, 1, 1, 1, 1, 1, 1, 1}, {9})},
  };
  for (const Row& row : rows) {
    CAPTURE(row.expected);
    CHECK(bitwise_equal(read_idx(written(folder / "plain", row.bytes)), row.expected));
    CHECK(bitwise_equal(read_idx(written(folder / "packed.gz", gzipped(row.bytes))), row.expected));
  }
  const Bytes two_members =
      joined(gzipped(first(small_idx, 5)), gzipped(Bytes(small_idx.begin() + 5, small_idx.end())));
  CHECK(bitwise_equal(read_idx(written(folder / "members", two_members)), rows[0].expected));
  const IdxFile raw = read_idx_file(folder / "members");
  CHECK(raw.values == Bytes{1, 2, 3, 253, 254, 255});
}

TEST_CASE("idx: cut off at any byte, or a byte too long, is an error") {
  const Folder folder;
  for (const Bytes& whole : {small_idx, gzipped(small_idx)}) {
    for (size_t count = 0; count < whole.size(); ++count) {
      CAPTURE(count);
      const std::string path = written(folder / "cut", first(whole, count));
      const std::string text = error_of([&] { read_idx(path); });
      CHECK(contains(text, "[idx] " + path + ": expected "));
      CHECK(contains(text, ", got "));
    }
    const std::string path = written(folder / "long", joined(whole, {0}));
    CHECK(contains(error_of([&] { read_idx(path); }), "[idx] " + path + ": expected "));
  }
  const std::string path = written(folder / "long.gz", gzipped(joined(small_idx, {0})));
  CHECK(contains(error_of([&] { read_idx(path); }), "expected 6 bytes of values for shape [2,3], got more"));
}

TEST_CASE("idx: wrong headers are refused before anything is allocated") {
  const Folder folder;
  const Bytes large = {255, 255, 255, 255};
  struct Row {
    Bytes bytes;
    const char* expected;
  };
  const Row rows[] = {
      {{0, 1, 8, 1, 0, 0, 0, 0}, "expected a magic number 00 00 TYPE RANK"},
      {{0, 0, 7, 1, 0, 0, 0, 0}, "got 0x701"},
      {{0, 0, 8, 0, 0}, "expected 1 to 8 dimensions, got 0"},
      {{0, 0, 8, 9, 0}, "expected 1 to 8 dimensions, got 9"},
      {joined({0, 0, 8, 1}, large), "expected 4294967295 bytes of values for shape [4294967295], got "},
      {joined(joined({0, 0, 8, 3}, large), joined(large, large)), "expected sizes that fit in memory"},
      {{'P', 'K', 3, 4}, "got 0x504b0304"},
  };
  for (const Row& row : rows) {
    const std::string plain = error_of([&] { read_idx(written(folder / "bad", row.bytes)); });
    CAPTURE(plain);
    CHECK(contains(plain, row.expected));
    CHECK(contains(error_of([&] { read_idx(written(folder / "bad.gz", gzipped(row.bytes))); }), row.expected));
  }
  Bytes damaged = gzipped(small_idx);
  damaged[damaged.size() - 6] ^= 1;  // the checksum
  CHECK(contains(error_of([&] { read_idx(written(folder / "sum.gz", damaged)); }), "damaged"));
  CHECK(contains(error_of([&] { read_idx(folder / "none"); }), "cannot read: No such file"));
  CHECK(contains(error_of([&] { read_idx(folder / "."); }), "expected a file, got a directory"));
  CHECK(contains(error_of([&] { read_idx("/dev/zero"); }), "expected a file, got a pipe or device"));
}

namespace {

NamedArrays one_of_each() {
  return {{"flags", Array::from<bool>({3}, {true, false, true})},
          {"critic/dense_1/weight",
           Array::from<float>({2, 2}, {1.0f, -0.0f, 1e-40f, std::numeric_limits<float>::quiet_NaN()})},
          {"double", Array::from<double>({1}, {std::numbers::pi})},
          {"half", Array::from<bf16>({3}, {bf16(1.0f), bf16(-2.5f), bf16(3e38f)})},
          {"step", Array::scalar<int64_t>(int64_t{1} << 60)},
          {"labels", Array::from<int32_t>({2}, {-1, 7})},
          {"key", Array::from<uint32_t>({2}, {0, UINT32_MAX})},
          {"nothing", Array(DType::f32, {0, 4})}};
}

void check_same(const NamedArrays& a, const NamedArrays& b) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    CHECK(a[i].first == b[i].first);
    CHECK(bitwise_equal(a[i].second, b[i].second));
  }
}

Bytes safetensors(const std::string& header, const Bytes& data = {}) {
  Bytes bytes(8, 0);
  const uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, 8);
  return joined(joined(bytes, Bytes(header.begin(), header.end())), data);
}

}  // namespace

TEST_CASE("safetensors: every dtype, the order and the metadata come back") {
  const Folder folder;
  const std::map<std::string, std::string> metadata = {{"model", "wgan-gp"}, {"note", "quote \" and\nline, \u00e9"}};
  write_safetensors(folder / "a", one_of_each(), metadata);
  const SafetensorsFile file = read_safetensors(folder / "a");
  check_same(file.arrays, one_of_each());
  CHECK(file.metadata == metadata);

  // Every array is aligned to its elements within the file.
  const Bytes bytes = read_file("test", folder / "a");
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  CHECK(length % 8 == 0);
  CHECK(bytes.size() == 8 + length + 8 + 8 + 16 + 8 + 8 + 6 + 3);
  double first_value = 0;
  std::memcpy(&first_value, bytes.data() + 8 + length, 8);
  CHECK(first_value == std::numbers::pi);

  write_safetensors(folder / "b", {});
  CHECK(read_safetensors(folder / "b").arrays.empty());
}

TEST_CASE("safetensors: a file laid out by hand") {
  const Folder folder;
  const Bytes bytes =
      safetensors(R"({"__metadata__":{"format":"pt"},"b":{"dtype":"I32","shape":[1],"data_offsets":[8,12]},)"
                  R"("a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]}}  )",
                  {0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0, 5, 0, 0, 0});
  const SafetensorsFile file = read_safetensors(written(folder / "hand", bytes));
  check_same(file.arrays, {{"b", Array::from<int32_t>({1}, {5})}, {"a", Array::from<float>({2, 1}, {1, -2})}});
  CHECK(file.metadata.at("format") == "pt");
}

TEST_CASE("safetensors: cut off at any byte is an error, and a changed byte never crashes") {
  const Folder folder;
  write_safetensors(folder / "whole", one_of_each(), {{"k", "v"}});
  const Bytes whole = read_file("test", folder / "whole");
  const auto refused = [](const std::string& path) {
    const std::string text = error_of([&] { read_safetensors(path); });
    return contains(text, "[safetensors] " + path + ": ") && contains(text, "expected ") && contains(text, ", got ");
  };
  for (size_t count = 0; count < whole.size(); ++count) {
    CAPTURE(count);
    const std::string path = written(folder / "cut", first(whole, count));
    CHECK(refused(path));
  }
  CHECK(contains(error_of([&] { read_safetensors(written(folder / "long", joined(whole, {0}))); }), "expected "));
  for (size_t position = 0; position < whole.size(); ++position)
    for (int flip : {0x01, 0x04, 0x20, 0x80}) {
      Bytes changed = whole;
      changed[position] = static_cast<uint8_t>(changed[position] ^ flip);
      const std::string path = written(folder / "changed", changed);
      CHECK((refused(path) || error_of([&] { read_safetensors(path); }) == "no error"));
    }
}

TEST_CASE("safetensors: what a header may not say") {
  const Folder folder;
  struct Row {
    const char* header;
    const char* expected;
  };
  const Row rows[] = {
      {"[]", "expected a JSON object as header, got array"},
      {"{", "expected a JSON header, got a syntax error"},
      {"\xff", "expected a JSON header, got a syntax error"},
      {R"({"a":1})", "\"a\": expected an object, got number"},
      {R"({"a":{"shape":[1],"data_offsets":[0,4]}})", "expected a field 'dtype', got none"},
      {R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", "expected a field 'shape', got none"},
      {R"({"a":{"dtype":"F32","shape":[1]}})", "expected a field 'data_offsets', got none"},
      {R"({"a":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}})",
       "expected dtype F64, F32, BF16, I64, I32, U32 or BOOL, got \"F16\""},
      {R"({"a":{"dtype":7,"shape":[1],"data_offsets":[0,4]}})", "got number"},
      {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "expected sizes that fit in memory"},
      {R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", "expected sizes that fit in memory"},
      {R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,4]}})",
       "expected sizes that fit in memory"},
      {R"({"a":{"dtype":"F32","shape":[99999999999999999999],"data_offsets":[0,4]}})",
       "expected sizes that fit in memory"},
      {R"({"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]}})",
       "expected a shape of at most 8 sizes, got 9"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "expected 8 bytes for f32[2], got 4"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "within the 4 bytes after the header"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", "expected data offsets [begin,end]"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", "expected data offsets [begin,end]"},
      {R"({"a":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"BOOL","shape":[2],"data_offsets":[2,4]}})",
       "overlapping"},
      {R"({"a":{"dtype":"BOOL","shape":[3],"data_offsets":[1,4]}})", "expected to begin at byte 0, got 1 (a gap)"},
      {R"({"a":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}})", "expected 3 bytes after the header, got 4"},
      {R"({"a":{"dtype":"BOOL","shape":[4],"data_offsets":[0,4]}})", "expected bools of 0 and 1, got 2"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
       "expected each name once, got \"a\" twice"},
      {R"({"a":{"dtype":"F32","dtype":"I32","shape":[1],"data_offsets":[0,4]}})",
       "expected each name once, got \"dtype\" twice"},
      {R"({"a":{"dtype":[[[[1]]]],"shape":[1],"data_offsets":[0,4]}})", "at most three levels"},
      {R"({"__metadata__":{"a":1}})", "expected metadata \"a\" to be a string"},
      {R"({"__metadata__":3})", "expected __metadata__ to be an object"},
  };
  for (const Row& row : rows) {
    const std::string path = written(folder / "bad", safetensors(row.header, {2, 1, 1, 1}));
    const std::string text = error_of([&] { read_safetensors(path); });
    CAPTURE(text);
    CHECK(contains(text, "[safetensors] " + path + ": "));
    CHECK(contains(text, row.expected));
  }
  Bytes long_header = safetensors("{}");
  long_header[7] = 0x7f;
  CHECK(contains(error_of([&] { read_safetensors(written(folder / "long", long_header)); }),
                 "expected a header of at most 2 bytes"));
}

TEST_CASE("safetensors: what cannot be written") {
  const Folder folder;
  const Array one = Array::scalar(1.0f);
  const auto text_for = [&](const NamedArrays& arrays) {
    return error_of([&] { write_safetensors(folder / "x", arrays); });
  };
  CHECK(contains(text_for({{"a", one}, {"a", one}}), "expected each name once"));
  CHECK(contains(text_for({{"__metadata__", one}}), "none called __metadata__"));
  CHECK(contains(text_for({{"a", Array()}}), "\"a\": expected an array, got an empty one"));
  CHECK(contains(text_for({{"\xff", one}}), "UTF-8"));
  CHECK(contains(error_of([&] { write_safetensors(folder / "no/x", {{"a", one}}); }), "cannot write: No such file"));
  CHECK(contains(error_of([&] { write_safetensors(folder / ".", {{"a", one}}); }), "cannot write: Is a directory"));
  CHECK(folder.names().empty());
}

TEST_CASE("atomic writing: a write that fails leaves the old file and nothing else") {
  const Folder folder;
  const NamedArrays old = {{"a", Array::scalar(1.0f)}}, large = {{"a", Array::zeros(DType::f32, {100'000})}};
  write_safetensors(folder / "x", old);

  // A limit on the size of a file stands in for a full disk.
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto old_handler = ::signal(SIGXFSZ, SIG_IGN);
  rlimit limit = before;
  limit.rlim_cur = 4096;
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
  std::string text;
  try {
    write_safetensors(folder / "x", large);
  } catch (const RunError& error) {
    text = error.what();
  }
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  ::signal(SIGXFSZ, old_handler);
  CHECK(text == "[safetensors] " + (folder / "x") + ": cannot write: File too large");
  check_same(read_safetensors(folder / "x").arrays, old);
  CHECK(folder.names() == std::vector<std::string>{"x"});

  CHECK_THROWS_WITH_AS(write_safetensors("/dev/full", old),
                       "[safetensors] /dev/full: cannot write: No space left on device", RunError);
  CHECK(fs::is_character_file("/dev/full"));
}

TEST_CASE("atomic writing: through a symbolic link, over an old file, text as well") {
  const Folder folder;
  fs::create_directory(folder / "runs");
  write_file_atomically("test", folder / "runs/old", "first, and longer");
  fs::create_symlink("runs/old", folder / "link");
  write_file_atomically("test", folder / "link", "second");
  CHECK(fs::is_symlink(folder / "link"));
  const Bytes bytes = read_file("test", folder / "runs/old");
  CHECK(std::string(bytes.begin(), bytes.end()) == "second");
}

TEST_CASE("atomic writing: killed at any moment, the file is whole") {
  const Folder folder;
  constexpr int64_t size = 50'000;
  write_safetensors(folder / "x", {{"a", Array::full(DType::f32, {size}, -1)}});
  for (int round = 0; round < 8; ++round) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      for (int k = 0;; ++k) write_safetensors(folder / "x", {{"a", Array::full(DType::f32, {size}, k)}});
    }
    ::usleep(static_cast<useconds_t>(3000 + 2711 * round));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const SafetensorsFile file = read_safetensors(folder / "x");
    REQUIRE(file.arrays.size() == 1);
    const Array& a = file.arrays[0].second;
    CHECK(bitwise_equal(a, Array::full(DType::f32, {size}, a.at(0))));
  }
}

TEST_CASE("sha256: published answers, and a fingerprint that does not depend on the order") {
  CHECK(sha256_hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");

  const Array a = Array::from<float>({2}, {1, 2}), b = Array::from<int32_t>({1}, {7});
  const std::string both = sha256_of({{"a", a}, {"b", b}});
  CHECK(both == sha256_of({{"b", b}, {"a", a}}));
  CHECK(both == sha256_hex(std::string("a f32[2] 8\n\0\0\x80\x3f\0\0\0\x40"
                                       "b i32[1] 4\n\7\0\0\0",
                                       11 + 8 + 11 + 4)));
  CHECK(both != sha256_of({{"a", a.reshaped({2, 1})}, {"b", b}}));
  CHECK(both != sha256_of({{"a", b}, {"b", a}}));
}
