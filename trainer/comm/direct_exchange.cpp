#include "trainer/comm/direct_exchange.h"

#include <algorithm>
#include <cstring>

#include "trainer/comm/reduce.h"

namespace muster::comm {
namespace {

constexpr std::size_t chunk_bytes = 256 << 10;

std::byte* bytes_at(const void* base, std::size_t offset) {
  return const_cast<std::byte*>(static_cast<const std::byte*>(base)) + offset;
}

}  // namespace

// A reduction over intervals; with `gather` the sums go back to everyone, in place.
struct DirectExchange::Job {
  const void* input = nullptr;
  void* output = nullptr;           // where the own interval's sum goes
  std::vector<Interval> intervals;  // by rank, in elements of the input
  DType dtype = DType::f32;
  bool gather = false;

  // Chunk c of an interval; empty past its end.
  Interval chunk(int rank, std::size_t c) const {
    const auto& all = intervals[static_cast<std::size_t>(rank)];
    const auto step = chunk_bytes / size_of(dtype);
    const auto begin = std::min(all.begin + c * step, all.end);
    return {begin, std::min(begin + step, all.end)};
  }
  std::size_t chunks() const {
    std::size_t longest = 0;
    for (const auto& i : intervals) longest = std::max(longest, i.size());
    const auto step = chunk_bytes / size_of(dtype);
    return (longest + step - 1) / step;
  }
  Transfer transfer(int peer, void* base, Interval part) const {
    return {peer, bytes_at(base, part.begin * size_of(dtype)), part.size() * size_of(dtype)};
  }
};

// Round c exchanges the parts of chunk c and, when gathering, the sums of chunk c - 1.
Status DirectExchange::reduce(const Job& job, Deadline deadline) {
  const int n = world_size(), me = rank();
  const auto width = size_of(job.dtype);
  const auto chunks = job.chunks();
  staging_.resize(static_cast<std::size_t>(n) * chunk_bytes);
  std::vector<Transfer> sends, receives;
  for (std::size_t c = 0; c < chunks + (job.gather ? 1 : 0); ++c) {
    sends.clear();
    receives.clear();
    const auto mine = job.chunk(me, c);
    for (int p = 0; p < n; ++p) {
      if (p == me) continue;
      if (c > 0 && job.gather) {
        const auto own_sum = job.chunk(me, c - 1), their_sum = job.chunk(p, c - 1);
        if (own_sum.size() > 0) sends.push_back(job.transfer(p, job.output, own_sum));
        if (their_sum.size() > 0) receives.push_back(job.transfer(p, job.output, their_sum));
      }
      const auto theirs = job.chunk(p, c);
      if (theirs.size() > 0) {
        sends.push_back(job.transfer(p, const_cast<void*>(job.input), theirs));
      }
      if (mine.size() > 0) {
        receives.push_back(
            {p, staging_.data() + static_cast<std::size_t>(p) * chunk_bytes, mine.size() * width});
      }
    }
    MUSTER_CHECK_OK(mesh_->exchange(sends, receives, deadline));
    if (mine.size() == 0) continue;
    std::vector<const void*> inputs;
    for (int p = 0; p < n; ++p) {
      inputs.push_back(p == me ? bytes_at(job.input, mine.begin * width)
                               : staging_.data() + static_cast<std::size_t>(p) * chunk_bytes);
    }
    const auto own = job.intervals[static_cast<std::size_t>(me)];
    const auto at = job.gather ? mine.begin : mine.begin - own.begin;
    add_in_order(inputs, bytes_at(job.output, at * width), mine.size(), job.dtype);
  }
  return {};
}

Status DirectExchange::all_reduce(void* buffer, std::size_t count, DType dtype, Deadline deadline) {
  ++calls_;
  Job job{buffer, buffer, {}, dtype, true};
  for (int r = 0; r < world_size(); ++r) {
    job.intervals.push_back(segment(count, dtype, r, world_size()));
  }
  return reduce(job, deadline);
}

Status DirectExchange::reduce_scatter(const void* input, void* output,
                                      std::span<const std::size_t> counts, DType dtype,
                                      Deadline deadline) {
  ++calls_;
  Job job{input, output, {}, dtype, false};
  std::size_t begin = 0;
  for (const auto count : counts) {
    job.intervals.push_back({begin, begin + count});
    begin += count;
  }
  return reduce(job, deadline);
}

Status DirectExchange::all_gather(const void* input, void* output,
                                  std::span<const std::size_t> counts, DType dtype,
                                  Deadline deadline) {
  ++calls_;
  const auto width = size_of(dtype);
  std::vector<Transfer> sends, receives;
  std::size_t begin = 0;
  for (int p = 0; p < world_size(); ++p) {
    const auto bytes = counts[static_cast<std::size_t>(p)] * width;
    if (p == rank()) {
      if (bytes > 0 && bytes_at(output, begin) != input) {
        std::memmove(bytes_at(output, begin), input, bytes);
      }
    } else {
      if (bytes > 0) receives.push_back({p, bytes_at(output, begin), bytes});
      const auto own = counts[static_cast<std::size_t>(rank())] * width;
      if (own > 0) sends.push_back({p, bytes_at(input, 0), own});
    }
    begin += bytes;
  }
  return mesh_->exchange(sends, receives, deadline);
}

Status DirectExchange::broadcast(void* buffer, std::size_t bytes, int root, Deadline deadline) {
  ++calls_;
  std::vector<Transfer> sends, receives;
  if (rank() != root) {
    receives.push_back({root, bytes_at(buffer, 0), bytes});
  } else {
    for (int p = 0; p < world_size(); ++p) {
      if (p != root) sends.push_back({p, bytes_at(buffer, 0), bytes});
    }
  }
  return mesh_->exchange(sends, receives, deadline);
}

Status DirectExchange::send(const void* buffer, std::size_t bytes, int peer, Deadline deadline) {
  ++calls_;
  const Transfer out{peer, bytes_at(buffer, 0), bytes};
  return mesh_->exchange({&out, 1}, {}, deadline);
}

Status DirectExchange::recv(void* buffer, std::size_t bytes, int peer, Deadline deadline) {
  ++calls_;
  const Transfer in{peer, bytes_at(buffer, 0), bytes};
  return mesh_->exchange({}, {&in, 1}, deadline);
}

Status DirectExchange::barrier(Deadline deadline) {
  ++calls_;
  std::vector<Transfer> sends, receives;
  for (int p = 0; p < world_size(); ++p) {
    if (p == rank()) continue;
    sends.push_back({p, nullptr, 0});
    receives.push_back({p, nullptr, 0});
  }
  return mesh_->exchange(sends, receives, deadline);
}

}  // namespace muster::comm
