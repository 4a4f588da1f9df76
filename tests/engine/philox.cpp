// Philox, whose answers are published.
#include <doctest/doctest.h>

#include <array>

#include "engine/philox.hpp"

using namespace backbeat;

TEST_CASE("philox4x32: the known answers of Random123") {
  struct Row {
    std::array<uint32_t, 4> counter;
    std::array<uint32_t, 2> key;
    std::array<uint32_t, 4> answer;
  };
  constexpr uint32_t ones = 0xffffffff;
  constexpr Row rows[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{ones, ones, ones, ones}, {ones, ones}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (const Row& row : rows) CHECK(philox4x32(row.counter, row.key) == row.answer);
  static_assert(philox4x32({0, 0, 0, 0}, {0, 0})[0] == 0x6627e8d5, "usable in constants");
}
