#include "common/tcp.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

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

}  // namespace

Result<std::unique_ptr<Communicator>> make_tcp(const Options& options, Listener& listener,
                                               Deadline deadline) {
  const Sockets tcp{listener.tcp_fd(), [](const PeerAddress& peer) { return dial_tcp(peer.tcp); },
                    prepare};
  MUSTER_TRY(sockets, connect_to_all(options, tcp, deadline));
  return std::unique_ptr<Communicator>(std::make_unique<DirectExchange>(
      std::make_unique<Mesh>(options.rank, std::move(sockets), options.generation, Faults{}),
      "tcp"));
}

}  // namespace muster::comm
