#include "trainer/coordinator/socket.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

namespace muster::coordinator {
namespace {

constexpr std::size_t backlog_limit = 64u << 20;  // bytes that a peer may leave unread

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Result<Addresses> resolve(const std::string& address) {
  const auto colon = address.rfind(':');
  if (colon == std::string::npos) {
    return Error{Code::invalid_job, "'" + address + "' is not host:port"};
  }
  addrinfo hints{}, *found = nullptr;
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  const int code = ::getaddrinfo(address.substr(0, colon).c_str(),
                                 address.substr(colon + 1).c_str(), &hints, &found);
  if (code != 0) return Error{Code::io, "cannot resolve " + address + ": " + ::gai_strerror(code)};
  return Addresses(found, ::freeaddrinfo);
}

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

Result<int> listen_on(const std::string& address, int& port) {
  MUSTER_TRY(found, resolve(address));
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int one = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
  if (::bind(fd, found->ai_addr, found->ai_addrlen) != 0 || ::listen(fd, 512) != 0) {
    const int why = errno;
    ::close(fd);
    return Error{why == EADDRINUSE ? Code::port_in_use : Code::io,
                 "cannot listen on " + address + ": " + std::strerror(why) +
                     "; choose another address, or port 0 for a free one"};
  }
  sockaddr_in bound{};
  socklen_t size = sizeof(bound);
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size);
  port = ntohs(bound.sin_port);
  return fd;
}

Result<int> connect_to(const std::string& address) {
  MUSTER_TRY(found, resolve(address));
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::connect(fd, found->ai_addr, found->ai_addrlen) != 0) {
    const int why = errno;
    ::close(fd);
    return Error{Code::io,
                 "cannot reach the coordinator at " + address + ": " + std::strerror(why)};
  }
  const int one = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  return fd;
}

}  // namespace muster::coordinator
