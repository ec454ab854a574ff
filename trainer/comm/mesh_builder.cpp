#include "trainer/comm/mesh_builder.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "trainer/comm/handshake.h"

namespace muster::comm {
namespace {

// Sockets of a mesh that is not complete yet: closed unless released.
class Building {
 public:
  explicit Building(int world_size) : sockets_(static_cast<std::size_t>(world_size), -1) {}
  ~Building() {
    for (const int s : sockets_) {
      if (s >= 0) ::close(s);
    }
  }
  int& operator[](int rank) { return sockets_[static_cast<std::size_t>(rank)]; }
  std::vector<int> release() { return std::exchange(sockets_, {}); }

 private:
  std::vector<int> sockets_;
};

Result<int> dial(const Sockets& sockets, const PeerAddress& peer, Deadline deadline) {
  while (true) {
    auto socket = sockets.dial(peer);
    if (socket.ok() || std::chrono::steady_clock::now() >= deadline) return socket;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // it may not listen yet
  }
}

Status accept_one(const Options& options, const Sockets& sockets, Building& mesh, Deadline deadline,
                  bool& accepted) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  if (left.count() <= 0) {
    return Error{Code::deadline_exceeded, "not every peer of the generation has connected in time"};
  }
  pollfd fd{sockets.listener, POLLIN, 0};
  if (::poll(&fd, 1, int(std::min<long long>(left.count(), 1000))) <= 0) return {};
  const int socket = ::accept4(sockets.listener, nullptr, nullptr, SOCK_CLOEXEC);
  if (socket < 0) return {};
  // Strangers and stale peers must not hold up the others.
  const auto patience = std::min(deadline, in(std::chrono::seconds(5)));
  const auto peer = prove_as_listener(socket, options, patience);
  if (!peer.ok() || mesh[*peer] >= 0) {
    ::close(socket);
    return {};
  }
  if (sockets.prepare) sockets.prepare(socket);
  mesh[*peer] = socket;
  accepted = true;
  return {};
}

}  // namespace

Result<std::vector<int>> connect_to_all(const Options& options, const Sockets& sockets,
                                        Deadline deadline) {
  Building mesh(options.world_size);
  for (int peer = 0; peer < options.rank; ++peer) {
    MUSTER_TRY(socket, dial(sockets, options.peers[static_cast<std::size_t>(peer)], deadline));
    mesh[peer] = socket;
    if (sockets.prepare) sockets.prepare(socket);
    auto proved = prove_as_dialler(socket, options, peer, deadline);
    if (!proved.ok()) {
      return proved.error().while_doing("connecting to rank " + std::to_string(peer));
    }
  }
  for (int missing = options.world_size - 1 - options.rank; missing > 0;) {
    bool accepted = false;
    MUSTER_CHECK_OK(accept_one(options, sockets, mesh, deadline, accepted));
    if (accepted) --missing;
  }
  return mesh.release();
}

}  // namespace muster::comm
