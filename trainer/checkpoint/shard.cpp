#include "trainer/checkpoint/shard.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <numeric>
#include <thread>

#include "common/file.h"
#include "trainer/checkpoint/safetensors.h"

namespace muster::checkpoint {
namespace {

// What a snapshot keeps until it is on disk.
struct Snapshot {
  std::string folder;
  ShardRecord record;
  std::vector<std::pair<std::string, std::vector<float>>> states;
};

Result<ShardRecord> write(const Snapshot& snapshot) {
  auto record = snapshot.record;
  const auto path = snapshot.folder + "/" + record.file;
  MUSTER_CHECK_OK(make_folder(path.substr(0, path.find_last_of('/'))));
  std::vector<TensorView> views;
  for (const auto& [name, values] : snapshot.states) {
    views.push_back({name,
                     "F32",
                     {static_cast<std::int64_t>(values.size())},
                     values.data(),
                     values.size() * sizeof(float)});
  }
  MUSTER_TRY(written, write_safetensors(path, views,
                                        {{"begin", std::to_string(record.begin)},
                                         {"end", std::to_string(record.end)}}));
  record.bytes = written.bytes;
  record.sha256 = written.sha256;
  return record;
}

std::int64_t elements(const ParameterLayout& p) {
  return std::accumulate(p.shape.begin(), p.shape.end(), std::int64_t{1}, std::multiplies<>());
}

// Where a parameter lies here and in the checkpoint.
struct Place {
  std::int64_t here = 0, there = 0, count = 0;
};

Result<std::vector<Place>> match(const Layout& ours, const Layout& theirs) {
  std::vector<Place> places;
  for (const auto& p : ours.parameters) {
    const auto found = std::find_if(theirs.parameters.begin(), theirs.parameters.end(),
                                    [&p](const auto& other) { return other.name == p.name; });
    if (found == theirs.parameters.end()) {
      return Error{Code::invalid_job,
                   "the checkpoint has no parameter '" + p.name + "'; it is of another model"};
    }
    if (found->shape != p.shape) {
      return Error{Code::invalid_job, "the checkpoint's parameter '" + p.name +
                                          "' has another shape; it is of another model"};
    }
    places.push_back({p.offset, found->offset, elements(p)});
  }
  return places;
}

// Copies what the shard [begin, end) holds of each parameter, within our [from, to).
void copy(const std::vector<Place>& places, const ShardRecord& shard, const float* source,
          std::int64_t from, std::int64_t to, float* target) {
  for (const auto& p : places) {
    const auto first = std::max({p.here, from, p.here + shard.begin - p.there});
    const auto last = std::min({p.here + p.count, to, p.here + shard.end - p.there});
    if (first >= last) continue;
    std::memcpy(target + first, source + (first - p.here + p.there - shard.begin),
                static_cast<std::size_t>(last - first) * sizeof(float));
  }
}

}  // namespace

struct Writer::Impl {
  std::string folder;
  std::mutex mutex;
  std::condition_variable idle;
  bool busy = false;
  std::thread thread;

  void wait() {
    std::unique_lock lock(mutex);
    idle.wait(lock, [this] { return !busy; });
    if (thread.joinable()) thread.join();
  }
};

Writer::Writer(std::string folder) : impl_(std::make_unique<Impl>()) {
  impl_->folder = std::move(folder);
}

Writer::~Writer() {
  wait_idle();
}

void Writer::wait_idle() {
  impl_->wait();
}

void Writer::snapshot(std::int64_t step, std::uint64_t epoch, int rank, std::int64_t begin,
                      std::int64_t end, std::span<const StateBuffer> buffers, Done done) {
  wait_idle();
  Snapshot snapshot{impl_->folder, {rank, shard_path(step, epoch, rank), begin, end, 0, {}}, {}};
  for (const auto& b : buffers) {
    snapshot.states.emplace_back(b.name, std::vector<float>(b.data + begin, b.data + end));
  }
  impl_->busy = true;
  impl_->thread = std::thread(
      [impl = impl_.get(), snapshot = std::move(snapshot), done = std::move(done)]() mutable {
        done(write(snapshot));
        const std::lock_guard lock(impl->mutex);
        impl->busy = false;
        impl->idle.notify_all();
      });
}

Status load(const std::string& folder, const Index& index, const Layout& layout, std::int64_t begin,
            std::int64_t end, std::span<const StateBuffer> buffers) {
  MUSTER_TRY(places, match(layout, index.layout));
  for (const auto& shard : index.shards) {
    MUSTER_TRY(file, SafetensorsFile::open(folder + "/" + shard.file));
    for (const auto& buffer : buffers) {
      const auto* tensor = file->find(buffer.name);
      const auto bytes = static_cast<std::uint64_t>(shard.end - shard.begin) * sizeof(float);
      if (tensor == nullptr || tensor->dtype != "F32" || tensor->bytes != bytes) {
        return Error{Code::invalid_job, folder + "/" + shard.file + " has no state '" +
                                            buffer.name +
                                            "'; was it written with another optimizer?"};
      }
      copy(places, shard, static_cast<const float*>(tensor->data), begin, end, buffer.data);
    }
  }
  return {};
}

}  // namespace muster::checkpoint
