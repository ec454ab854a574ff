// Frames between ranks and coordinator: 4 bytes big-endian length, then one JSON object.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "common/result.h"

namespace muster::protocol {

inline constexpr std::size_t frame_limit = 4u << 20;  // a head names every parameter of a model
inline constexpr int frame_depth = 16;
inline constexpr int protocol_version = 1;

std::string encode(const nlohmann::json& message);

// Takes bytes as they come and gives whole messages. A length over the limit, broken or deep JSON
// and a message without a string "type" are errors; nothing is allocated for a claimed length.
class FrameReader {
 public:
  void append(std::string_view bytes) { buffer_.append(bytes); }
  Result<std::optional<nlohmann::json>> next();

 private:
  std::string buffer_;
};

}  // namespace muster::protocol
