#include "trainer/data/loader.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "trainer/data/order.h"

namespace muster::data {
namespace {

struct Item {
  MicroBatch what;
  Batch batch;
  Status status;
};

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

struct Loader::Impl {
  Impl(const Dataset& dataset, std::uint64_t seed, std::size_t depth)
      : dataset(dataset), seed(seed), depth(std::max<std::size_t>(depth, 1)) {}

  void run(std::stop_token stop, const Plan& plan);
  Item read(const MicroBatch& what, Item item);

  const Dataset& dataset;
  const std::uint64_t seed;
  const std::size_t depth;
  std::mutex mutex;
  std::condition_variable_any changed;
  std::deque<Item> ready;
  std::deque<Item> used;  // their memory is taken again
  bool ended = true;      // no plan yet
  Item current;
  double waited = 0;
  std::jthread thread;  // last: it uses all of the above
};

Item Loader::Impl::read(const MicroBatch& what, Item item) {
  std::vector<std::int64_t> indices;
  samples_at(seed, dataset.size(), what.begin, what.end, indices);
  item.what = what;
  item.status = dataset.read(indices, item.batch);
  return item;
}

void Loader::Impl::run(std::stop_token stop, const Plan& plan) {
  while (!stop.stop_requested()) {
    const auto next = plan();
    Item item;
    {
      std::unique_lock lock(mutex);
      if (!next) {
        ended = true;
        changed.notify_all();
        return;
      }
      if (!changed.wait(lock, stop, [this] { return ready.size() < depth; })) return;
      if (!used.empty()) {
        item = std::move(used.front());
        used.pop_front();
      }
    }
    item = read(*next, std::move(item));
    const std::lock_guard lock(mutex);
    ready.push_back(std::move(item));
    changed.notify_all();
  }
}

Loader::Loader(const Dataset& dataset, std::uint64_t seed, std::size_t depth)
    : impl_(std::make_unique<Impl>(dataset, seed, depth)) {}

Loader::~Loader() {
  impl_->thread.request_stop();
  impl_->changed.notify_all();
}

void Loader::start(Plan plan) {
  impl_->thread = {};  // stops and joins
  impl_->ready.clear();
  impl_->ended = false;
  impl_->thread = std::jthread([impl = impl_.get(), plan = std::move(plan)](std::stop_token stop) {
    impl->run(stop, plan);
  });
}

Result<const Batch*> Loader::next(const MicroBatch& expected) {
  auto& my = *impl_;
  if (expected.begin == expected.end) {
    my.current.batch = {};
    return static_cast<const Batch*>(&my.current.batch);
  }
  const auto begin = std::chrono::steady_clock::now();
  std::unique_lock lock(my.mutex);
  my.changed.wait(lock, [&my] { return !my.ready.empty() || my.ended; });
  my.waited += seconds_since(begin);
  if (my.ready.empty())
    return Error{Code::internal, "the loader's plan has ended, or none was started"};
  my.used.push_back(std::move(my.current));
  my.current = std::move(my.ready.front());
  my.ready.pop_front();
  my.changed.notify_all();
  if (!my.current.status.ok()) return my.current.status.error();
  if (my.current.what != expected) {
    return Error{Code::internal, "the loader read another micro-batch than the step needs"};
  }
  return static_cast<const Batch*>(&my.current.batch);
}

double Loader::waited_seconds() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->waited;
}

}  // namespace muster::data
