// A rank's part of a checkpoint: written beside the training, read at any world size.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "trainer/checkpoint/index.h"

namespace muster::checkpoint {

// A flat fp32 state buffer of the whole model, by name.
struct StateBuffer {
  std::string name;
  float* data = nullptr;
  std::int64_t count = 0;
};

// Copies [begin, end) of each buffer on the caller's thread and writes the copy on its own. One
// snapshot at a time: a second one waits for the first. A full disk or a failed write is an error
// value to `done`, and the partial file is removed.
class Writer {
 public:
  using Done = std::function<void(const Result<ShardRecord>&)>;
  explicit Writer(std::string folder);
  ~Writer();  // waits for the write in progress
  void snapshot(std::int64_t step, std::uint64_t epoch, int rank, std::int64_t begin,
                std::int64_t end, std::span<const StateBuffer> buffers, Done done);
  void wait_idle();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Fills [begin, end) of each buffer from the index's shards. Parameters are matched by name and
// shape through the layouts, so another padding or order loads too; a missing or misshapen one is
// an error that names it. Padding stays untouched.
Status load(const std::string& folder, const Index& index, const Layout& layout, std::int64_t begin,
            std::int64_t end, std::span<const StateBuffer> buffers);

}  // namespace muster::checkpoint
