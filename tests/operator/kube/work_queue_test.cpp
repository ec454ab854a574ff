#include "operator/kube/work_queue.h"

#include <gtest/gtest.h>

#include <thread>

namespace muster::kube {
namespace {

struct Queue {
  double now = 100;
  WorkQueue queue{nullptr, 1000, [this] { return now; }};
};

TEST(WorkQueue, AKeyThatWaitsIsNotAddedAgain) {
  Queue q;
  q.queue.add("a");
  q.queue.add("b");
  q.queue.add("a");
  EXPECT_EQ(q.queue.try_take(), "a");
  EXPECT_EQ(q.queue.try_take(), "b");
  EXPECT_EQ(q.queue.try_take(), std::nullopt);
}

TEST(WorkQueue, AKeyIsWorkedOnByOneAlone) {
  Queue q;
  q.queue.add("a");
  ASSERT_EQ(q.queue.try_take(), "a");
  q.queue.add("a");  // news while it is being worked on
  q.queue.add("a");
  EXPECT_EQ(q.queue.try_take(), std::nullopt);
  q.queue.done("a");
  EXPECT_EQ(q.queue.try_take(), "a");
  q.queue.done("a");
  EXPECT_EQ(q.queue.try_take(), std::nullopt) << "the news came twice, but it is one more round";
}

TEST(WorkQueue, OfSeveralDelaysTheEarliestHolds) {
  Queue q;
  q.queue.add_after("a", 10);
  q.queue.add_after("a", 3);
  q.queue.add_after("a", 30);
  q.now += 2.9;
  EXPECT_EQ(q.queue.try_take(), std::nullopt);
  q.now += 0.2;
  EXPECT_EQ(q.queue.try_take(), "a");
  q.queue.done("a");
  q.now += 100;
  EXPECT_EQ(q.queue.try_take(), std::nullopt);
}

TEST(WorkQueue, DelaysComeInTheirOrder) {
  Queue q;
  q.queue.add_after("late", 2);
  q.queue.add_after("soon", 1);
  q.now += 5;
  EXPECT_EQ(q.queue.try_take(), "soon");
  EXPECT_EQ(q.queue.try_take(), "late");
}

TEST(WorkQueue, FailuresBackOffUntilForgotten) {
  Queue q;
  double expected = 0.005;
  for (int i = 0; i < 25; ++i) {
    q.queue.add_rate_limited("a");
    q.now += std::min(expected, 1000.0) * 0.99;
    EXPECT_EQ(q.queue.try_take(), std::nullopt) << "failure " << i;
    q.now += std::min(expected, 1000.0) * 0.02;
    EXPECT_EQ(q.queue.try_take(), "a") << "failure " << i;
    q.queue.done("a");
    expected *= 2;
  }
  q.queue.forget("a");
  q.queue.add_rate_limited("a");
  q.now += 0.006;
  EXPECT_EQ(q.queue.try_take(), "a");
}

TEST(WorkQueue, OneKeysFailuresAreNotAnothers) {
  Queue q;
  for (int i = 0; i < 10; ++i) {
    q.queue.add_rate_limited("a");
    q.now += 10;
    ASSERT_EQ(q.queue.try_take(), "a");
    q.queue.done("a");
  }
  q.queue.add_rate_limited("a");
  q.queue.add_rate_limited("b");
  q.now += 0.006;
  EXPECT_EQ(q.queue.try_take(), "b");
}

TEST(WorkQueue, ShuttingDownWakesThoseWhoWait) {
  WorkQueue queue;
  std::optional<std::string> taken = "nothing yet";
  std::thread waiter([&] { taken = queue.take(); });
  queue.shut_down();
  waiter.join();
  EXPECT_EQ(taken, std::nullopt);
  queue.add("late");
  EXPECT_EQ(queue.take(), std::nullopt);
}

TEST(WorkQueue, DrainsWhenNothingIsBeingWorkedOn) {
  WorkQueue queue;
  queue.add("a");
  ASSERT_EQ(queue.take(), "a");
  queue.shut_down();
  EXPECT_FALSE(queue.drained(0.001));
  std::thread worker([&] { queue.done("a"); });
  EXPECT_TRUE(queue.drained(30));
  worker.join();
}

TEST(WorkQueue, ManyWorkersNeverShareAKey) {
  WorkQueue queue;
  std::mutex mutex;
  std::set<std::string> at_work;
  std::atomic<int> shared{0}, rounds{0};
  std::vector<std::thread> workers;
  for (int i = 0; i < 4; ++i) {
    workers.emplace_back([&] {
      while (const auto key = queue.take()) {
        {
          const std::lock_guard lock(mutex);
          if (!at_work.insert(*key).second) ++shared;
        }
        ++rounds;
        std::this_thread::yield();
        {
          const std::lock_guard lock(mutex);
          at_work.erase(*key);
        }
        queue.done(*key);
      }
    });
  }
  for (int i = 0; i < 2000; ++i) queue.add("key-" + std::to_string(i % 7));
  while (queue.size() > 0) std::this_thread::yield();
  queue.shut_down();
  for (auto& worker : workers) worker.join();
  EXPECT_EQ(shared, 0);
  EXPECT_GE(rounds, 7);
}

}  // namespace
}  // namespace muster::kube
