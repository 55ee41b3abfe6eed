#include "server/session.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/system/system_error.hpp>

#include "api/endpoints.h"
#include "base/log.h"
#include "server/framing.h"
#include "server/http_text.h"
#include "server/own_replies.h"
#include "server/pace.h"

namespace quern {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

// How long a body may take, in seconds.
constexpr double kLongestBody = 900;
// The bodies of all connections together may hold so many times the longest.
constexpr size_t kBodiesAtOnce = 8;
// Above this a body is one of those that fill that, in bytes.
constexpr size_t kLargeBody = 64 << 10;
// What is read beyond the longest head, in bytes.
constexpr size_t kReadAhead = 64 << 10;
// How long a client may go on sending what was refused, in seconds.
constexpr double kLinger = 5;
// Logged for a client that did not wait for its answer.
constexpr int kClientGone = 499;
constexpr const char* kPageMethods = "GET, HEAD, OPTIONS";

std::string_view view(boost::beast::string_view text) {
  return {text.data(), text.size()};
}

// The reply to a request that could not be read; nothing if the connection
// ended.
std::optional<ApiReply> refusal(error_code error, const ServerOptions& o) {
  const error_code fault = http::error::bad_method;
  if (error.category() != fault.category() ||
      error == http::error::end_of_stream ||
      error == http::error::partial_message) {
    return {};
  }
  if (error == http::error::header_limit ||
      error == http::error::buffer_overflow) {
    return error_reply(431, fmt::format("the headers have more than {} bytes",
                                        o.max_header_bytes));
  }
  if (error == http::error::body_limit) {
    return error_reply(
        413, fmt::format("the body has more than {} bytes", o.max_body_bytes));
  }
  return error_reply(400,
                     "this is not an HTTP/1.1 request: " + error.message());
}

// The path of a request's target, which may be a whole URL.
std::string_view path_of(std::string_view target) {
  if (target.starts_with("http://")) {
    const size_t path = target.find('/', 7);
    target = path == target.npos ? "/" : target.substr(path);
  }
  return target;
}

}  // namespace

Session::Session(ServerState& state, Socket socket, std::string peer)
    : state_(state),
      socket_(std::move(socket)),
      peer_(std::move(peer)),
      buffer_(state.options.max_header_bytes + kReadAhead),
      timer_(socket_.get_executor()) {}

asio::awaitable<void> Session::run() {
  try {
    bool more = co_await next_request();
    while (more) {
      Turn turn(state_.options, state_.body_bytes);
      try {
        co_await take_turn(turn);
      } catch (const boost::system::system_error&) {
        closing_ = true;
        const bool sent = turn.status != 0 && !cut_.empty();
        if (!turn.id.empty() && !sent) turn.status = status_of_cut();
        turn.cut = cut_;
      }
      if (turn.status != 0) record(turn);
      if (!keeps_alive(turn)) break;
      more = co_await next_request();
    }
  } catch (const std::exception& e) {
    log(LogLevel::error, fmt::format("{}: {}", peer_, e.what()));
  }
  close();
}

// Whether one begins.
asio::awaitable<bool> Session::next_request() {
  if (closing_) co_return false;
  if (buffer_.size() > 0) co_return true;  // sent behind the last one
  idle_ = true;
  expire_in(state_.options.idle_timeout_s);
  error_code error;
  auto token = asio::redirect_error(asio::use_awaitable, error);
  co_await socket_.async_wait(Socket::wait_read, token);
  idle_ = false;
  co_return !error && socket_.is_open();
}

asio::awaitable<void> Session::take_turn(Turn& turn) {
  Shortcut reply;
  try {
    reply = co_await reply_to(turn);
  } catch (const boost::system::system_error&) {
    throw;
  } catch (const std::exception& e) {
    closing_ = true;  // a stream that has begun ends without its last chunk
    ApiReply failure = internal_error_reply(turn.id, e.what());
    if (turn.status == 0) reply = std::move(failure);
  }
  if (reply) co_await send(turn, *reply);
  if (turn.broken || !turn.parser.is_done()) co_await linger();
}

