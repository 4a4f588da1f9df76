// What a file says about its arrays, checked before it is believed.
#pragma once
#include <cstdint>
#include <string>

#include "engine/array.hpp"

namespace backbeat {

// Elements of `width` bytes in this shape; -1 if a size is negative or the product does not fit. A size of 0 does not
// excuse the others: strides are their products too.
int64_t declared_bytes(int64_t width, const Shape& shape);

// Names from a file may hold anything, and an error must stay one line: in double quotes, escaped.
std::string quoted(const std::string& name);
bool is_utf8(const std::string& name);

// Error "[where] name: ..." unless every byte of a bool array is 0 or 1. Arrays of other dtypes pass.
void check_booleans(const char* where, const std::string& name, const Array& array);

}  // namespace backbeat
