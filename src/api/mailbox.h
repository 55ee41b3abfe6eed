// Events of one answer on their way from the engine's thread to the reader.
#pragma once

#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "api/event.h"

namespace quern {

struct Progress {
  int fed = 0, total = 0;  // tokens of the prompts
};

// Thread-safe.
class Mailbox {
 public:
  struct Letter {
    int choice;
    Event event;
  };

  explicit Mailbox(int choices) : progress_(choices) {}

  void put(int choice, std::vector<Event> events);
  std::vector<Letter> take();

  void set_progress(int choice, Progress progress);
  Progress progress() const;  // of all choices

  // Called after events were put where there were none, with no lock held;
  // once at once if there are some.
  void on_ready(std::function<void()> ready);
  // No call begins after this.
  void close() { on_ready(nullptr); }

 private:
  mutable std::mutex mutex_;
  std::vector<Letter> letters_;
  std::vector<Progress> progress_;
  std::function<void()> ready_;
};

}  // namespace quern