// Nothing if the answer has been sent.
asio::awaitable<Session::Shortcut> Session::reply_to(Turn& turn) {
  Shortcut reply = co_await read_head(turn);
  if (!reply) reply = choose(turn);
  if (!reply) reply = co_await read_body(turn);
  if (!reply) reply = co_await answer(turn);
  co_return reply;
}

asio::awaitable<Session::Shortcut> Session::read_head(Turn& turn) {
  expire_in(state_.options.header_timeout_s);
  error_code error;
  auto token = asio::redirect_error(asio::use_awaitable, error);
  idle_ = true;
  co_await http::async_read_header(socket_, buffer_, turn.parser, token);
  idle_ = false;
  Shortcut reply = refusal(error, state_.options);
  if (error && !reply) throw boost::system::system_error(error);
  const std::string_view given = turn.header("x-request-id").empty()
                                     ? turn.header("request-id")
                                     : turn.header("x-request-id");
  turn.id = sane_id(given) ? std::string(given) : fresh_id();
  turn.method = view(turn.parser.get().method_string());
  const std::string_view target = path_of(view(turn.parser.get().target()));
  const size_t question = std::min(target.find('?'), target.size());
  turn.path = percent_decoded(target.substr(0, question));
  turn.query = target.substr(std::min(question + 1, target.size()));
  if (!reply) reply = framing_refusal(turn.parser.get());
  if (reply) turn.broken = true;
  co_return reply;
}

Session::Shortcut Session::choose(Turn& turn) {
  if (turn.method == "OPTIONS") {
    return preflight_reply(turn.header("access-control-request-headers"));
  }
  const RouteMatch match = find_route(state_.routes, turn.method, turn.path);
  if (!match.route) return without_route(turn, match.allowed);
  turn.route = match.route;
  turn.label = match.route->path;
  if (!match.route->open && !has_key(turn)) return no_key_reply();
  const std::string_view type = turn.header(http::field::content_type);
  if (match.route->takes_body && !type.empty() && !is_json_type(type)) {
    return wrong_type_reply(type);
  }
  const std::string_view coding = turn.header(http::field::content_encoding);
  if (!coding.empty() && coding != "identity") {
    return wrong_coding_reply(coding);
  }
  if (!match.route->endpoint) return metrics_reply();
  return {};
}

Session::Shortcut Session::without_route(Turn& turn,
                                         const std::string& allowed) {
  const PageFile* file = find_page(turn.path);
  if (file && (turn.method == "GET" || turn.method == "HEAD")) {
    turn.label = "page";
    return page_reply(*file, turn.header(http::field::if_none_match));
  }
  if (file) return no_method_reply(turn.method, turn.path, kPageMethods);
  if (allowed.empty()) return no_path_reply(turn.path);
  return no_method_reply(turn.method, turn.path, allowed);
}

ApiReply Session::metrics_reply() const {
  const auto model = state_.service.model();
  std::optional<EngineStats> stats;
  if (model && model->engine) stats = model->engine->stats();
  return {.body = state_.metrics.text({.connections = state_.connections,
                                       .engine = stats ? &*stats : nullptr}),
          .content_type = "text/plain; version=0.0.4; charset=utf-8"};
}

bool Session::has_key(const Turn& turn) const {
  const auto& keys = state_.options.api_keys;
  return keys.empty() ||
         is_known_key(bearer_token(turn.header(http::field::authorization)),
                      keys) ||
         is_known_key(turn.header("x-api-key"), keys);
}

asio::awaitable<Session::Shortcut> Session::read_body(Turn& turn) {
  auto& parser = turn.parser;
  if (parser.is_done()) co_return std::nullopt;
  const std::string_view expect = turn.header(http::field::expect);
  if (!expect.empty() && parser.get().version() >= 11) {
    if (!boost::beast::iequals(expect, "100-continue")) {
      co_return wrong_expectation_reply(expect);
    }
    co_await write(turn, "HTTP/1.1 100 Continue\r\n\r\n");
  }
  const auto begin = Clock::now();
  Pace pace(state_.options.header_timeout_s, begin);
  error_code error;
  auto token = asio::redirect_error(asio::use_awaitable, error);
  const std::string& body = parser.get().body();
  while (!draining_ && !parser.is_done()) {
    deadline_ = std::min(pace.after(body.size(), Clock::now()),
                         begin + to_duration(kLongestBody));
    reading_body_ = true;
    co_await http::async_read_some(socket_, buffer_, parser, token);
    reading_body_ = false;
    if (error && !draining_) {
      turn.broken = true;
      Shortcut reply = refusal(error, state_.options);
      if (!reply) throw boost::system::system_error(error);
      co_return reply;
    }
    const size_t all = turn.share.set(body.size());
    if (body.size() > kLargeBody &&
        all > kBodiesAtOnce * state_.options.max_body_bytes) {
      co_return overload_reply("too many large requests at once");
    }
  }
  if (draining_) co_return shutting_down_reply();
  co_return std::nullopt;
}

