// How two ranks prove to each other that they hold their generation's key, before any frame.
#pragma once

#include "trainer/comm/communicator.h"

namespace muster::comm {

// The dialling side, over a connected socket. Errors: Code::unauthenticated, stale_generation, ...
Status prove_as_dialler(int socket, const Options& options, int peer, Deadline deadline);

// The answering side; returns the rank that dialled. Reads a fixed number of bytes, whatever the
// peer claims.
Result<int> prove_as_listener(int socket, const Options& options, Deadline deadline);

}  // namespace muster::comm
