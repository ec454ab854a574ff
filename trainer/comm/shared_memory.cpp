#include "trainer/comm/shared_memory.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "trainer/comm/reduce.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace muster::comm {
namespace {

constexpr int sleep_milliseconds = 20;

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

std::size_t sum_of(std::span<const std::size_t> counts) {
  std::size_t sum = 0;
  for (const auto c : counts) sum += c;
  return sum;
}

}  // namespace

SharedMemory::SharedMemory(std::unique_ptr<Mesh> mesh, std::vector<Neighbour> neighbours,
                           std::shared_ptr<Arena> arena)
    : DirectExchange(std::move(mesh), "shared-memory"),
      neighbours_(std::move(neighbours)),
      arena_(std::move(arena)),
      // With fewer cores than ranks the awaited one may need this very core.
      spins_(std::thread::hardware_concurrency() >= neighbours_.size() ? 2000 : 0) {}

// Who still waits for this rank must not wait for its deadline.
SharedMemory::~SharedMemory() {
  window(rank()).page().broken.store(1);
  window(rank()).wake();
}

void SharedMemory::abort() {
  aborted_ = true;
  DirectExchange::abort();
  window(rank()).page().broken.store(1);
  for (int r = 0; r < world_size(); ++r) window(r).wake();
}

Traffic SharedMemory::traffic() const {
  const auto sockets = DirectExchange::traffic();
  return {sockets.bytes_sent + shared_bytes_, sockets.calls + shared_calls_};
}

Status SharedMemory::fail(const Error& error) {
  broken_ = error;
  window(rank()).page().broken.store(1);
  window(rank()).wake();
  return error;
}

// Everything that ends a wait for `peer` but its arrival.
Status SharedMemory::look_around(int peer, Deadline deadline) {
  if (aborted_) return Error{Code::aborted, "the communicator was aborted"};
  if (window(peer).page().broken.load() != 0 || closed(peer)) {
    return Error{Code::peer_lost, "rank " + std::to_string(peer) + " has gone"};
  }
  if (std::chrono::steady_clock::now() < deadline) return {};
  return Error{Code::deadline_exceeded, "waited too long for rank " + std::to_string(peer)};
}

Status SharedMemory::wait_for(int peer, Deadline deadline) {
  auto& arrived = window(peer).page().arrived;
  const auto there = [&] { return static_cast<std::int32_t>(arrived.load() - barriers_) >= 0; };
  for (int i = 0; i < spins_; ++i) {
    if (there()) return {};
    pause();
    // Both may have been woken on one core, though there are others.
    if (i % 32 == 31) std::this_thread::yield();
  }
  while (!there()) {
    const auto seen = arrived.load();
    if (static_cast<std::int32_t>(seen - barriers_) >= 0) break;
    if (auto status = look_around(peer, deadline); !status.ok()) {
      return there() ? Status() : status;
    }
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    window(peer).sleep(seen, int(std::clamp<long long>(left.count(), 1, sleep_milliseconds)));
  }
  return {};
}

Status SharedMemory::barrier_now(Deadline deadline) {
  window(rank()).arrive(++barriers_);
  for (int r = 0; r < world_size(); ++r) {
    if (r == rank()) continue;
    if (auto status = wait_for(r, deadline); !status.ok()) return fail(status.error());
  }
  return {};
}

// First barrier of a collective: says where the own buffer lies and learns where the others' do.
// `direct`: all lie in arenas. `agreed` must be the same number on all ranks;
// `extents` are the bytes that will be touched of each rank's buffer, one for all or by rank.
Status SharedMemory::meet(const void* buffer, std::size_t bytes, std::uint64_t agreed,
                          std::span<const std::size_t> extents, Deadline deadline, bool& direct) {
  if (!broken_.ok()) return broken_;
  if (aborted_) return fail({Code::aborted, "the communicator was aborted"});
  ++shared_calls_;
  auto& page = window(rank()).page();
  const bool inside = arena_ && arena_->contains(buffer, bytes);
  page.offset.store(
      inside ? static_cast<std::uint64_t>(static_cast<const std::byte*>(buffer) - arena_->data())
             : staged);
  page.bytes.store(agreed);
  MUSTER_CHECK_OK(barrier_now(deadline));
  direct = true;
  for (int r = 0; r < world_size(); ++r) {
    const auto& theirs = window(r).page();
    const auto& neighbour = neighbours_[static_cast<std::size_t>(r)];
    if (theirs.bytes.load() != agreed) {
      return fail({Code::protocol, "rank " + std::to_string(r) + " calls another collective"});
    }
    const auto offset = theirs.offset.load();
    const auto extent = extents.size() == 1 ? extents[0] : extents[static_cast<std::size_t>(r)];
    if (offset == staged) {
      direct = false;
    } else if (offset > neighbour.arena_size || extent > neighbour.arena_size - offset) {
      return fail(
          {Code::protocol, "rank " + std::to_string(r) + " named memory outside its arena"});
    }
  }
  return {};
}

std::byte* SharedMemory::buffer_of(int r) const {
  return neighbours_[static_cast<std::size_t>(r)].arena_data + window(r).page().offset.load();
}

