// How a session carries an answer: from the endpoint to the socket.
#include <fmt/format.h>

#include <boost/asio/async_result.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>

#include "server/http_text.h"
#include "server/own_replies.h"
#include "server/session.h"

namespace quern {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

ApiOutcome call(const Route& route, Service& service,
                const ApiRequest& request) {
  try {
    return route.endpoint(service, request);
  } catch (const std::exception& e) {
    return internal_error_reply(request.id, e.what());
  }
}

}  // namespace

// While it lives, the end of the peer ends the session.
class Session::Watch {
 public:
  explicit Watch(Session& session) : session_(session) {
    session_.watching_ = true;
    if (std::exchange(session_.waiting_, true)) return;
    session_.socket_.async_wait(
        Socket::wait_read, [self = session_.shared_from_this()](error_code e) {
          self->waiting_ = false;
          if (!e) self->look_for_peer();
        });
  }
  ~Watch() { session_.watching_ = false; }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  Session& session_;
};

// While it lives, the bell rings when the exchange has more to give.
class Session::Follow {
 public:
  Follow(Session& session, Exchange& exchange)
      : bell_(std::make_shared<Bell>([self = session.shared_from_this()] {
          asio::post(self->socket_.get_executor(),
                     [self] { self->timer_.cancel(); });
        })) {
    exchange.on_ready([bell = bell_] { bell->ring(); });
  }
  ~Follow() { bell_->mute(); }
  Follow(const Follow&) = delete;
  Follow& operator=(const Follow&) = delete;

  Bell& bell() const { return *bell_; }

 private:
  std::shared_ptr<Bell> bell_;
};

// Sends an answer under way, or gives the whole one.
asio::awaitable<Session::Shortcut> Session::answer(Turn& turn) {
  ApiOutcome outcome = co_await ask(turn);
  turn.share.set(0);  // the body has gone
  if (auto* reply = std::get_if<ApiReply>(&outcome)) {
    co_return std::move(*reply);
  }
  auto& exchange = *std::get<std::unique_ptr<Exchange>>(outcome);
  try {
    const Watch watch(*this);
    const Follow follow(*this, exchange);
    co_await carry(turn, exchange, follow.bell());
  } catch (...) {
    turn.endings = exchange.endings();
    throw;
  }
  turn.endings = exchange.endings();
  co_return std::nullopt;
}

asio::awaitable<ApiOutcome> Session::ask(Turn& turn) {
  deadline_ = Clock::time_point::max();
  const ApiRequest request{
      .method = turn.method,
      .path = turn.path,
      .query = turn.query,
      .content_type = std::string(turn.header(http::field::content_type)),
      .body = std::move(turn.parser.get().body()),
      .id = turn.id};
  if (!turn.route->takes_body) {
    co_return call(*turn.route, state_.service, request);
  }
  co_return co_await on_workers(turn, request);
}

asio::awaitable<ApiOutcome> Session::on_workers(const Turn& turn,
                                                const ApiRequest& request) {
  auto initiate = [&](auto handler) {
    asio::post(state_.workers, [this, &turn, &request,
                                handler = std::move(handler)]() mutable {
      ApiOutcome outcome = call(*turn.route, state_.service, request);
      const auto session = asio::get_associated_executor(handler);
      asio::post(session, [handler = std::move(handler),
                           outcome = std::move(outcome)]() mutable {
        std::move(handler)(std::move(outcome));
      });
    });
  };
  return asio::async_initiate<const asio::use_awaitable_t<>, void(ApiOutcome)>(
      initiate, asio::use_awaitable);
}

// A stream goes out as it comes, several events in one write when the reader
// is behind; an answer in one piece is collected first.
asio::awaitable<void> Session::carry(Turn& turn, Exchange& exchange,
                                     Bell& bell) {
  const bool streamed = exchange.streamed();
  const bool chunked = turn.parser.get().version() >= 11;
  const auto framed = [&](std::string bytes) {
    return chunked ? chunk(bytes) : bytes;
  };
  std::string out, whole;
  if (streamed) {
    turn.status = 200;
    if (!chunked) closing_ = true;  // the connection's end is the stream's
    out = stream_head(turn, chunked);
  }
  while (true) {
    Exchange::Part part = exchange.take();
    if (streamed) {
      out += framed(std::move(part.bytes));
      if (part.last && chunked) out += "0\r\n\r\n";
      co_await write(turn, out);
      out.clear();
    } else {
      whole += part.bytes;
    }
    if (part.last) break;
    const bool rang = co_await wait(bell);
    if (finishing_) {
      co_await break_off(turn, chunked);
      co_return;
    }
    if (streamed && !rang) out = framed(exchange.keepalive());
  }
  if (!streamed) {
    const ApiReply reply{.status = exchange.status(),
                         .body = std::move(whole),
                         .headers = exchange.headers()};
    co_await send(turn, reply);
  }
}

// The error that is the end of an answer when the server ends.
asio::awaitable<void> Session::break_off(Turn& turn, bool chunked) {
  turn.cut = kServerEnds;
  const ApiReply reply = shutting_down_reply();
  if (turn.status == 0) {
    co_await send(turn, reply);
    co_return;
  }
  const std::string event = fmt::format("data: {}\n\n", reply.body);
  const std::string out = chunked ? chunk(event) + "0\r\n\r\n" : event;
  co_await write(turn, out);
}

// Until there is more to send, or the keepalive is due: whether it rang.
// Throws once the connection is closed.
asio::awaitable<bool> Session::wait(Bell& bell) {
  deadline_ = Clock::time_point::max();
  const auto due = Clock::now() + to_duration(state_.options.keepalive_s);
  while (true) {
    if (!socket_.is_open()) {
      throw boost::system::system_error(asio::error::connection_aborted);
    }
    if (bell.taken()) co_return true;
    if (finishing_) co_return false;
    if (Clock::now() >= due) co_return false;
    timer_.expires_at(due);  // cancelled by a ring, perhaps a late one
    error_code error;
    auto token = asio::redirect_error(asio::use_awaitable, error);
    co_await timer_.async_wait(token);
  }
}

ReplyHead Session::head_of(const Turn& turn) const {
  return {.status = turn.status,
          .keep_alive = keeps_alive(turn),
          .id = turn.id,
          .cors_origin = state_.options.cors_origin};
}

std::string Session::stream_head(const Turn& turn, bool chunked) const {
  ReplyHead head = head_of(turn);
  head.content_type = "text/event-stream; charset=utf-8";
  head.chunked = chunked;
  head.headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
  return head_text(head);
}

asio::awaitable<void> Session::send(Turn& turn, const ApiReply& reply) {
  turn.status = reply.status;
  ReplyHead head = head_of(turn);
  head.content_type = reply.content_type;
  head.headers = reply.headers;
  const bool bodiless = reply.status == 204 || reply.status == 304;
  if (!bodiless) head.length = reply.body.size();
  std::string out = head_text(head);
  if (turn.method != "HEAD") out += reply.body;
  co_await write(turn, out);
}

}  // namespace quern
