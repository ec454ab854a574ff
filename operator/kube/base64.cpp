#include "operator/kube/base64.h"

#include <openssl/evp.h>

#include <algorithm>

namespace muster::kube {

std::string base64_encode(std::string_view bytes) {
  std::string text(4 * ((bytes.size() + 2) / 3) + 1, '\0');
  const auto size = ::EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                      reinterpret_cast<const unsigned char*>(bytes.data()),
                                      static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(size));
  return text;
}

std::optional<std::string> base64_decode(std::string_view text) {
  std::string packed;
  for (const char c : text) {
    if (c != '\n' && c != '\r' && c != ' ') packed += c;
  }
  if (packed.empty() || packed.size() % 4 != 0) return std::nullopt;
  std::string bytes(packed.size() / 4 * 3, '\0');
  const auto size = ::EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                      reinterpret_cast<const unsigned char*>(packed.data()),
                                      static_cast<int>(packed.size()));
  if (size < 0) return std::nullopt;
  const auto padding = packed.ends_with("==") ? 2 : packed.ends_with("=") ? 1 : 0;
  bytes.resize(static_cast<std::size_t>(size - padding));
  return bytes;
}

}  // namespace muster::kube
