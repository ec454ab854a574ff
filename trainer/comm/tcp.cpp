#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "trainer/comm/direct_exchange.h"
#include "trainer/comm/mesh_builder.h"

namespace muster::comm {
namespace {

void prepare(int socket) {
  const int one = 1, buffer = 4 << 20;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  ::setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer));
  ::setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof(buffer));
}

Result<int> dial(const std::string& address) {
  const auto colon = address.rfind(':');
  if (colon == std::string::npos) {
    return Error{Code::protocol, "the peer's address " + address + " is not host:port"};
  }
  addrinfo hints{}, *found = nullptr;
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  const int code = ::getaddrinfo(address.substr(0, colon).c_str(),
                                 address.substr(colon + 1).c_str(), &hints, &found);
  if (code != 0) return Error{Code::io, "cannot resolve " + address + ": " + ::gai_strerror(code)};
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int connected = ::connect(socket, found->ai_addr, found->ai_addrlen);
  const int why = errno;
  ::freeaddrinfo(found);
  if (connected == 0) return socket;
  ::close(socket);
  return Error{Code::io, "cannot reach " + address + ": " + std::strerror(why)};
}

}  // namespace

Result<std::unique_ptr<Communicator>> make_tcp(const Options& options, Listener& listener,
                                               Deadline deadline) {
  const Sockets tcp{listener.tcp_fd(), [](const PeerAddress& peer) { return dial(peer.tcp); },
                    prepare};
  MUSTER_TRY(sockets, connect_to_all(options, tcp, deadline));
  return std::unique_ptr<Communicator>(std::make_unique<DirectExchange>(
      std::make_unique<Mesh>(options.rank, std::move(sockets), options.generation, Faults{}),
      "tcp"));
}

}  // namespace muster::comm
