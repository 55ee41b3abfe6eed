#include "ops/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace quern {
namespace {

// Each task marks its own place: plain integers, so that the thread sanitizer
// sees a task that ran twice or a job that ended early.
void expect_each_once(ThreadPool& pool, int count) {
  std::vector<int> ran(count);
  pool.run(count, [&](int i) { ran[i]++; });
  for (int i = 0; i < count; i++) ASSERT_EQ(ran[i], 1) << i << " of " << count;
}

TEST(ThreadPool, EachTaskRunsOnce) {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (int count : {0, 1, 2, 3, 7, 100, 10000}) expect_each_once(pool, count);
  }
}

TEST(ThreadPool, ManyShortJobs) {
  ThreadPool pool(3);
  int64_t total = 0;
  for (int job = 0; job < 20000; job++) {
    const int count = job % 5;
    int sums[5] = {};
    pool.run(count, [&](int i) { sums[i] += i + 1; });
    for (int sum : sums) total += sum;
  }
  EXPECT_EQ(total, 20000 / 5 * (0 + 1 + 3 + 6 + 10));
}

// Workers that went to sleep between jobs.
TEST(ThreadPool, JobsAfterAPause) {
  ThreadPool pool(4);
  for (int job = 0; job < 20; job++) {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    expect_each_once(pool, 50);
  }
}

TEST(ThreadPool, ConcurrentCallers) {
  ThreadPool pool(3);
  auto call = [&] {
    for (int job = 0; job < 2000; job++) expect_each_once(pool, job % 17);
  };
  std::thread other(call);
  call();
  other.join();
}

TEST(ThreadPool, ComesAndGoes) {
  for (int i = 0; i < 100; i++) {
    ThreadPool pool(1 + i % 4);
    if (i % 3) expect_each_once(pool, i);
  }
}

// A worker whose core is taken stays away for longer and longer, and starts
// anew once it has kept up for as long as its last rest.
TEST(Rest, DoublesWhileLateAgain) {
  using std::chrono::milliseconds;
  Rest rest;
  Rest::Clock::time_point now{milliseconds(1000)};
  for (int expected : {5, 10, 20, 40, 80, 160, 320, 320}) {
    const auto time = rest.late(now);
    EXPECT_EQ(time, milliseconds(expected));
    now += time + milliseconds(2);
  }
  now += milliseconds(330);
  EXPECT_EQ(rest.late(now), milliseconds(5));
}

// Its tasks are done by others meanwhile.
TEST(ThreadPool, LateWorkersRest) {
  ThreadPool pool(3);
  const auto caller = std::this_thread::get_id();
  for (int job = 0; job < 30; job++) {
    std::atomic<int> ran{0};
    pool.run_even(50, [&](int) {
      ran++;
      if (std::this_thread::get_id() != caller) {
        std::this_thread::sleep_for(std::chrono::milliseconds(3));
      }
    });
    EXPECT_EQ(ran, 50);
  }
}

// Where tasks differ a worker that has a long one is not late: it is there for
// the next job.
TEST(ThreadPool, UnevenTasksCauseNoRest) {
  ThreadPool pool(2);
  const auto caller = std::this_thread::get_id();
  std::atomic<int> helped{0};
  for (int job = 0; job < 40; job++) {
    std::atomic<bool> taken{false};
    pool.run(2, [&](int) {
      if (std::this_thread::get_id() != caller) {
        helped++;
        taken = true;
        std::this_thread::sleep_for(std::chrono::milliseconds(3));
      } else {  // the other task is the worker's, if it comes
        for (int i = 0; i < 200 && !taken; i++) {
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
      }
    });
  }
  EXPECT_EQ(helped, 40);
}

TEST(SharedPool, SetThreads) {
  for (int threads : {1, 3, 2, 3, 3, 5}) {
    set_threads(threads);
    EXPECT_EQ(thread_pool().threads(), threads);
    expect_each_once(thread_pool(), 33);
  }
  set_threads(0);
  EXPECT_EQ(thread_pool().threads(), usable_cores());
  EXPECT_GE(usable_cores(), 1);
  EXPECT_LE(usable_cores(), int(std::thread::hardware_concurrency()));
}

TEST(ParallelFor, RangesCoverAllAndKeepTheGrain) {
  for (int threads : {1, 3}) {
    set_threads(threads);
    for (int count : {0, 1, 9, 64, 1001}) {
      for (int grain : {1, 4, 100}) {
        std::vector<int> ran(count);
        std::atomic<int> least = count, ranges = 0;
        parallel_for(count, grain, [&](int begin, int end) {
          ranges++;
          int size = end - begin, before = least;
          while (size < before && !least.compare_exchange_weak(before, size)) {
          }
          for (int i = begin; i < end; i++) ran[i]++;
        });
        EXPECT_EQ(ran, std::vector<int>(count, 1));
        EXPECT_GE(least, std::min(count, grain));
        EXPECT_LE(ranges, threads == 1 ? 1 : 4 * threads);
      }
    }
  }
  set_threads(0);
}

}  // namespace
}  // namespace quern