// Adds elements [begin, begin + count) of all ranks' buffers (or staging memories) into all of
// them.
void SharedMemory::sum_into_all(std::size_t begin, std::size_t count, DType dtype, bool direct) {
  std::vector<void*> buffers;
  for (int r = 0; r < world_size(); ++r) {
    buffers.push_back((direct ? buffer_of(r) : window(r).staging()) + begin * size_of(dtype));
  }
  const std::vector<const void*> inputs(buffers.begin(), buffers.end());
  // Plain stores: the lines to be written are in the caches, as they have just been read.
  add_in_order_to_all(inputs, buffers, count, dtype);
}

Status SharedMemory::all_reduce(void* buffer, std::size_t count, DType dtype, Deadline deadline) {
  const auto width = size_of(dtype), n = static_cast<std::size_t>(world_size());
  bool direct = false;
  MUSTER_CHECK_OK(
      meet(buffer, count * width, count * width, std::vector{count * width}, deadline, direct));
  const auto mine = segment(count, dtype, rank(), world_size());
  shared_bytes_ += (count - mine.size()) * width + mine.size() * width * (n - 1);
  if (direct) {
    sum_into_all(mine.begin, mine.size(), dtype, true);
    return barrier_now(deadline);
  }
  if (count == 0) return barrier_now(deadline);
  auto* bytes = static_cast<std::byte*>(buffer);
  const auto step = staging_bytes / width;
  for (std::size_t at = 0; at < count; at += step) {
    const auto chunk = std::min(step, count - at);
    std::memcpy(window(rank()).staging(), bytes + at * width, chunk * width);
    MUSTER_CHECK_OK(barrier_now(deadline));
    const auto part = segment(chunk, dtype, rank(), world_size());
    sum_into_all(part.begin, part.size(), dtype, false);
    MUSTER_CHECK_OK(barrier_now(deadline));
    std::memcpy(bytes + at * width, window(rank()).staging(), chunk * width);
  }
  return {};
}

Status SharedMemory::reduce_scatter(const void* input, void* output,
                                    std::span<const std::size_t> counts, DType dtype,
                                    Deadline deadline) {
  const auto width = size_of(dtype), total = sum_of(counts);
  const auto me = static_cast<std::size_t>(rank());
  const auto begin = sum_of(counts.first(me)), end = begin + counts[me];
  bool direct = false;
  MUSTER_CHECK_OK(
      meet(input, total * width, total * width, std::vector{total * width}, deadline, direct));
  shared_bytes_ += (total - counts[me]) * width;
  if (direct) {
    std::vector<const void*> inputs;
    for (int r = 0; r < world_size(); ++r) inputs.push_back(buffer_of(r) + begin * width);
    add_in_order(inputs, output, counts[me], dtype);
    return barrier_now(deadline);
  }
  if (total == 0) return barrier_now(deadline);
  const auto step = staging_bytes / width;
  const auto* from = static_cast<const std::byte*>(input);
  auto* to = static_cast<std::byte*>(output);
  // output may lie in input: sums are kept aside until the input has been read.
  std::vector<std::byte> sums(counts[me] * width);
  for (std::size_t at = 0; at < total; at += step) {
    const auto chunk = std::min(step, total - at);
    std::memcpy(window(rank()).staging(), from + at * width, chunk * width);
    MUSTER_CHECK_OK(barrier_now(deadline));
    const auto first = std::max(begin, at), last = std::min(end, at + chunk);
    if (first < last) {
      std::vector<const void*> inputs;
      for (int r = 0; r < world_size(); ++r) {
        inputs.push_back(window(r).staging() + (first - at) * width);
      }
      add_in_order(inputs, sums.data() + (first - begin) * width, last - first, dtype);
    }
    MUSTER_CHECK_OK(barrier_now(deadline));
  }
  if (!sums.empty()) std::memcpy(to, sums.data(), sums.size());
  return {};
}

Status SharedMemory::all_gather(const void* input, void* output,
                                std::span<const std::size_t> counts, DType dtype,
                                Deadline deadline) {
  const auto width = size_of(dtype), me = static_cast<std::size_t>(rank());
  bool direct = false;
  std::vector<std::size_t> extents;
  for (const auto c : counts) extents.push_back(c * width);
  MUSTER_CHECK_OK(meet(input, extents[me], sum_of(counts) * width, extents, deadline, direct));
  shared_bytes_ += counts[me] * width * (static_cast<std::size_t>(world_size()) - 1);
  auto* to = static_cast<std::byte*>(output);
  const auto start = [&](int r) {
    return to + sum_of(counts.first(static_cast<std::size_t>(r))) * width;
  };
  const auto own = counts[me] * width;
  if (own > 0 && start(rank()) != input) std::memmove(start(rank()), input, own);
  const std::size_t longest = *std::max_element(counts.begin(), counts.end()) * width;
  if (longest == 0) return barrier_now(deadline);
  const std::size_t step = direct ? std::max<std::size_t>(longest, 1) : staging_bytes;
  for (std::size_t at = 0; at < longest; at += step) {
    if (!direct) {
      if (at < own) {
        std::memcpy(window(rank()).staging(), static_cast<const std::byte*>(input) + at,
                    std::min(step, own - at));
      }
      MUSTER_CHECK_OK(barrier_now(deadline));
    }
    for (int r = 0; r < world_size(); ++r) {
      const auto theirs = counts[static_cast<std::size_t>(r)] * width;
      if (r == rank() || at >= theirs) continue;
      const auto* from = direct ? buffer_of(r) + at : window(r).staging();
      std::memcpy(start(r) + at, from, std::min(step, theirs - at));
    }
    MUSTER_CHECK_OK(barrier_now(deadline));
  }
  return {};
}

}  // namespace muster::comm
