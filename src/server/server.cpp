#include "server/server.h"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/resource.h>

#include <algorithm>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <condition_variable>
#include <future>
#include <optional>
#include <thread>
#include <unordered_set>

#include "base/log.h"
#include "server/listener.h"
#include "server/own_replies.h"
#include "server/session.h"

namespace quern {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Protocol = asio::generic::stream_protocol;
using Acceptor = asio::basic_socket_acceptor<Protocol>;

constexpr int kWorkers = 2;

// Every connection needs a file descriptor, and the system's usual limit is
// about as low as the usual number of connections.
void allow_files(int connections) {
  constexpr rlim_t kOthers = 256;
  rlimit limit;
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = rlim_t(connections) + kOthers;
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

std::string name_of(const Session::Socket& socket) {
  error_code error;
  const Protocol::endpoint peer = socket.remote_endpoint(error);
  char host[NI_MAXHOST], port[NI_MAXSERV];
  if (error || peer.data()->sa_family == AF_UNIX ||
      ::getnameinfo(peer.data(), socklen_t(peer.size()), host, sizeof host,
                    port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "unix";
  }
  return fmt::format("{}:{}", host, port);
}

// A connection too many gets an answer if it can take one at once.
void turn_away(Session::Socket socket, const std::string& cors_origin) {
  const ApiReply reply = overload_reply("too many connections");
  const std::string text = head_text({.status = reply.status,
                                      .content_type = reply.content_type,
                                      .length = reply.body.size(),
                                      .keep_alive = false,
                                      .cors_origin = cors_origin,
                                      .headers = reply.headers}) +
                           reply.body;
  error_code ignored;
  socket.non_blocking(true, ignored);
  socket.write_some(asio::buffer(text), ignored);
  socket.shutdown(Session::Socket::shutdown_send, ignored);
}

void log_fault(std::string_view what, const std::exception& e) noexcept {
  try {
    log(LogLevel::error, fmt::format("{}: {}", what, e.what()));
  } catch (const std::exception&) {
    // Not even memory for a line: there is nothing else to be done.
  }
}

// A thread and the connections that live on it.
class IoThread {
 public:
  IoThread() : thread_([this] { run(); }) {}
  ~IoThread() {
    context_.stop();
    thread_.join();
  }
  IoThread(const IoThread&) = delete;
  IoThread& operator=(const IoThread&) = delete;

  asio::io_context& context() { return context_; }

  // Runs `work` on the thread and waits for it.
  void call(std::function<void()> work) {
    std::packaged_task<void()> task(std::move(work));
    auto done = task.get_future();
    asio::post(context_, std::move(task));
    done.get();
  }

  // On the thread from here on. `place` is held until the session has ended.
  void add(std::shared_ptr<Session> session, std::shared_ptr<void> place) {
    auto living = live(std::move(session), std::move(place));
    asio::co_spawn(context_, std::move(living), asio::detached);
  }
  void drain() {
    draining_ = true;
    for (const auto& session : sessions_) session->drain();
  }
  void finish() {
    for (const auto& session : sessions_) session->finish();
  }
  void hang_up() {
    for (const auto& session : sessions_) session->hang_up();
  }

 private:
  // What one connection throws is not the end of the others.
  void run() {
    endless_.async_wait([](error_code) {});
    while (!context_.stopped()) {
      try {
        context_.run_for(Session::kTick);
        for (const auto& session : sessions_) session->tick();
      } catch (const std::exception& e) {
        log_fault("a connection failed", e);
      }
    }
  }

  asio::awaitable<void> live(std::shared_ptr<Session> session,
                             std::shared_ptr<void> place) {
    try {
      sessions_.insert(session);
      if (draining_) session->drain();
      auto running = session->run();
      co_await std::move(running);
    } catch (const std::exception& e) {
      log_fault("a connection failed", e);
    }
    sessions_.erase(session);
  }

  asio::io_context context_{1};
  // Work for the context, which has its files from the start: one that cannot
  // be had when a connection comes would end the accepting coroutine.
  asio::steady_timer endless_{context_, asio::steady_timer::time_point::max()};
  std::unordered_set<std::shared_ptr<Session>> sessions_;
  bool draining_ = false;
  std::thread thread_;  // last
};

}  // namespace

class Server::Impl {
 public:
  Impl(Service& service, ServerOptions options, std::span<const Route> routes)
      : state_{.service = service,
               .options = std::move(options),
               .routes = routes,
               .workers = asio::thread_pool(kWorkers)} {
    allow_files(state_.options.max_connections);
    std::vector<ListeningSocket> listeners;
    if (state_.options.unix_socket.empty()) {
      listeners = listen_tcp(state_.options.host, state_.options.port);
      port_ = listeners[0].port();
    } else {
      listeners.push_back(listen_unix(state_.options.unix_socket));
      socket_file_.emplace(state_.options.unix_socket);
    }
    is_local_ = std::ranges::all_of(listeners, &ListeningSocket::is_local);
    for (int i = 0; i < std::max(1, state_.options.threads); ++i) {
      threads_.push_back(std::make_unique<IoThread>());
    }
    try {
      for (ListeningSocket& listener : listeners) listen(listener);
    } catch (...) {
      stop(0);
      throw;
    }
  }

  ~Impl() { stop(0); }

  int port() const { return port_; }
  bool is_local() const { return is_local_; }
  std::string url() const {
    const ServerOptions& o = state_.options;
    if (!o.unix_socket.empty()) return "unix:" + o.unix_socket.string();
    const bool is_v6 = o.host.find(':') != o.host.npos;
    return fmt::format("http://{}:{}",
                       is_v6 ? fmt::format("[{}]", o.host) : o.host, port_);
  }

  void stop(double seconds) {
    if (threads_.empty()) return;
    threads_[0]->call([this] {
      for (const auto& acceptor : acceptors_) acceptor->close();
      acceptors_.clear();
    });
    for (auto& thread : threads_) thread->call([&] { thread->drain(); });
    if (!wait_until_closed(seconds)) {
      for (auto& thread : threads_) thread->call([&] { thread->finish(); });
    }
    if (!wait_until_closed(kLastWords)) {
      for (auto& thread : threads_) thread->call([&] { thread->hang_up(); });
    }
    wait_until_closed({});
    threads_.clear();
    state_.workers.join();
    socket_file_.reset();
  }

 private:
  // One of the connections that there may be.
  class Place {
   public:
    explicit Place(Impl& impl) : impl_(impl) { ++impl_.state_.connections; }
    ~Place() {
      const std::lock_guard lock(impl_.mutex_);
      --impl_.state_.connections;
      impl_.closed_.notify_all();
    }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

   private:
    Impl& impl_;
  };

  void listen(ListeningSocket& listener) {
    threads_[0]->call([&] {
      const Protocol protocol(listener.family(), 0);
      auto& context = threads_[0]->context();
      auto acceptor =
          std::make_shared<Acceptor>(context, protocol, listener.release());
      acceptors_.push_back(acceptor);
      auto running = accept(acceptor);
      asio::co_spawn(context, std::move(running), asio::detached);
    });
  }

  asio::awaitable<void> accept(std::shared_ptr<Acceptor> acceptor) {
    bool failed = false;
    while (acceptor->is_open()) {
      try {
        if (std::exchange(failed, false)) {
          asio::steady_timer pause(acceptor->get_executor(), kPause);
          co_await pause.async_wait(asio::use_awaitable);
        }
        IoThread& thread = *threads_[next_++ % threads_.size()];
        error_code error;
        auto token = asio::redirect_error(asio::use_awaitable, error);
        Session::Socket socket =
            co_await acceptor->async_accept(thread.context(), token);
        failed = bool(error);
        if (!error) {
          begin(thread, std::move(socket));
        } else if (acceptor->is_open()) {
          log(LogLevel::error,
              fmt::format("cannot accept: {}", error.message()));
        }
      } catch (const std::exception& e) {
        failed = true;
        log_fault("cannot take a connection", e);
      }
    }
  }

  void begin(IoThread& thread, Session::Socket socket) {
    if (state_.connections >= state_.options.max_connections) {
      return turn_away(std::move(socket), state_.options.cors_origin);
    }
    auto place = std::make_shared<Place>(*this);
    error_code ignored;  // of a unix socket, which has no such option
    socket.set_option(asio::ip::tcp::no_delay(true), ignored);
    std::string peer = name_of(socket);
    auto session =
        std::make_shared<Session>(state_, std::move(socket), std::move(peer));
    asio::post(thread.context(),
               [&thread, session, place] { thread.add(session, place); });
  }

  // Whether all connections are; without `seconds` it waits for them.
  bool wait_until_closed(std::optional<double> seconds) {
    std::unique_lock lock(mutex_);
    const auto none = [&] { return state_.connections == 0; };
    if (seconds) {
      return closed_.wait_for(lock, std::chrono::duration<double>(*seconds),
                              none);
    }
    closed_.wait(lock, none);
    return true;
  }

  static constexpr std::chrono::milliseconds kPause{100};
  static constexpr double kLastWords = 0.5;  // to send an error, in seconds

  ServerState state_;
  int port_ = 0;
  bool is_local_ = false;
  std::optional<SocketFile> socket_file_;
  std::mutex mutex_;
  std::condition_variable closed_;
  std::vector<std::unique_ptr<IoThread>> threads_;
  // On the first thread:
  std::vector<std::shared_ptr<Acceptor>> acceptors_;
  size_t next_ = 0;
};

Server::Server(Service& service, ServerOptions options,
               std::span<const Route> routes)
    : impl_(std::make_unique<Impl>(service, std::move(options), routes)) {}

Server::~Server() = default;

int Server::port() const { return impl_->port(); }
std::string Server::url() const { return impl_->url(); }
bool Server::is_local() const { return impl_->is_local(); }
void Server::stop(double seconds) { impl_->stop(seconds); }

}  // namespace quern
