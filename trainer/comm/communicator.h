// Collectives between the ranks of one generation. The only folder that knows how bytes travel.
//
//   Local         threads of one process; the transport in which tests inject faults
//   SharedMemory  processes of one machine; a buffer in an Arena is reduced where it lies
//   Tcp           direct exchange over sockets, chunked and pipelined
//
// Guarantees
//   Deterministic: element i of an all-reduce is ((x0[i] + x1[i]) + x2[i]) ... in rank order, in
//   fp32 for f32 and bf16 (bf16 is rounded once, to nearest even, at the end), for any chunking,
//   any transport and any number of ranks. i64 wraps. Every call has a deadline. After an error the
//   communicator is broken: every later call returns the first error at once, and the peers get an
//   error too. Contents of buffers are then unspecified. abort() may be called from any thread, in
//   any state, any number of times, and returns at once; pending and later calls return
//   Code::aborted. No allocation follows a length that a peer claimed.
// Assumptions
//   Collectives are called by one thread at a time, in the same order with the same counts on all
//   ranks.
// Source: the collectives' meaning is MPI's; direct exchange as in "Optimization of Collective
// Communication Operations in MPICH" (Thakur et al., 2005), section 4, pairwise exchange.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/result.h"

namespace muster::comm {

enum class DType : std::uint8_t { f32, bf16, i64 };
constexpr std::size_t size_of(DType t) {
  return t == DType::f32 ? 4 : t == DType::bf16 ? 2 : 8;
}

using Deadline = std::chrono::steady_clock::time_point;
inline Deadline in(std::chrono::steady_clock::duration d) {
  return std::chrono::steady_clock::now() + d;
}

// (epoch, n): the coordinator's incarnation and the membership's number in it. Every frame carries
// it.
struct Generation {
  std::uint64_t epoch = 0;
  std::uint64_t n = 0;
  auto operator<=>(const Generation&) const = default;
};

// Elements [begin, end) of a buffer of `count` elements that `rank` of `world_size` owns when
// nobody says otherwise: equal shares, each but the last a multiple of 64 bytes.
struct Interval {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t size() const { return end - begin; }
};
Interval segment(std::size_t count, DType dtype, int rank, int world_size);

// Payload bytes that this rank gave to the transport for others to read, since its start.
struct Traffic {
  std::uint64_t bytes_sent = 0;
  std::uint64_t calls = 0;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  virtual int rank() const = 0;
  virtual int world_size() const = 0;
  virtual const char* transport() const = 0;  // local | shared-memory | tcp

  // buffer[0, count): on return the sum over all ranks, on every rank.
  virtual Status all_reduce(void* buffer, std::size_t count, DType dtype, Deadline deadline) = 0;

  // input: sum(counts) elements; output: counts[rank()] elements, the sum of this rank's interval.
  // The intervals lie one after the other in rank order; a count may be 0. output may lie in input
  // at this rank's interval.
  virtual Status reduce_scatter(const void* input, void* output,
                                std::span<const std::size_t> counts, DType dtype,
                                Deadline deadline) = 0;

  // input: counts[rank()] elements; output: sum(counts). input may lie in output at this rank's
  // interval.
  virtual Status all_gather(const void* input, void* output, std::span<const std::size_t> counts,
                            DType dtype, Deadline deadline) = 0;

  virtual Status broadcast(void* buffer, std::size_t bytes, int root, Deadline deadline) = 0;
  virtual Status send(const void* buffer, std::size_t bytes, int peer, Deadline deadline) = 0;
  // The sender's byte count must equal `bytes`.
  virtual Status recv(void* buffer, std::size_t bytes, int peer, Deadline deadline) = 0;
  virtual Status barrier(Deadline deadline) = 0;

  virtual void abort() = 0;
  virtual Traffic traffic() const = 0;

 protected:
  Communicator() = default;
};

// Memory of this rank that peers on the same machine may map: buffers in it are reduced in place,
// without a copy. It belongs to the rank, not to a generation: communicators come and go over it.
class Arena {
 public:
  // Anonymous shared memory (memfd; nothing is left behind by kill -9), zeroed, huge pages advised.
  static Result<std::shared_ptr<Arena>> create(std::size_t bytes);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // 64-byte aligned; Code::internal when the arena is full. Never freed one by one.
  Result<void*> allocate(std::size_t bytes);
  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  int fd() const { return fd_; }
  bool contains(const void* p, std::size_t bytes) const;

 private:
  Arena() = default;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t used_ = 0;
  int fd_ = -1;
};

// Where a rank listens for its peers of the next generation: one TCP port and one abstract Unix
// socket, opened once for the rank's life.
class Listener {
 public:
  // `host`: the address that peers dial, as this rank knows it. Port 0 picks a free one.
  static Result<std::unique_ptr<Listener>> open(const std::string& host, std::uint16_t port = 0);
  virtual ~Listener() = default;
  // "host:port" of the TCP socket.
  virtual std::string tcp_address() const = 0;
  // Name of the Unix socket, unique on this machine.
  virtual std::string unix_address() const = 0;
  virtual int tcp_fd() const = 0;
  virtual int unix_fd() const = 0;
};

// Ranks with equal machine ids can share memory: boot id + network namespace + user id.
std::string machine_id();

struct PeerAddress {
  std::string tcp;        // host:port
  std::string unix_name;  // abstract Unix socket
  std::string machine;    // machine_id() of the peer
};

struct Options {
  int rank = 0;
  int world_size = 1;
  Generation generation;
  std::string key;                 // made by the coordinator for this generation; peers prove it
  std::vector<PeerAddress> peers;  // world_size of them, in rank order, this rank's own included
  std::shared_ptr<Arena> arena;    // may be null: every buffer is then staged
};

// All return when every peer is connected and has proved the key, or with an error.
Result<std::unique_ptr<Communicator>> make_tcp(const Options& options, Listener& listener,
                                               Deadline deadline);
Result<std::unique_ptr<Communicator>> make_shared_memory(const Options& options, Listener& listener,
                                                         Deadline deadline);
// shared memory when all ranks have one machine id, else TCP; world_size 1 needs neither.
Result<std::unique_ptr<Communicator>> connect(const Options& options, Listener& listener,
                                              Deadline deadline);

// Faults for tests, asked before each hop of a chunk from one rank to another.
struct Faults {
  std::function<std::chrono::microseconds(int from, int to)> delay;
  std::function<bool(int from, int to)>
      drop;  // the hop never arrives: the receiver runs into its deadline
};
// world_size communicators of one process, one for each thread.
std::vector<std::unique_ptr<Communicator>> make_local(int world_size, Faults faults = {});

}  // namespace muster::comm
