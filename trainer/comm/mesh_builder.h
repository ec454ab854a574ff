// Connects a rank to all its peers: dials those of lower rank, answers those of higher rank, and
// lets in who proves the generation's key. Strangers and stale peers are turned away.
#pragma once

#include <functional>
#include <vector>

#include "trainer/comm/communicator.h"

namespace muster::comm {

struct Sockets {
  int listener = -1;
  std::function<Result<int>(const PeerAddress&)> dial;  // one try
  std::function<void(int socket)> prepare;  // options of a connected socket; may be empty
};

// Sockets by rank, the own one -1; the caller owns them.
Result<std::vector<int>> connect_to_all(const Options& options, const Sockets& sockets,
                                        Deadline deadline);

}  // namespace muster::comm
