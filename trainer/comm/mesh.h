// Sockets to every peer of a generation, and transfers over them: what Tcp and Local are made of.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "trainer/comm/communicator.h"

namespace muster::comm {

// One message to or from one peer. Messages between two ranks keep their order; each carries its
// generation, sequence number and length, and the receiver knows all three before it reads.
struct Transfer {
  int peer = 0;
  std::byte* data = nullptr;  // only read when sending
  std::size_t bytes = 0;
};

class Mesh {
 public:
  // sockets[r] is connected to rank r, owned from now on; that of the own rank is -1.
  Mesh(int rank, std::vector<int> sockets, Generation generation, Faults faults);
  ~Mesh();
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  int rank() const { return rank_; }
  int world_size() const { return static_cast<int>(peers_.size()); }

  // All transfers at once; returns when every one is done. After an error the mesh is broken: every
  // later call returns the first error, and the peers see closed connections.
  Status exchange(std::span<const Transfer> sends, std::span<const Transfer> receives,
                  Deadline deadline);
  void abort();
  // Whether a peer has closed its connection.
  bool closed(int peer) const;
  int socket(int peer) const { return peers_[static_cast<std::size_t>(peer)].socket; }
  std::uint64_t bytes_sent() const { return bytes_sent_; }

 private:
  struct Peer {
    int socket = -1;
    std::uint64_t sent = 0;      // messages
    std::uint64_t received = 0;  // messages
  };
  class Run;
  Status fail(const Error& error);

  int rank_;
  std::vector<Peer> peers_;
  Generation generation_;
  Faults faults_;
  int abort_event_ = -1;
  std::atomic<bool> aborted_{false};
  std::atomic<std::uint64_t> bytes_sent_{0};
  Status broken_;
};

}  // namespace muster::comm