asio::awaitable<void> Session::write(Turn& turn, std::string_view bytes) {
  Pace pace(state_.options.write_timeout_s, Clock::now());
  size_t sent = 0;
  while (!bytes.empty()) {
    deadline_ = pace.after(sent, Clock::now());
    const asio::const_buffer buffer(bytes.data(), bytes.size());
    const size_t count =
        co_await socket_.async_write_some(buffer, asio::use_awaitable);
    bytes.remove_prefix(count);
    sent += count;
    turn.bytes += count;
  }
}

// Reads away what a client still sends of a request that was refused: closing
// at once would take the reply from it.
asio::awaitable<void> Session::linger() {
  closing_ = true;
  expire_in(kLinger);
  error_code error;
  socket_.shutdown(Socket::shutdown_send, error);
  auto token = asio::redirect_error(asio::use_awaitable, error);
  while (!error) {
    buffer_.clear();
    const auto space = buffer_.prepare(kReadAhead);
    co_await socket_.async_read_some(space, token);
  }
}

bool Session::keeps_alive(const Turn& turn) const {
  return !closing_ && !turn.broken && turn.parser.is_done() &&
         turn.parser.keep_alive();
}

void Session::record(const Turn& turn) const {
  const double seconds =
      std::chrono::duration<double>(Clock::now() - turn.start).count();
  state_.metrics.observe({.route = turn.label,
                          .status = turn.status,
                          .seconds = seconds,
                          .bytes = turn.bytes,
                          .endings = turn.endings});
  std::string line = fmt::format("{} {} {} {} {} {:.0f} ms {} bytes", turn.id,
                                 peer_, turn.method.empty() ? "-" : turn.method,
                                 turn.path.empty() ? "-" : turn.path,
                                 turn.status, seconds * 1e3, turn.bytes);
  if (!turn.cut.empty()) line += fmt::format(" (cut: {})", turn.cut);
  if (!turn.endings.empty()) {
    int prompt = 0, generated = 0;
    for (const Ending& ending : turn.endings) {
      prompt += ending.prompt_tokens;
      generated += ending.tokens;
    }
    line += fmt::format(" {}+{} tokens", prompt, generated);
  }
  const bool polled = turn.route && turn.route->polled && turn.status < 400;
  log(polled ? LogLevel::debug : LogLevel::info, line);
}

// Of a request whose connection closed before it had one.
int Session::status_of_cut() const {
  if (cut_.empty()) return kClientGone;
  return cut_ == kTooSlow ? 408 : 503;
}

void Session::expire_in(double seconds) {
  deadline_ = Clock::now() + to_duration(seconds);
}

void Session::tick() {
  if (Clock::now() >= deadline_) {
    close(kTooSlow);
  } else if (watching_ && !waiting_) {
    look_for_peer();  // a request behind this one is there: it tells no more
  }
}

void Session::look_for_peer() {
  if (!watching_ || !socket_.is_open()) return;
  pollfd peer{.fd = socket_.native_handle(), .events = POLLRDHUP};
  ::poll(&peer, 1, 0);
  if (peer.revents & (POLLRDHUP | POLLHUP | POLLERR)) close();
}

void Session::drain() {
  closing_ = draining_ = true;
  error_code ignored;
  if (idle_) close();
  if (reading_body_) socket_.cancel(ignored);
}

void Session::finish() {
  finishing_ = true;
  timer_.cancel();
}

void Session::hang_up() { close(kServerEnds); }

void Session::close(std::string_view cut) {
  if (socket_.is_open()) cut_ = cut;
  error_code ignored;
  socket_.close(ignored);
  timer_.cancel();
}

}  // namespace quern
