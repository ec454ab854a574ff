// The collectives over a Mesh: every rank owns one interval, receives its peers' parts of it, adds
// them in rank order and sends the sum back; chunk by chunk, the sum of one chunk travelling
// together with the parts of the next.
#pragma once

#include <memory>
#include <vector>

#include "trainer/comm/communicator.h"
#include "trainer/comm/mesh.h"

namespace muster::comm {

class DirectExchange : public Communicator {
 public:
  DirectExchange(std::unique_ptr<Mesh> mesh, const char* transport)
      : mesh_(std::move(mesh)), transport_(transport) {}

  int rank() const override { return mesh_->rank(); }
  int world_size() const override { return mesh_->world_size(); }
  const char* transport() const override { return transport_; }
  Status all_reduce(void* buffer, std::size_t count, DType dtype, Deadline deadline) override;
  Status reduce_scatter(const void* input, void* output, std::span<const std::size_t> counts,
                        DType dtype, Deadline deadline) override;
  Status all_gather(const void* input, void* output, std::span<const std::size_t> counts,
                    DType dtype, Deadline deadline) override;
  Status broadcast(void* buffer, std::size_t bytes, int root, Deadline deadline) override;
  Status send(const void* buffer, std::size_t bytes, int peer, Deadline deadline) override;
  Status recv(void* buffer, std::size_t bytes, int peer, Deadline deadline) override;
  Status barrier(Deadline deadline) override;
  void abort() override { mesh_->abort(); }
  Traffic traffic() const override { return {mesh_->bytes_sent(), calls_}; }

 protected:
  bool closed(int peer) const { return mesh_->closed(peer); }

 private:
  struct Job;
  Status reduce(const Job& job, Deadline deadline);

  std::unique_ptr<Mesh> mesh_;
  const char* transport_;
  std::uint64_t calls_ = 0;
  std::vector<std::byte> staging_;
};

}  // namespace muster::comm
