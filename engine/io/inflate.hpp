// DEFLATE data, bare or in gzip files, inflated piece by piece: what is allocated is bounded by what the file holds.
#pragma once
#include <zlib.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace backbeat {

constexpr int64_t largest_inflation = 1032;  // bytes out of one byte of DEFLATE: 258 from two bits

inline bool is_gzip(std::span<const uint8_t> bytes) { return bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b; }

class Inflater {
 public:
  enum class Format {
    gzip,     // one gzip file or several in a row
    deflate,  // one bare stream, as in a zip archive
  };

  // Errors are "[where] name: ...". `where`, `name` and `packed` outlive the inflater.
  Inflater(const char* where, const std::string& name, std::span<const uint8_t> packed, Format format);
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater();

  // Appends until `out` holds `wanted` bytes or the data end. Only at their end are they known to be whole: ask for a
  // byte more than there should be.
  void append(std::vector<uint8_t>& out, int64_t wanted);

 private:
  void step();

  const char* where_;
  const std::string& name_;
  std::span<const uint8_t> packed_;
  Format format_;
  z_stream stream_{};
  size_t position_ = 0;
  bool ended_ = false;
};

// The bytes themselves, or inflated if they are a gzip file; Error beyond `largest` bytes.
std::vector<uint8_t> gunzipped(const char* where, const std::string& name, std::vector<uint8_t> bytes, int64_t largest);

}  // namespace backbeat
