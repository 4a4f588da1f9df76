// How everything here fails: one exception type whose text is one line, `[operation] what clashed, what was expected`.
#pragma once
#include <sstream>
#include <stdexcept>
#include <string>

namespace backbeat {

// The request was wrong (shapes, flags, files, chips): the command line exits 2.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The request was right and the run went wrong (a full disk, a NaN that was asked to be fatal): exit 1.
struct RunError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

// fail("dot_general", "contracting dimensions differ: ", a, " and ", b) throws Error "[dot_general] contracting ...".
template <class... Parts>
[[noreturn]] void fail(const char* where, const Parts&... parts) {
  throw Error(concat('[', where, "] ", parts...));
}

}  // namespace backbeat
