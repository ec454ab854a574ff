// A connected stream socket with frames over it, non-blocking.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/result.h"
#include "trainer/protocol/frames.h"

namespace muster::coordinator {

class FrameSocket {
 public:
  explicit FrameSocket(int fd) : fd_(fd) {}
  ~FrameSocket();
  FrameSocket(const FrameSocket&) = delete;
  FrameSocket& operator=(const FrameSocket&) = delete;

  int fd() const { return fd_; }
  bool wants_to_write() const { return !outgoing_.empty(); }
  void queue(const nlohmann::json& message) { outgoing_ += protocol::encode(message); }
  // Sends what the socket takes. Errors: Code::peer_lost; Code::protocol for a peer that does not
  // read.
  Status flush();
  // Reads what is there and returns the complete messages. Code::peer_lost at the end of the
  // stream.
  Status receive(std::vector<nlohmann::json>& messages);

 private:
  int fd_;
  std::string outgoing_;
  protocol::FrameReader reader_;
};

}  // namespace muster::coordinator
