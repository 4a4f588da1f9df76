#include "engine/io/sha256.hpp"

#include <openssl/evp.h>

#include <algorithm>
#include <memory>

namespace backbeat {

namespace {

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    check(context_ && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
  }
  void add(const void* bytes, size_t count) { check(EVP_DigestUpdate(context_.get(), bytes, count) == 1); }
  std::string hex() {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    check(EVP_DigestFinal_ex(context_.get(), digest, &size) == 1);
    std::string text;
    for (unsigned i = 0; i < size; ++i) {
      text += "0123456789abcdef"[digest[i] >> 4];
      text += "0123456789abcdef"[digest[i] & 15];
    }
    return text;
  }

 private:
  static void check(bool done) {
    if (!done) throw RunError("[sha256] OpenSSL offers no SHA-256 here");
  }
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

}  // namespace

std::string sha256_hex(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.add(bytes.data(), bytes.size());
  return hash.hex();
}

std::string sha256_hex(std::string_view text) { return sha256_hex(std::as_bytes(std::span(text.data(), text.size()))); }

std::string sha256_of(const NamedArrays& arrays) {
  std::vector<const std::pair<std::string, Array>*> sorted;
  for (const auto& named : arrays) sorted.push_back(&named);
  std::sort(sorted.begin(), sorted.end(), [](auto* a, auto* b) { return a->first < b->first; });
  Sha256 hash;
  for (const auto* named : sorted) {
    const Array& array = named->second;
    const std::string line = concat(named->first, ' ', array.dtype(), array.shape(), ' ', array.bytes(), '\n');
    hash.add(line.data(), line.size());
    hash.add(array.raw(), static_cast<size_t>(array.bytes()));
  }
  return hash.hex();
}

}  // namespace backbeat
