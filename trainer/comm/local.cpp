#include <sys/socket.h>

#include "trainer/comm/direct_exchange.h"

namespace muster::comm {

// A socket pair between every two threads: the code of Tcp without the network, so that what faults
// teach here holds there.
std::vector<std::unique_ptr<Communicator>> make_local(int world_size, Faults faults) {
  const auto n = static_cast<std::size_t>(world_size);
  std::vector<std::vector<int>> sockets(n, std::vector<int>(n, -1));
  for (std::size_t a = 0; a < n; ++a) {
    for (std::size_t b = a + 1; b < n; ++b) {
      int pair[2];
      if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) return {};
      sockets[a][b] = pair[0];
      sockets[b][a] = pair[1];
    }
  }
  std::vector<std::unique_ptr<Communicator>> all;
  for (std::size_t r = 0; r < n; ++r) {
    all.push_back(std::make_unique<DirectExchange>(
        std::make_unique<Mesh>(static_cast<int>(r), sockets[r], Generation{}, faults), "local"));
  }
  return all;
}

}  // namespace muster::comm
