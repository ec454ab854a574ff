#include "trainer/data/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include "trainer/data/order.h"

namespace muster::data {
namespace {

using ::testing::IsEmpty;
constexpr std::uint64_t seed = 7;

// Sample i is the class i. Reading waits at a gate and fails at chosen samples.
class Numbers : public Dataset {
 public:
  explicit Numbers(std::int64_t size) : size_(size) {}
  std::int64_t size() const override { return size_; }
  const Shape& shape() const override { return shape_; }
  Status read(std::span<const std::int64_t> indices, Batch& batch) const override {
    std::unique_lock lock(mutex_);
    ++reads_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
    batch.samples = batch.units = static_cast<std::int64_t>(indices.size());
    batch.classes.assign(indices.begin(), indices.end());
    for (const auto i : indices) {
      if (broken.contains(i)) {
        return Error{Code::io, "sample " + std::to_string(i) + " cannot be read"};
      }
    }
    return {};
  }

  void set_open(bool open) {
    const std::lock_guard lock(mutex_);
    open_ = open;
    changed_.notify_all();
  }
  // Waits until so many reads have begun.
  void wait_for_reads(int count) const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return reads_ >= count; });
  }
  int reads() const {
    const std::lock_guard lock(mutex_);
    return reads_;
  }

  std::set<std::int64_t> broken;

 private:
  std::int64_t size_;
  Shape shape_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable int reads_ = 0;
  bool open_ = true;
};

// Micro-batches of `width` samples over [begin, end).
Loader::Plan plan(std::int64_t begin, std::int64_t end, std::int64_t width) {
  return [begin, end, width, step = std::int64_t{0}]() mutable -> std::optional<MicroBatch> {
    if (begin >= end) return {};
    const MicroBatch next{step++, begin, std::min(begin + width, end)};
    begin = next.end;
    return next;
  };
}

std::vector<std::int64_t> expected(std::int64_t size, std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> indices;
  samples_at(seed, size, begin, end, indices);
  return indices;
}

Error refusal(Loader& loader, const MicroBatch& what) {
  const auto batch = loader.next(what);
  return batch.ok() ? Error{Code::internal, "accepted"} : batch.error();
}

TEST(Loader, GivesThePlansBatchesInItsOrder) {
  const Numbers numbers(10);
  for (const std::size_t depth : {0, 1, 2, 4, 100}) {
    Loader loader(numbers, seed, depth);
    loader.start(plan(0, 25, 3));
    std::int64_t step = 0;
    for (std::int64_t begin = 0; begin < 25; begin += 3, ++step) {
      const auto end = std::min<std::int64_t>(begin + 3, 25);
      const auto batch = loader.next({step, begin, end});
      ASSERT_TRUE(batch.ok()) << batch.error().message;
      EXPECT_EQ((*batch)->classes, expected(10, begin, end)) << "depth " << depth;
      EXPECT_EQ((*batch)->samples, end - begin);
    }
    EXPECT_EQ(step, 9);
  }
}

TEST(Loader, ABatchStaysUntilTheNextCall) {
  const Numbers numbers(100);
  Loader loader(numbers, seed, 2);
  loader.start(plan(0, 100, 10));
  const auto batch = loader.next({0, 0, 10});
  ASSERT_TRUE(batch.ok());
  const auto first = (*batch)->classes;
  numbers.wait_for_reads(3);  // the loader is 2 ahead, in other memory
  EXPECT_EQ((*batch)->classes, first);
  EXPECT_EQ(first, expected(100, 0, 10));
}

TEST(Loader, ReadsNoFurtherAheadThanItsDepth) {
  const Numbers numbers(100);
  std::atomic<int> planned = 0;
  Loader loader(numbers, seed, 3);
  loader.start([&planned, inner = plan(0, 100, 1)]() mutable {
    ++planned;
    return inner();
  });
  numbers.wait_for_reads(3);
  EXPECT_EQ(numbers.reads(), 3);
  for (std::int64_t i = 0; i < 50; ++i) {
    ASSERT_TRUE(loader.next({i, i, i + 1}).ok());
    EXPECT_LE(numbers.reads(), i + 1 + 3);
    EXPECT_LE(planned, i + 1 + 3 + 1);
  }
}

TEST(Loader, AnEmptyMicroBatchTakesNoneOfThePlan) {
  const Numbers numbers(10);
  Loader loader(numbers, seed);
  loader.start(plan(0, 4, 2));
  ASSERT_TRUE(loader.next({0, 0, 2}).ok());
  const auto empty = loader.next({5, 3, 3});
  ASSERT_TRUE(empty.ok());
  EXPECT_EQ((*empty)->samples, 0);
  EXPECT_EQ((*empty)->units, 0);
  EXPECT_THAT((*empty)->classes, IsEmpty());
  const auto batch = loader.next({1, 2, 4});
  ASSERT_TRUE(batch.ok());
  EXPECT_EQ((*batch)->classes, expected(10, 2, 4));
}

