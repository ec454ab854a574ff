// SHA-256, HMAC-SHA-256 and random bytes, by OpenSSL.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace muster::crypto {

std::string to_hex(std::string_view bytes);
std::string sha256_hex(std::string_view bytes);
std::string hmac_sha256(std::string_view key, std::string_view message);  // 32 raw bytes
bool equal_constant_time(std::string_view a, std::string_view b);
std::string random_bytes(std::size_t count);

// Incremental: update() any number of times, then hex() once.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  void update(const void* data, std::size_t bytes);
  std::string hex();

 private:
  void* context_;
};

}  // namespace muster::crypto
