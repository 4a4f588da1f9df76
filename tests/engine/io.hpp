// What the tests of files share: a folder of their own, bytes.
#pragma once
#include <doctest/doctest.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "engine/io/named_arrays.hpp"
#include "tests/error_of.hpp"

namespace backbeat {

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "backbeat-io-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) found.push_back(entry.path().filename().string());
    std::sort(found.begin(), found.end());
    return found;
  }

 private:
  std::filesystem::path path_;
};

using Bytes = std::vector<uint8_t>;

inline std::string written(const std::string& path, const Bytes& bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  out.close();
  REQUIRE(out.good());
  return path;
}

inline Bytes joined(const Bytes& a, const Bytes& b) {
  Bytes all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}
inline Bytes first(const Bytes& bytes, size_t count) {
  return Bytes(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(count));
}

inline Bytes gzipped(const Bytes& bytes) {
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

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// A small file made by the format's own library; tests/data/io/make.py says what is in it.
inline std::string made(const std::string& name) {
  const char* data = std::getenv("BACKBEAT_TEST_DATA");
  REQUIRE_MESSAGE(data != nullptr, "run this through ./test, or set BACKBEAT_TEST_DATA to tests/data");
  return std::string(data) + "/io/" + name;
}

inline void check_same(const NamedArrays& a, const NamedArrays& b) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    CHECK(a[i].first == b[i].first);
    CHECK(bitwise_equal(a[i].second, b[i].second));
  }
}

}  // namespace backbeat
