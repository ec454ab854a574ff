// Token files for the tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace muster::data {

// Integers as the bytes of a token file.
template <class Token>
std::string token_bytes(const std::vector<Token>& tokens) {
  std::string bytes;
  for (const auto token : tokens) {
    for (std::size_t b = 0; b < sizeof(Token); ++b) {
      bytes += static_cast<char>((static_cast<std::uint64_t>(token) >> (8 * b)) & 0xff);
    }
  }
  return bytes;
}

}  // namespace muster::data
