// Endpoints that do what a test tells them.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "server/routes.h"

namespace quern::test {

// An answer that a test writes while the server sends it.
class Feed {
 public:
  // Calls `ready` after the exchange may have gone, as an engine would.
  void push(std::string_view bytes, bool last = false);
  void fail_next();  // the next take() throws
  void flood();      // every take() gives a mebibyte and there is more
  bool is_gone_within(double seconds) const;  // its exchange
  int takes() const;

 private:
  friend class FeedExchange;

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::string bytes_;
  bool last_ = false, fails_ = false, floods_ = false, gone_ = false;
  int takes_ = 0;
  std::function<void()> ready_;
};

// POST /echo      the body; or {"path": ..., "query": ...} of GET /echo/*
// POST /throw     throws
// POST /big       a body of as many bytes as the request's body says
// POST /stream    a Feed as a stream of events
// POST /whole     a Feed as one answer, status 200
// GET /health     open to all; GET /metrics
std::span<const Route> fake_routes();

// The feed of the next /stream or /whole that comes; waits for it.
std::shared_ptr<Feed> next_feed();

}  // namespace quern::test
