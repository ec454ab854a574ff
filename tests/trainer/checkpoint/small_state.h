// A small state whose values say where they belong, and checkpoints of it.
#pragma once

#include <string>
#include <vector>

#include "common/file.h"
#include "trainer/checkpoint/shard.h"

namespace muster::checkpoint {

inline Layout layout_of(const std::vector<std::pair<std::string, std::int64_t>>& sizes,
                        std::int64_t padding = 0) {
  Layout layout;
  for (const auto& [name, size] : sizes) {
    layout.parameters.push_back({name, {size}, layout.total});
    layout.total += size + padding;
  }
  return layout;
}

// Value of element i of a buffer at a step.
inline float value(std::int64_t step, std::size_t buffer, std::int64_t i) {
  return static_cast<float>(step * 1000 + static_cast<std::int64_t>(buffer) * 100000 + i);
}

struct State {
  std::vector<std::string> names{"parameters", "exp_avg"};
  std::vector<std::vector<float>> data;
  State(std::int64_t step, std::int64_t total) {
    for (std::size_t b = 0; b < names.size(); ++b) {
      data.emplace_back();
      for (std::int64_t i = 0; i < total; ++i) data[b].push_back(value(step, b, i));
    }
  }
  std::vector<StateBuffer> buffers() {
    std::vector<StateBuffer> all;
    for (std::size_t b = 0; b < names.size(); ++b) {
      all.push_back({names[b], data[b].data(), static_cast<std::int64_t>(data[b].size())});
    }
    return all;
  }
};

// Writes the shards of `world_size` ranks; the index that describes them.
inline Result<Index> write_shards(const std::string& folder, std::int64_t step,
                                  const Layout& layout, int world_size,
                                  const std::string& uid = "uid") {
  Index index;
  index.step = step;
  index.epoch = 1;
  index.job_uid = uid;
  index.spec_hash = "hash";
  index.states = {"parameters", "exp_avg"};
  index.layout = layout;
  State state(step, layout.total);
  Status status;
  for (int rank = 0; rank < world_size; ++rank) {
    Writer writer(folder);
    const auto buffers = state.buffers();
    writer.snapshot(step, 1, rank, layout.total * rank / world_size,
                    layout.total * (rank + 1) / world_size, buffers,
                    [&](const Result<ShardRecord>& shard) {
                      if (shard.ok()) {
                        index.shards.push_back(*shard);
                      } else {
                        status = shard.error();
                      }
                    });
    writer.wait_idle();
  }
  MUSTER_CHECK_OK(status);
  return index;
}

inline Status write_checkpoint(const std::string& folder, std::int64_t step, const Layout& layout,
                               int world_size, const std::string& uid = "uid") {
  MUSTER_TRY(index, write_shards(folder, step, layout, world_size, uid));
  return publish(folder, index);
}

}  // namespace muster::checkpoint
