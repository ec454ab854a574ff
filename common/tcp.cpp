#include "common/tcp.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

namespace muster {
namespace {

constexpr int backlog = 512;
constexpr int port_limit = 65535;

sockaddr_in to_socket_address(const TcpAddress& address) {
  sockaddr_in result{};
  result.sin_family = AF_INET;
  result.sin_port = htons(static_cast<std::uint16_t>(address.port));
  ::inet_pton(AF_INET, address.ip.c_str(), &result.sin_addr);
  return result;
}

}  // namespace

Result<TcpAddress> resolve_tcp(const std::string& address) {
  const auto colon = address.rfind(':');
  TcpAddress result;
  const char* end = address.data() + address.size();
  const char* digits = colon == std::string::npos ? end : address.data() + colon + 1;
  const auto [at, error] = std::from_chars(digits, end, result.port);
  if (colon == 0 || digits == end || error != std::errc() || at != end || result.port < 0 ||
      result.port > port_limit) {
    return Error{Code::invalid_job,
                 "'" + address + "' is not host:port with a port of 0 to 65535, as 127.0.0.1:7077"};
  }
  addrinfo hints{}, *found = nullptr;
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  const int code = ::getaddrinfo(address.substr(0, colon).c_str(), nullptr, &hints, &found);
  if (code != 0) return Error{Code::io, "cannot resolve " + address + ": " + ::gai_strerror(code)};
  char text[INET_ADDRSTRLEN] = {};
  ::inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in*>(found->ai_addr)->sin_addr, text,
              sizeof(text));
  ::freeaddrinfo(found);
  result.ip = text;
  return result;
}

Result<int> listen_tcp(const std::string& address, int& port) {
  MUSTER_TRY(resolved, resolve_tcp(address));
  const auto wanted = to_socket_address(resolved);
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int one = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&wanted), sizeof(wanted)) != 0 ||
      ::listen(fd, backlog) != 0) {
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

Result<int> dial_tcp(const std::string& address) {
  MUSTER_TRY(resolved, resolve_tcp(address));
  const auto peer = to_socket_address(resolved);
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&peer), sizeof(peer)) != 0) {
    const int why = errno;
    ::close(fd);
    return Error{Code::io, "cannot reach " + address + ": " + std::strerror(why)};
  }
  const int one = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  return fd;
}

}  // namespace muster
