#include "api/mailbox.h"

#include <iterator>

namespace quern {

void Mailbox::put(int choice, std::vector<Event> events) {
  if (events.empty()) return;
  std::function<void()> ready;
  {
    const std::lock_guard lock(mutex_);
    if (letters_.empty()) ready = ready_;
    for (Event& event : events) letters_.push_back({choice, std::move(event)});
  }
  if (ready) ready();
}

std::vector<Mailbox::Letter> Mailbox::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(letters_, {});
}

void Mailbox::set_progress(int choice, Progress progress) {
  const std::lock_guard lock(mutex_);
  progress_[choice] = progress;
}

Progress Mailbox::progress() const {
  const std::lock_guard lock(mutex_);
  Progress sum;
  for (const Progress& one : progress_) {
    sum.fed += one.fed;
    sum.total += one.total;
  }
  return sum;
}

void Mailbox::on_ready(std::function<void()> ready) {
  std::function<void()> call;
  {
    const std::lock_guard lock(mutex_);
    ready_ = std::move(ready);
    if (!letters_.empty()) call = ready_;
  }
  if (call) call();
}

}  // namespace quern
