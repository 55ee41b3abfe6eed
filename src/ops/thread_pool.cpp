#include "ops/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <system_error>

#include "base/error.h"

namespace quern {
namespace {

constexpr uint32_t kOpen = 1u << 31;
constexpr int kSpins = 4000;  // some 50 us between jobs before a worker sleeps

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Cores of the cgroup v2 quota, or 0 without one.
double cgroup_cores() {
  double cores = 0;
  if (FILE* f = std::fopen("/sys/fs/cgroup/cpu.max", "r")) {
    char quota[32];
    double period;
    if (std::fscanf(f, "%31s %lf", quota, &period) == 2 && period > 0 &&
        std::strcmp(quota, "max") != 0) {
      cores = std::atof(quota) / period;
    }
    std::fclose(f);
  }
  return cores;
}

std::unique_ptr<ThreadPool>& shared_pool() {
  static std::unique_ptr<ThreadPool> pool =
      std::make_unique<ThreadPool>(usable_cores());
  return pool;
}

}  // namespace

int usable_cores() {
  int cores = int(std::thread::hardware_concurrency());
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) cores = CPU_COUNT(&set);
  if (const double quota = cgroup_cores(); quota > 0) {
    cores = std::min(cores, int(std::ceil(quota)));
  }
  return std::max(cores, 1);
}

ThreadPool& thread_pool() { return *shared_pool(); }

void set_threads(int threads) {
  if (threads <= 0) threads = usable_cores();
  if (shared_pool()->threads() == threads) return;
  shared_pool() = std::make_unique<ThreadPool>(threads);
}

ThreadPool::ThreadPool(int threads) {
  try {
    for (int i = 1; i < threads; i++) workers_.emplace_back([this] { work(); });
  } catch (const std::system_error& e) {
    const size_t started = workers_.size();
    end_workers();
    fail("cannot start {} threads ({} started): {}", threads, started + 1,
         e.what());
  }
}

ThreadPool::~ThreadPool() { end_workers(); }

void ThreadPool::end_workers() {
  stop_ = true;
  epoch_.fetch_add(1);
  epoch_.notify_all();
  for (auto& worker : workers_) worker.join();
}

void ThreadPool::claim_tasks() {
  for (int i; (i = next_.fetch_add(1)) < count_;) fn_(task_, i);
}

void ThreadPool::run_job(int count, TaskFn fn, const void* task) {
  if (count <= 0) return;
  if (workers_.empty() || count == 1) {
    for (int i = 0; i < count; i++) fn(task, i);
    return;
  }
  std::lock_guard lock(callers_);
  fn_ = fn;
  task_ = task;
  count_ = count;
  next_.store(0);
  gate_.store(kOpen);
  epoch_.fetch_add(1);
  if (sleepers_.load() > 0) epoch_.notify_all();
  claim_tasks();
  gate_.fetch_and(~kOpen);
  for (int spins = 0; gate_.load() != 0; spins++) {
    if (spins < kSpins)
      relax();
    else
      std::this_thread::yield();
  }
}

void ThreadPool::work() {
  uint32_t seen = epoch_.load();
  while (!stop_) {
    uint32_t gate = gate_.load();
    while ((gate & kOpen) && !gate_.compare_exchange_weak(gate, gate + 1)) {
    }
    if (gate & kOpen) {
      seen = epoch_.load();
      claim_tasks();
      gate_.fetch_sub(1);
    }
    for (int spins = 0; epoch_.load() == seen && !stop_; spins++) {
      if (spins < kSpins) {
        relax();
      } else {
        sleepers_.fetch_add(1);
        epoch_.wait(seen);
        sleepers_.fetch_sub(1);
        spins = 0;
      }
    }
    seen = epoch_.load();
  }
}

}  // namespace quern
