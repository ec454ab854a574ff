#include "trainer/protocol/frames.h"

#include <cstdint>

namespace muster::protocol {

std::string encode(const nlohmann::json& message) {
  const auto body = message.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const auto n = static_cast<std::uint32_t>(body.size());
  std::string frame;
  frame.reserve(body.size() + 4);
  for (const int shift : {24, 16, 8, 0}) frame += static_cast<char>((n >> shift) & 0xff);
  return frame + body;
}

Result<std::optional<nlohmann::json>> FrameReader::next() {
  if (buffer_.size() < 4) return std::optional<nlohmann::json>();
  std::uint32_t length = 0;
  for (int i = 0; i < 4; ++i) length = length << 8 | static_cast<unsigned char>(buffer_[i]);
  if (length > frame_limit)
    return Error{Code::protocol, "a frame of " + std::to_string(length) + " bytes"};
  if (buffer_.size() - 4 < length) return std::optional<nlohmann::json>();
  bool too_deep = false;
  const auto watch = [&too_deep](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    too_deep = too_deep || depth > frame_depth;
    return !too_deep;
  };
  const char* body = buffer_.data() + 4;
  auto message = nlohmann::json::parse(body, body + length, watch, false);
  buffer_.erase(0, 4 + std::size_t{length});
  if (too_deep || !message.is_object() || !message.contains("type") ||
      !message["type"].is_string()) {
    return Error{Code::protocol, "a frame that is not a message"};
  }
  return std::optional<nlohmann::json>(std::move(message));
}

}  // namespace muster::protocol