TEST(Loader, TheDataSetsErrorComesWithItsBatch) {
  Numbers numbers(10);
  numbers.broken = {expected(10, 2, 3)[0]};
  Loader loader(numbers, seed);
  loader.start(plan(0, 4, 1));
  EXPECT_TRUE(loader.next({0, 0, 1}).ok());
  EXPECT_TRUE(loader.next({1, 1, 2}).ok());
  const auto error = refusal(loader, {2, 2, 3});
  EXPECT_EQ(error.code, Code::io);
  EXPECT_EQ(error.message, "sample " + std::to_string(*numbers.broken.begin()) + " cannot be read");
  const auto after = loader.next({3, 3, 4});  // the memory of the failed one is taken again
  ASSERT_TRUE(after.ok()) << after.error().message;
  EXPECT_EQ((*after)->classes, expected(10, 3, 4));
}

TEST(Loader, AnythingButThePlansNextIsAnError) {
  const Numbers numbers(10);
  for (const MicroBatch wrong : {MicroBatch{1, 0, 2}, MicroBatch{0, 0, 1}, MicroBatch{0, 1, 2}}) {
    Loader loader(numbers, seed);
    loader.start(plan(0, 4, 2));
    const auto error = refusal(loader, wrong);
    EXPECT_EQ(error.code, Code::internal);
    EXPECT_EQ(error.message, "the loader read another micro-batch than the step needs");
  }
}

TEST(Loader, WithoutAPlanAndPastItsEndIsAnError) {
  const Numbers numbers(10);
  Loader loader(numbers, seed);
  for (int i = 0; i < 2; ++i) {
    const auto error = refusal(loader, {0, 0, 1});
    EXPECT_EQ(error.code, Code::internal);
    EXPECT_EQ(error.message, "the loader's plan has ended, or none was started");
    loader.start(plan(0, 1, 1));
    EXPECT_TRUE(loader.next({0, 0, 1}).ok());
  }
}

TEST(Loader, ANewPlanDropsWhatWasReadAhead) {
  const Numbers numbers(10);
  Loader loader(numbers, seed);
  loader.start(plan(0, 100, 2));
  ASSERT_TRUE(loader.next({0, 0, 2}).ok());
  loader.start(plan(2, 8, 3));
  const auto batch = loader.next({0, 2, 5});
  ASSERT_TRUE(batch.ok()) << batch.error().message;
  EXPECT_EQ((*batch)->classes, expected(10, 2, 5));
  ASSERT_TRUE(loader.next({1, 5, 8}).ok());
  loader.start(plan(0, 1, 1));  // after an end
  EXPECT_TRUE(loader.next({0, 0, 1}).ok());
}

// What fails here hangs, until ctest ends it.
TEST(Loader, EndsWhileItReadsAndWhileItIsFull) {
  Numbers numbers(10);
  {
    Loader never_started(numbers, seed);
    Loader full(numbers, seed, 2);
    full.start(plan(0, 100, 1));
    numbers.wait_for_reads(2);
  }
  numbers.set_open(false);
  std::jthread opener;
  {
    Loader reading(numbers, seed, 2);
    reading.start(plan(0, 100, 1));
    numbers.wait_for_reads(3);
    opener = std::jthread([&numbers] { numbers.set_open(true); });
  }
}

TEST(Loader, MeasuresHowLongNextWaits) {
  Numbers numbers(10);
  Loader loader(numbers, seed, 1);
  EXPECT_EQ(loader.waited_seconds(), 0);
  numbers.set_open(false);
  loader.start(plan(0, 4, 1));
  numbers.wait_for_reads(1);
  std::jthread opener([&numbers] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // a time is what is tested
    numbers.set_open(true);
  });
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(loader.next({0, 0, 1}).ok());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  const auto waited = loader.waited_seconds();
  EXPECT_GT(waited, 0.01);
  EXPECT_LE(waited, took.count());
  ASSERT_TRUE(loader.next({1, 1, 2}).ok());
  EXPECT_GE(loader.waited_seconds(), waited);
  const auto before = loader.waited_seconds();
  ASSERT_TRUE(loader.next({2, 2, 2}).ok());  // nothing to wait for
  EXPECT_EQ(loader.waited_seconds(), before);
}

TEST(Loader, RefillsTheMemoryOfSpentBatches) {
  const Numbers numbers(10);
  Loader loader(numbers, seed, 2);
  loader.start(plan(0, 1000, 5));
  std::set<const void*> places;
  for (std::int64_t i = 0; i < 200; ++i) {
    const auto batch = loader.next({i, i * 5, i * 5 + 5});
    ASSERT_TRUE(batch.ok());
    places.insert((*batch)->classes.data());
  }
  EXPECT_LE(places.size(), 8u);  // depth, the one in use, the one being read, and spares
}

}  // namespace
}  // namespace muster::data
