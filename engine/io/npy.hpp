// .npy, NumPy's file of one array: a magic number, a line of Python that says dtype, order and shape, the values.
// f64 f32 f16 i64 i32 i16 i8 u32 u8 bool are what they are here; uint16 becomes i32, which holds every value of it.
// uint64, complex numbers, strings, dates, Python objects and records are refused. bf16 has no counterpart there.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "engine/array.hpp"

namespace backbeat {

// Versions 1.0 to 3.0, C and Fortran order, little and big endian. The file is nothing but the array.
Array read_npy(const std::string& path);
void write_npy(const std::string& path, const Array& array);  // version 1.0, C order, little-endian; atomic

// The same for a member of an archive. Errors are "[where] name: ...".
struct NpyHeader {
  DType dtype = DType::f32;    // of the array that is read
  int64_t width = 4;           // bytes per element in the file
  bool big_endian = false, fortran_order = false;
  Shape shape;
  int64_t header_bytes = 0, value_bytes = 0;
};
constexpr int64_t npy_prefix_bytes = 12;  // enough to know how long the header is
int64_t npy_header_bytes(const char* where, const std::string& name, std::span<const uint8_t> bytes);
NpyHeader parse_npy_header(const char* where, const std::string& name, std::span<const uint8_t> bytes);
Array parse_npy(const char* where, const std::string& name, std::span<const uint8_t> bytes);
std::string npy_header(const char* where, const std::string& name, const Array& array);

}  // namespace backbeat
