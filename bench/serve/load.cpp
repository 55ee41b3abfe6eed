#include "serve/load.h"

#include <netdb.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <chrono>
#include <deque>
#include <thread>

#include "serve/caller.h"

namespace quern {
namespace {

constexpr int kTickMs = 20;

class Clock {
 public:
  double now() const {
    const auto since = std::chrono::steady_clock::now() - start_;
    return std::chrono::duration<double>(since).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ =
      std::chrono::steady_clock::now();
};

class File {
 public:
  explicit File(int fd) : fd_(fd) {
    if (fd_ < 0) fail("no more files can be opened");
  }
  ~File() { close(fd_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

sockaddr_in resolve(const LoadOptions& options) {
  const addrinfo hints{.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
  addrinfo* found = nullptr;
  const std::string port = std::to_string(options.port);
  const int error =
      getaddrinfo(options.host.c_str(), port.c_str(), &hints, &found);
  if (error != 0) fail("{}: {}", options.host, gai_strerror(error));
  const auto address = *reinterpret_cast<const sockaddr_in*>(found->ai_addr);
  freeaddrinfo(found);
  return address;
}

class Load {
 public:
  Load(const LoadOptions& options, ProcessWatch* server)
      : options_(options),
        plan_(options),
        figures_(options.warmup_s, last_start()),
        server_(server),
        next_look_(options.warmup_s),
        epoll_(epoll_create1(EPOLL_CLOEXEC)) {
    const sockaddr_in address = resolve(options);
    for (int i = 0; i < options.streams; ++i) {
      callers_.emplace_back(address, options_, figures_, epoll_.fd(), i);
    }
  }

  Figures run() {
    while (start_calls()) {
      pass_events();
      const double now = clock_.now();
      for (Caller& caller : callers_) caller.on_tick(now);
      if (server_ && now >= next_look_ && makes_calls(now)) {
        server_->look(now);
        next_look_ = now + 1;
      }
    }
    if (options_.requests > 0) figures_.end_window(clock_.now());
    return std::move(figures_);
  }

 private:
  double last_start() const {
    return options_.requests > 0 ? 1e18 : options_.warmup_s + options_.seconds;
  }

  bool makes_calls(double now) const {
    return now < last_start() &&
           (options_.requests == 0 || begun_ < options_.requests);
  }

  // Gives each free caller a call; whether there is anything left to wait for.
  bool start_calls() {
    const double now = clock_.now();
    bool waits = makes_calls(now);
    for (Caller& caller : callers_) {
      if (!caller.busy() && now >= caller.free_from() && makes_calls(now)) {
        ++begun_;
        caller.begin(plan_.next(), now);
      }
      waits = waits || caller.busy();
    }
    return waits;
  }

  void pass_events() {
    epoll_event events[256];
    const int count = epoll_wait(epoll_.fd(), events, 256, kTickMs);
    const double now = clock_.now();
    for (int i = 0; i < count; ++i) {
      callers_[events[i].data.u32].on_ready(events[i].events, now);
    }
  }

  const LoadOptions& options_;
  LoadPlan plan_;
  Figures figures_;
  ProcessWatch* server_;
  double next_look_;
  File epoll_;
  std::deque<Caller> callers_;
  Clock clock_;
  int begun_ = 0;
};

bool is_ready(const LoadOptions& options, const sockaddr_in& address) {
  const File socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval timeout{.tv_sec = 1};
  setsockopt(socket.fd(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  const auto* to = reinterpret_cast<const sockaddr*>(&address);
  const std::string request = fmt::format(
      "GET /health HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
      options.host);
  if (connect(socket.fd(), to, sizeof(address)) < 0 ||
      send(socket.fd(), request.data(), request.size(), MSG_NOSIGNAL) < 0) {
    return false;
  }
  char head[12];
  return recv(socket.fd(), head, sizeof(head), MSG_WAITALL) == sizeof(head) &&
         std::string_view(head, sizeof(head)) == "HTTP/1.1 200";
}

}  // namespace

Figures run_load(const LoadOptions& options, ProcessWatch* server) {
  return Load(options, server).run();
}

bool wait_ready(const LoadOptions& options, double seconds) {
  const sockaddr_in address = resolve(options);
  const Clock clock;
  while (!is_ready(options, address)) {
    if (clock.now() >= seconds) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return true;
}

}  // namespace quern
