// N ranks as threads over any transport, and the sums that they must get.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "trainer/comm/communicator.h"

namespace muster::comm {

enum class Transport { local, shared_memory, tcp };

struct Group {
  std::vector<std::unique_ptr<Listener>> listeners;
  std::vector<std::shared_ptr<Arena>> arenas;
  std::vector<std::unique_ptr<Communicator>> ranks;
  std::vector<Status> errors;
};

inline Options options_of(Group& group, int rank, int n) {
  Options options;
  options.rank = rank;
  options.world_size = n;
  options.generation = {7, 3};
  options.key = "the key of this generation";
  for (const auto& l : group.listeners) {
    options.peers.push_back({l->tcp_address(), l->unix_address(), machine_id()});
  }
  options.arena = group.arenas[static_cast<std::size_t>(rank)];
  return options;
}

inline void on_all(int n, const std::function<void(int)>& work) {
  std::vector<std::thread> threads;
  for (int r = 0; r < n; ++r) threads.emplace_back(work, r);
  for (auto& t : threads) t.join();
}

// `adjust` may spoil a rank's options.
inline Group connect_all(Transport transport, int n, int seconds = 20,
                         const std::function<void(Options&)>& adjust = {}) {
  Group group;
  group.errors.resize(static_cast<std::size_t>(n));
  for (int r = 0; r < n; ++r) group.arenas.push_back(*Arena::create(4 << 20));
  if (transport == Transport::local) {
    group.ranks = make_local(n);
    return group;
  }
  for (int r = 0; r < n; ++r) group.listeners.push_back(*Listener::open("127.0.0.1"));
  group.ranks.resize(static_cast<std::size_t>(n));
  on_all(n, [&](int r) {
    auto options = options_of(group, r, n);
    if (adjust) adjust(options);
    const auto i = static_cast<std::size_t>(r);
    const auto deadline = in(std::chrono::seconds(seconds));
    auto made = transport == Transport::tcp
                    ? make_tcp(options, *group.listeners[i], deadline)
                    : make_shared_memory(options, *group.listeners[i], deadline);
    if (made.ok()) {
      group.ranks[i] = *std::move(made);
    } else {
      group.errors[i] = made.error();
    }
  });
  return group;
}

}  // namespace muster::comm
