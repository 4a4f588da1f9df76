#include "models/checkpoint.hpp"
#include "tests/fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  return backbeat::answers(bytes, size, [](const std::string& path) { backbeat::load_checkpoint(path); });
}
