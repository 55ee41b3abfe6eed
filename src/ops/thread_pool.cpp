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
constexpr auto kPatience = std::chrono::microseconds(500);
constexpr Rest::Clock::duration kShortRest = std::chrono::milliseconds(5);
constexpr Rest::Clock::duration kLongRest = std::chrono::milliseconds(320);

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

Rest::Clock::duration Rest::late(Clock::time_point now) {
  const bool again = last_ > Clock::duration::zero() && now - back_ < last_;
  last_ = again ? std::min(2 * last_, kLongRest) : kShortRest;
  back_ = now + last_;
  return last_;
}

ThreadPool::ThreadPool(int threads) {
  try {
    for (int i = 1; i < threads; i++) {
      workers_.push_back(std::make_unique<Worker>());
      Worker& worker = *workers_.back();
      worker.thread = std::thread([this, &worker] { work(worker); });
    }
  } catch (const std::system_error& e) {
    const size_t started = workers_.size();
    end_workers();
    fail("cannot start {} threads ({} started): {}", threads, started,
         e.what());
  }
}

ThreadPool::~ThreadPool() { end_workers(); }

void ThreadPool::end_workers() {
  stop_ = true;
  epoch_.fetch_add(1);
  epoch_.notify_all();
  for (auto& worker : workers_) {
    if (worker->thread.joinable()) worker->thread.join();
  }
}

// Returns how many.
int ThreadPool::claim_tasks() {
  int done = 0;
  for (int i; (i = next_.fetch_add(1)) < count_; done++) fn_(task_, i);
  return done;
}

void ThreadPool::run_job(int count, TaskFn fn, const void* task, bool even) {
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
  const auto start = Rest::Clock::now();
  const int done = claim_tasks();
  gate_.fetch_and(~kOpen);
  if (gate_.load() == 0) return;
  // A worker at its last task may take some times as long as tasks take here.
  wait_for_workers(even ? kPatience + 4 * (Rest::Clock::now() - start) /
                                          std::max(done, 1)
                        : Rest::Clock::duration::max());
}

void ThreadPool::wait_for_workers(Rest::Clock::duration patience) {
  const auto start = Rest::Clock::now();
  bool told = false;
  for (int spins = 1; gate_.load() != 0; spins++) {
    if (spins < kSpins) {
      relax();
      if (spins % 256) continue;
    } else {
      std::this_thread::yield();
    }
    if (told || Rest::Clock::now() - start < patience) continue;
    told = true;
    for (auto& worker : workers_) {
      if (worker->inside) worker->late = true;
    }
  }
}

// Joins the open job, if it has tasks left.
void ThreadPool::take_part(Worker& self) {
  uint32_t gate = gate_.load();
  while ((gate & kOpen) && next_.load() < count_.load()) {
    if (!gate_.compare_exchange_weak(gate, gate + 1)) continue;
    self.inside = true;
    claim_tasks();
    self.inside = false;
    gate_.fetch_sub(1);
    return;
  }
}

void ThreadPool::rest(Rest::Clock::duration time) {
  const auto end = Rest::Clock::now() + time;
  while (!stop_ && Rest::Clock::now() < end) {
    std::this_thread::sleep_for(std::min(time, kShortRest));
  }
}

void ThreadPool::work(Worker& self) {
  Rest lateness;
  while (!stop_) {
    const uint32_t seen = epoch_.load();
    take_part(self);
    if (self.late.exchange(false)) rest(lateness.late(Rest::Clock::now()));
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
  }
}

}  // namespace quern
