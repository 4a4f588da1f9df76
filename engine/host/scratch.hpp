// Memory that a thread keeps from call to call, so that a kernel allocates nothing once it is warm.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <new>

namespace backbeat::host {

class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { std::free(data_); }

  // At least so many bytes, aligned to 64; what was there before may be lost.
  void* reserve(int64_t bytes) {
    if (bytes > size_) {
      std::free(data_);
      data_ = nullptr;
      size_ = 0;
      const int64_t size = (bytes + 4095) / 4096 * 4096;
      data_ = std::aligned_alloc(64, static_cast<size_t>(size));
      if (!data_) throw std::bad_alloc();
      size_ = size;
    }
    return data_;
  }
  template <class T>
  T* reserve_for(int64_t count) {
    return static_cast<T*>(reserve(count * static_cast<int64_t>(sizeof(T))));
  }

 private:
  void* data_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace backbeat::host
