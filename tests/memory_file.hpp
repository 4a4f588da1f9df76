// A file that never reaches a disk, for readers that take a path.
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

class MemoryFile {
 public:
  MemoryFile() : descriptor_(::memfd_create("backbeat", MFD_CLOEXEC)) {
    if (descriptor_ < 0) std::abort();
    path_ = "/proc/self/fd/" + std::to_string(descriptor_);
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { ::close(descriptor_); }

  const std::string& path() const { return path_; }
  const std::string& holding(std::span<const uint8_t> bytes) {  // the path, once the file is these bytes
    const auto size = static_cast<ssize_t>(bytes.size());
    if (::ftruncate(descriptor_, size) != 0 || ::pwrite(descriptor_, bytes.data(), bytes.size(), 0) != size) std::abort();
    return path_;
  }

 private:
  int descriptor_;
  std::string path_;
};
