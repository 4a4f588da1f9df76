// IDX, the format of MNIST and its kin: 0 0 type rank, the sizes, the values; big-endian; plain or gzipped.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "engine/array.hpp"

namespace backbeat {

enum class IdxType : uint8_t { u8 = 0x08, i8 = 0x09, i16 = 0x0B, i32 = 0x0C, f32 = 0x0D, f64 = 0x0E };

// The values as they lie in the file: a byte an element for images, so a large set stays small.
struct IdxFile {
  IdxType type = IdxType::u8;
  Shape shape;
  std::vector<uint8_t> values;
};

IdxFile read_idx_file(const std::string& path);

Array read_idx(const std::string& path);  // in the dtype of the file

// Plain, atomic. u8, i8, i16, i32, f32 or f64, of rank 1 to 8.
void write_idx(const std::string& path, const Array& array);

}  // namespace backbeat
