#include "trainer/coordinator/socket.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace muster::coordinator {
namespace {

constexpr std::size_t backlog_limit = 64u << 20;  // bytes that a peer may leave unread

}  // namespace

FrameSocket::~FrameSocket() {
  ::close(fd_);
}

Status FrameSocket::flush() {
  while (!outgoing_.empty()) {
    const auto n = ::send(fd_, outgoing_.data(), outgoing_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n < 0) return Error{Code::peer_lost, std::strerror(errno)};
    outgoing_.erase(0, static_cast<std::size_t>(n));
  }
  if (outgoing_.size() > backlog_limit) return Error{Code::protocol, "the peer does not read"};
  return {};
}

Status FrameSocket::receive(std::vector<nlohmann::json>& messages) {
  char buffer[65536];
  bool ended = false;
  while (!ended) {
    const auto n = ::recv(fd_, buffer, sizeof(buffer), MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    ended = n <= 0;
    if (n > 0) reader_.append({buffer, static_cast<std::size_t>(n)});
    while (true) {
      MUSTER_TRY(message, reader_.next());
      if (!message) break;
      messages.push_back(std::move(*message));
    }
  }
  return ended ? Status(Error{Code::peer_lost, "the connection was closed"}) : Status();
}

}  // namespace muster::coordinator
