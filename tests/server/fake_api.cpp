#include "server/fake_api.h"

#include <chrono>
#include <deque>

#include "base/json.h"
#include "server/client.h"

namespace quern::test {

class FeedExchange : public Exchange {
 public:
  FeedExchange(std::shared_ptr<Feed> feed, bool streamed)
      : feed_(std::move(feed)), streamed_(streamed) {}
  ~FeedExchange() override {
    const std::lock_guard lock(feed_->mutex_);
    feed_->gone_ = true;
    feed_->changed_.notify_all();
  }

  bool streamed() const override { return streamed_; }
  int status() const override { return 200; }
  Headers headers() const override { return {}; }
  Part take() override {
    const std::lock_guard lock(feed_->mutex_);
    ++feed_->takes_;
    if (feed_->fails_) fail("take failed");
    if (feed_->floods_) {
      feed_->ready_();
      return {std::string(1 << 20, 'x'), false};
    }
    return {std::exchange(feed_->bytes_, {}), feed_->last_};
  }
  std::string keepalive() const override { return ": keepalive\n\n"; }
  void on_ready(std::function<void()> ready) override {
    const std::lock_guard lock(feed_->mutex_);
    feed_->ready_ = std::move(ready);
  }
  std::vector<Ending> endings() const override {
    return {{.finish = Finish::stop,
             .prompt_tokens = 7,
             .tokens = 5,
             .timings = {0.5, 1.5, 3.5}}};
  }

 private:
  std::shared_ptr<Feed> feed_;
  bool streamed_;
};

void Feed::push(std::string_view bytes, bool last) {
  std::function<void()> ready;
  {
    const std::lock_guard lock(mutex_);
    bytes_ += bytes;
    last_ = last_ || last;
    ready = ready_;
  }
  if (ready) ready();
}

void Feed::fail_next() {
  {
    const std::lock_guard lock(mutex_);
    fails_ = true;
  }
  push("");
}

void Feed::flood() {
  {
    const std::lock_guard lock(mutex_);
    floods_ = true;
  }
  push("");
}

bool Feed::is_gone_within(double seconds) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::duration<double>(seconds),
                           [&] { return gone_; });
}

int Feed::takes() const {
  const std::lock_guard lock(mutex_);
  return takes_;
}

namespace {

// Feeds that no test has asked for yet.
std::mutex mutex;
std::condition_variable came;
std::deque<std::shared_ptr<Feed>> feeds;

ApiOutcome feed(bool streamed) {
  auto feed = std::make_shared<Feed>();
  const std::lock_guard lock(mutex);
  feeds.push_back(feed);
  came.notify_all();
  return std::make_unique<FeedExchange>(std::move(feed), streamed);
}

ApiOutcome echo(Service&, const ApiRequest& request) {
  return ApiReply{.body = request.body};
}
ApiOutcome echo_path(Service&, const ApiRequest& request) {
  return ApiReply{
      .body = Json{{"path", request.path}, {"query", request.query}}.dump()};
}
ApiOutcome throws(Service&, const ApiRequest&) { fail("no secret"); }
ApiOutcome big(Service&, const ApiRequest& request) {
  return ApiReply{.body = std::string(std::stoul(request.body), 'b')};
}
ApiOutcome stream(Service&, const ApiRequest&) { return feed(true); }
ApiOutcome whole(Service&, const ApiRequest&) { return feed(false); }
ApiOutcome healthy(Service&, const ApiRequest&) {
  return ApiReply{.body = R"({"status": "ok"})"};
}

constexpr Route kRoutes[] = {
    {"POST", "/echo", echo, kTakesBody},
    {"GET", "/echo/*", echo_path},
    {"POST", "/throw", throws, kTakesBody},
    {"POST", "/big", big, kTakesBody},
    {"POST", "/stream", stream, kTakesBody},
    {"POST", "/whole", whole, kTakesBody},
    {"GET", "/metrics", nullptr},
    {"GET", "/health", healthy, kNoBody, kOpen},
};

}  // namespace

std::span<const Route> fake_routes() { return kRoutes; }

std::shared_ptr<Feed> next_feed() {
  std::unique_lock lock(mutex);
  const bool there =
      came.wait_for(lock, std::chrono::duration<double>(Client::kPatience),
                    [] { return !feeds.empty(); });
  if (!there) fail("[tests.next_feed] no request came");
  auto feed = std::move(feeds.front());
  feeds.pop_front();
  return feed;
}

}  // namespace quern::test
