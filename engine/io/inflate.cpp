#include "engine/io/inflate.hpp"

#include <algorithm>
#include <new>

#include "engine/error.hpp"

namespace backbeat {

Inflater::Inflater(const char* where, const std::string& name, std::span<const uint8_t> packed, Format format)
    : where_(where), name_(name), packed_(packed), format_(format) {
  if (inflateInit2(&stream_, format == Format::gzip ? 16 + MAX_WBITS : -MAX_WBITS) != Z_OK) throw std::bad_alloc();
}

Inflater::~Inflater() { inflateEnd(&stream_); }

void Inflater::append(std::vector<uint8_t>& out, int64_t wanted) {
  constexpr int64_t piece = 1 << 20;
  while (!ended_ && static_cast<int64_t>(out.size()) < wanted) {
    const size_t before = out.size();
    out.resize(before + static_cast<size_t>(std::min(piece, wanted - static_cast<int64_t>(before))));
    stream_.next_out = out.data() + before;
    stream_.avail_out = static_cast<uInt>(out.size() - before);
    while (stream_.avail_out > 0 && !ended_) step();
    out.erase(out.end() - static_cast<ptrdiff_t>(stream_.avail_out), out.end());
  }
}

void Inflater::step() {
  const char* kind = format_ == Format::gzip ? "a gzip file" : "deflated data";
  if (stream_.avail_in == 0) {
    constexpr size_t largest = 1u << 30;  // zlib counts in 32 bits
    const size_t size = std::min(largest, packed_.size() - position_);
    stream_.next_in = const_cast<Bytef*>(packed_.data() + position_);
    stream_.avail_in = static_cast<uInt>(size);
    position_ += size;
  }
  const int status = inflate(&stream_, Z_NO_FLUSH);
  const size_t left = stream_.avail_in + (packed_.size() - position_);
  if (status == Z_STREAM_END) {
    ended_ = left == 0;
    if (!ended_ && format_ == Format::deflate)
      fail(where_, name_, ": expected ", kind, " of ", packed_.size(), " bytes, got an end ", left, " bytes before");
    if (!ended_) inflateReset(&stream_);
  } else if (status == Z_BUF_ERROR || (status == Z_OK && left == 0 && stream_.avail_out > 0)) {
    fail(where_, name_, ": expected ", kind, " that is complete, got one cut off after ", packed_.size(), " bytes");
  } else if (status != Z_OK) {
    fail(where_, name_, ": expected ", kind, ", got a damaged one (", stream_.msg ? stream_.msg : "no detail", ")");
  }
}

std::vector<uint8_t> gunzipped(const char* where, const std::string& name, std::vector<uint8_t> bytes,
                               int64_t largest) {
  if (is_gzip(bytes)) {
    std::vector<uint8_t> unpacked;
    Inflater(where, name, bytes, Inflater::Format::gzip).append(unpacked, largest + 1);
    bytes = std::move(unpacked);
  }
  if (static_cast<int64_t>(bytes.size()) > largest) fail(where, name, ": expected at most ", largest, " bytes, got more");
  return bytes;
}

}  // namespace backbeat
