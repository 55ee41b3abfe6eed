#include "engine/request_queue.h"

#include <algorithm>
#include <iterator>

namespace quern {

RequestQueue::Pushed RequestQueue::push(std::vector<JobPtr> jobs) {
  std::lock_guard lock(mutex_);
  if (closed_ || stopped_) return Pushed::closed;
  const auto waiting = std::ranges::count_if(
      jobs_, [](const JobPtr& job) { return !job->ticket->cancelled(); });
  if (waiting + taken_ + int64_t(jobs.size()) > most_) return Pushed::full;
  for (JobPtr& job : jobs) jobs_.push_back(std::move(job));
  changed_.notify_all();
  return Pushed::yes;
}

bool RequestQueue::wait(bool busy) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return busy || stopped_ || !jobs_.empty(); });
  return !stopped_;
}

bool RequestQueue::wait_for(double seconds) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::duration<double>(seconds),
                           [&] { return stopped_ || !jobs_.empty(); });
}

std::vector<JobPtr> RequestQueue::take_cancelled() {
  std::lock_guard lock(mutex_);
  const auto first = std::stable_partition(
      jobs_.begin(), jobs_.end(),
      [](const JobPtr& job) { return !job->ticket->cancelled(); });
  std::vector<JobPtr> taken(first, jobs_.end());
  jobs_.erase(first, jobs_.end());
  taken_ += int(taken.size());
  return taken;
}

std::vector<JobPtr> RequestQueue::take_all() {
  std::lock_guard lock(mutex_);
  taken_ += int(jobs_.size());
  std::vector<JobPtr> all(jobs_.begin(), jobs_.end());
  jobs_.clear();
  return all;
}

void RequestQueue::ended() {
  std::lock_guard lock(mutex_);
  taken_--;
  if (idle()) changed_.notify_all();
}

int RequestQueue::waiting() const {
  std::lock_guard lock(mutex_);
  return int(jobs_.size());
}

bool RequestQueue::drain(double seconds) {
  std::unique_lock lock(mutex_);
  closed_ = true;
  return changed_.wait_for(lock, std::chrono::duration<double>(seconds),
                           [&] { return idle(); });
}

void RequestQueue::stop() {
  std::lock_guard lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

}  // namespace quern
