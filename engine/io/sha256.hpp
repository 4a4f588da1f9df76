// SHA-256 in hexadecimal: of bytes, and of a set of named arrays (a model's parameters).
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "engine/io/safetensors.hpp"

namespace backbeat {

std::string sha256_hex(std::span<const std::byte> bytes);
std::string sha256_hex(std::string_view text);

// Of the arrays in the order of their names, whatever their order here. Each contributes the line
// "NAME DTYPE[SHAPE] BYTES\n" (for example "critic/out/bias f32[1] 4\n"), then its bytes, little-endian.
std::string sha256_of(const NamedArrays& arrays);

}  // namespace backbeat
