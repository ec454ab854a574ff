// Collectives of ranks of one machine. Buffers in an arena are read and written where they lie:
// each rank adds its segment of all ranks' buffers and writes the sum into all of them, between two
// barriers. Other buffers go through the windows' staging memory, chunk by chunk.
//
// Point-to-point calls and broadcasts use Unix sockets, which also tell of a peer's death.
#pragma once

#include <vector>

#include "trainer/comm/direct_exchange.h"
#include "trainer/comm/window.h"

namespace muster::comm {

// What a rank can see of one rank (its own included).
struct Neighbour {
  std::unique_ptr<Window> window;
  std::unique_ptr<Mapping> arena;  // null: it has none, or it is the own one
  std::byte* arena_data = nullptr;
  std::size_t arena_size = 0;
};

class SharedMemory : public DirectExchange {
 public:
  SharedMemory(std::unique_ptr<Mesh> mesh, std::vector<Neighbour> neighbours,
               std::shared_ptr<Arena> arena);
  ~SharedMemory() override;

  Status all_reduce(void* buffer, std::size_t count, DType dtype, Deadline deadline) override;
  Status reduce_scatter(const void* input, void* output, std::span<const std::size_t> counts,
                        DType dtype, Deadline deadline) override;
  Status all_gather(const void* input, void* output, std::span<const std::size_t> counts,
                    DType dtype, Deadline deadline) override;
  void abort() override;
  Traffic traffic() const override;

 private:
  Status meet(const void* buffer, std::size_t bytes, std::uint64_t agreed,
              std::span<const std::size_t> extents, Deadline deadline, bool& direct);
  Status barrier_now(Deadline deadline);
  Status wait_for(int peer, Deadline deadline);
  Status look_around(int peer, Deadline deadline);
  Status fail(const Error& error);
  Window& window(int r) const { return *neighbours_[static_cast<std::size_t>(r)].window; }
  std::byte* buffer_of(int r) const;
  void sum_into_all(std::size_t begin, std::size_t count, DType dtype, bool direct);

  std::vector<Neighbour> neighbours_;
  std::shared_ptr<Arena> arena_;
  std::uint32_t barriers_ = 0;
  int spins_;
  std::atomic<bool> aborted_{false};
  std::atomic<std::uint64_t> shared_bytes_{0};
  std::uint64_t shared_calls_ = 0;
  Status broken_;
};

}  // namespace muster::comm
