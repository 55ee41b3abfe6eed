// Requests that wait for a place, first come, first served.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <vector>

#include "engine/job.h"

namespace quern {

// Any thread pushes; the engine's takes.
class RequestQueue {
 public:
  // Holds `most` requests, those that were taken and have not ended included.
  explicit RequestQueue(int most) : most_(most) {}

  enum class Pushed { yes, full, closed };
  // All of them or none. Cancelled ones that wait still take no place.
  Pushed push(std::vector<JobPtr> jobs);

  // Waits for something to do unless the caller is `busy`; false when stopped.
  bool wait(bool busy);
  // Waits so long for a request: whether one came, or the queue was stopped.
  bool wait_for(double seconds);
  // The next request, if `fits(job)`.
  template <class Fits>
  JobPtr take(Fits fits);
  // The cancelled ones, wherever they stand.
  std::vector<JobPtr> take_cancelled();
  // All of them.
  std::vector<JobPtr> take_all();
  // A request that was taken has ended.
  void ended();

  int waiting() const;
  // Takes no more; waits until all have ended, or so long: whether they have.
  bool drain(double seconds);
  void stop();

 private:
  bool idle() const { return jobs_.empty() && taken_ == 0; }

  const int most_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<JobPtr> jobs_;
  int taken_ = 0;
  bool closed_ = false, stopped_ = false;
};

template <class Fits>
JobPtr RequestQueue::take(Fits fits) {
  std::lock_guard lock(mutex_);
  if (jobs_.empty() || !fits(*jobs_.front())) return nullptr;
  JobPtr job = std::move(jobs_.front());
  jobs_.pop_front();
  taken_++;
  return job;
}

}  // namespace quern
