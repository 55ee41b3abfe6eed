// One connection: its requests one after the other.
#pragma once

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "api/exchange.h"
#include "server/bell.h"
#include "server/metrics.h"
#include "server/reply_head.h"
#include "server/routes.h"
#include "server/server.h"
#include "server/turn.h"

namespace quern {

// What the sessions share.
struct ServerState {
  Service& service;
  const ServerOptions options;
  const std::span<const Route> routes;
  Metrics metrics;
  boost::asio::thread_pool workers;  // for endpoints that may be slow
  std::atomic<int> connections = 0;
  std::atomic<size_t> body_bytes = 0;  // of requests, held now
};

// Everything here is called on the connection's own thread.
class Session : public std::enable_shared_from_this<Session> {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;

  // `peer` names the other side in the log.
  Session(ServerState& state, Socket socket, std::string peer);

  // Until the connection is closed.
  boost::asio::awaitable<void> run();

  void tick();     // to be called every kTick
  void drain();    // closes once the answer under way is out
  void finish();   // ends an answer under way with an error
  void hang_up();  // closes at once

  static constexpr std::chrono::milliseconds kTick{100};

 private:
  using Clock = std::chrono::steady_clock;
  class Watch;
  class Follow;
  // A reply at hand, or nothing: then the request goes on.
  using Shortcut = std::optional<ApiReply>;

  boost::asio::awaitable<bool> next_request();
  boost::asio::awaitable<void> take_turn(Turn& turn);
  boost::asio::awaitable<Shortcut> reply_to(Turn& turn);
  boost::asio::awaitable<Shortcut> read_head(Turn& turn);
  Shortcut choose(Turn& turn);
  Shortcut without_route(Turn& turn, const std::string& allowed);
  ApiReply metrics_reply() const;
  bool has_key(const Turn& turn) const;
  boost::asio::awaitable<Shortcut> read_body(Turn& turn);
  boost::asio::awaitable<Shortcut> answer(Turn& turn);
  boost::asio::awaitable<ApiOutcome> ask(Turn& turn);
  boost::asio::awaitable<ApiOutcome> on_workers(const Turn& turn,
                                                const ApiRequest& request);
  boost::asio::awaitable<void> carry(Turn& turn, Exchange& exchange,
                                     Bell& bell);
  boost::asio::awaitable<bool> wait(Bell& bell);
  boost::asio::awaitable<void> break_off(Turn& turn, bool chunked);
  boost::asio::awaitable<void> send(Turn& turn, const ApiReply& reply);
  boost::asio::awaitable<void> write(Turn& turn, std::string_view bytes);
  boost::asio::awaitable<void> linger();

  ReplyHead head_of(const Turn& turn) const;
  std::string stream_head(const Turn& turn, bool chunked) const;
  bool keeps_alive(const Turn& turn) const;
  void record(const Turn& turn) const;
  int status_of_cut() const;
  void expire_in(double seconds);
  static Clock::duration to_duration(double seconds) {
    return std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double>(seconds));
  }
  void look_for_peer();
  // At once. `cut` says why where it is not the client who ends.
  void close(std::string_view cut = {});

  ServerState& state_;
  Socket socket_;
  const std::string peer_;
  boost::beast::flat_buffer buffer_;  // read, not parsed yet
  boost::asio::steady_timer timer_;   // of wait()
  Clock::time_point deadline_ = Clock::time_point::max();
  bool idle_ = false;      // waits for a request or the rest of its head
  bool closing_ = false;   // takes no further request
  bool draining_ = false;  // no request whose body is to come yet
  bool finishing_ = false;
  bool reading_body_ = false;
  std::string_view cut_ = {};  // see close()
  bool watching_ = false;  // an answer is under way: the peer's end cancels it
  bool waiting_ = false;   // for bytes of the peer, while watching
};

}  // namespace quern
