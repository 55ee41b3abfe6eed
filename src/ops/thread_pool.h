// The threads of the CPU ops.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace quern {

// Cores this process may use: affinity mask and cgroup quota.
int usable_cores();

// How long a worker that keeps others waiting stays away: another program has
// its core. Doubles from 5 ms to 320 ms while it is late again soon after it
// came back.
class Rest {
 public:
  using Clock = std::chrono::steady_clock;

  // It was late now; how long to stay away.
  Clock::duration late(Clock::time_point now);

 private:
  Clock::time_point back_{};  // from its last rest
  Clock::duration last_{};
};

// Runs a job's tasks on the caller and its workers. Tasks are claimed one by
// one, so a worker that lost its core delays the job by one task at most, and
// a worker that never woke up delays it not at all; one that is late with a
// task of the same length as others rests for a while. Workers spin for a short
// while between jobs (a decode step is hundreds of jobs), then sleep.
class ThreadPool {
 public:
  // Throws Error if the system does not give it the threads.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return int(workers_.size()) + 1; }

  // Calls task(i) for every i in [0, count); returns when all are done. A task
  // must not throw, nor call this.
  template <class Task>
  void run(int count, const Task& task) {
    run_job(count, call<Task>, &task, false);
  }
  // The same for tasks of like length: a worker that is late with its last one
  // has lost its core, and rests.
  template <class Task>
  void run_even(int count, const Task& task) {
    run_job(count, call<Task>, &task, true);
  }

 private:
  using TaskFn = void (*)(const void*, int);
  template <class Task>
  static void call(const void* task, int i) {
    (*static_cast<const Task*>(task))(i);
  }

  // What the caller knows of a worker.
  struct alignas(64) Worker {
    std::thread thread;
    std::atomic<bool> inside{false};  // the open job
    std::atomic<bool> late{false};
  };

  void run_job(int count, TaskFn fn, const void* task, bool even);
  void work(Worker& self);
  void take_part(Worker& self);
  void rest(Rest::Clock::duration time);
  void end_workers();
  int claim_tasks();
  void wait_for_workers(Rest::Clock::duration patience);

  std::vector<std::unique_ptr<Worker>> workers_;
  std::mutex callers_;  // one job at a time

  // The open job. Written by the caller while no worker is inside.
  TaskFn fn_ = nullptr;
  const void* task_ = nullptr;
  std::atomic<int> count_{0};

  alignas(64) std::atomic<int> next_{0};
  // Bit 31: a job is open. Lower bits: workers inside it.
  alignas(64) std::atomic<uint32_t> gate_{0};
  alignas(64) std::atomic<uint32_t> epoch_{0};  // bumped for each job
  std::atomic<int> sleepers_{0};
  std::atomic<bool> stop_{false};
};

// The pool all ops share. set_threads replaces it (not while ops run);
// 0 = usable_cores().
ThreadPool& thread_pool();
void set_threads(int threads);

// Splits [0, count) into contiguous ranges of at least `grain`, a few for each
// thread, and calls task(begin, end) on each.
template <class Task>
void parallel_for(int count, int grain, const Task& task) {
  ThreadPool& pool = thread_pool();
  const int most = pool.threads() == 1 ? 1 : pool.threads() * 4;
  int parts = grain > 0 ? count / grain : count;
  parts = parts < 1 ? 1 : parts > most ? most : parts;
  if (parts == 1) {
    if (count > 0) task(0, count);
    return;
  }
  pool.run_even(parts, [&](int i) {
    const int begin = int(int64_t(count) * i / parts);
    const int end = int(int64_t(count) * (i + 1) / parts);
    if (begin < end) task(begin, end);
  });
}

}  // namespace quern
