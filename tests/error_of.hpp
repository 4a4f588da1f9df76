// What a request that must be refused says.
#pragma once
#include <doctest/doctest.h>

#include <string>

#include "engine/error.hpp"

namespace backbeat {

// The text of the Error that `body` throws; it must be one line.
template <class Body>
std::string error_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    const std::string text = error.what();
    CHECK(text.find('\n') == std::string::npos);
    return text;
  }
  return "no error";
}

}  // namespace backbeat
