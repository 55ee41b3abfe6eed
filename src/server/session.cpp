#include "server/session.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <boost/asio/async_result.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/system/system_error.hpp>

#include "api/endpoints.h"
#include "base/log.h"
#include "base/str.h"
#include "server/http_text.h"
#include "server/page.h"

namespace quern {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

// A body that comes slower than this, in bytes a second, has no end.
constexpr double kSlowestBody = 1024;
// The bodies of all connections together may hold so many times the longest.
constexpr size_t kBodiesAtOnce = 8;
// How long a client may go on sending what was refused.
constexpr double kLinger = 5;
// Logged for a client that did not wait for its answer.
constexpr int kClientGone = 499;

std::chrono::nanoseconds to_duration(double seconds) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(seconds));
}

// The bytes of a body, counted in a sum of all bodies while it lives.
class BodyShare {
 public:
  explicit BodyShare(std::atomic<size_t>& sum) : sum_(sum) {}
  ~BodyShare() { sum_ -= bytes_; }
  BodyShare(const BodyShare&) = delete;
  BodyShare& operator=(const BodyShare&) = delete;

  bool grow(size_t bytes, size_t most) {
    sum_ += bytes - bytes_;
    bytes_ = bytes;
    return sum_ <= most;
  }

 private:
  std::atomic<size_t>& sum_;
  size_t bytes_ = 0;
};

std::string_view view(boost::beast::string_view text) {
  return {text.data(), text.size()};
}

// The reply to a request that could not be read; nothing if the connection
// ended.
std::optional<ApiReply> refusal(error_code error, const ServerOptions& o) {
  static const auto& faults = error_code(http::error::bad_method).category();
  if (error.category() != faults || error == http::error::end_of_stream ||
      error == http::error::partial_message) {
    return {};
  }
  if (error == http::error::header_limit ||
      error == http::error::buffer_overflow) {
    return error_reply(431, fmt::format("the headers have more than {} bytes",
                                        o.max_header_bytes));
  }
  if (error == http::error::body_limit) {
    return error_reply(413, fmt::format("the body has more than {} bytes",
                                        o.max_body_bytes));
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

ApiReply preflight(std::string_view asked_headers) {
  const bool sane = asked_headers.size() <= 1024 &&
                    asked_headers.find_first_of("\r\n") == asked_headers.npos;
  const std::string headers(sane && !asked_headers.empty() ? asked_headers
                                                           : "*");
  return {.status = 204,
          .content_type = {},
          .headers = {{"Allow", "GET, HEAD, POST, OPTIONS"},
                      {"Access-Control-Allow-Methods",
                       "GET, HEAD, POST, OPTIONS"},
                      {"Access-Control-Allow-Headers", headers},
                      {"Access-Control-Max-Age", "86400"}}};
}

ApiReply page_reply(const PageFile& file, std::string_view known_etag) {
  ApiReply reply{
      .content_type = std::string(file.content_type),
      .headers = {{"ETag", std::string(file.etag)},
                  {"Cache-Control", "no-cache"},
                  {"Referrer-Policy", "no-referrer"},
                  {"Content-Security-Policy",
                   "default-src 'self'; object-src 'none'; base-uri 'none'; "
                   "form-action 'none'; frame-ancestors 'none'"}}};
  if (known_etag == file.etag) {
    reply.status = 304;
    reply.content_type.clear();
  } else {
    reply.body = file.bytes;
  }
  return reply;
}

ApiReply internal_error(std::string_view id, std::string_view reason) {
  log(LogLevel::error, fmt::format("{} failed: {}", id, reason));
  return error_reply(
      500, fmt::format("internal error; the server's log has it as {}", id),
      "server_error");
}

ApiOutcome call(const Route& route, Service& service,
                const ApiRequest& request) {
  try {
    return route.endpoint(service, request);
  } catch (const std::exception& e) {
    return internal_error(request.id, e.what());
  }
}

}  // namespace

struct Session::Turn {
  explicit Turn(ServerState& state) : share(state.body_bytes) {
    parser.header_limit(std::uint32_t(state.options.max_header_bytes));
    parser.body_limit(state.options.max_body_bytes);
  }

  std::string_view header(http::field name) const {
    return view(parser.get()[name]);
  }
  std::string_view header(std::string_view name) const {
    return view(parser.get()[{name.data(), name.size()}]);
  }

  http::request_parser<http::string_body> parser;
  const Clock::time_point start = Clock::now();
  std::string id, method, path, query;
  const Route* route = nullptr;
  std::string_view label = "none";  // in the metrics
  BodyShare share;
  bool broken = false;  // what follows on the connection cannot be read
  int status = 0;       // 0: no reply yet
  size_t bytes = 0;     // written
  std::vector<Ending> endings = {};
};

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

Session::Session(ServerState& state, Socket socket, std::string peer)
    : state_(state),
      socket_(std::move(socket)),
      peer_(std::move(peer)),
      timer_(socket_.get_executor()) {}

asio::awaitable<void> Session::run() {
  try {
    bool more = co_await next_request();
    while (more) {
      Turn turn(state_);
      try {
        co_await take_turn(turn);
      } catch (const boost::system::system_error&) {
        closing_ = true;
        if (!turn.id.empty()) turn.status = kClientGone;
      }
      if (turn.status != 0) record(turn);
      if (!keeps_alive(turn)) break;
      more = co_await next_request();
    }
  } catch (const std::exception& e) {
    log(LogLevel::error, fmt::format("{}: {}", peer_, e.what()));
  }
  hang_up();
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
  Shortcut reply = co_await read_head(turn);
  if (!reply) reply = choose(turn);
  if (!reply) reply = co_await read_body(turn);
  if (!reply) reply = co_await answer(turn);
  if (reply) co_await send(turn, *reply);
  if (turn.broken || !turn.parser.is_done()) co_await linger();
}

asio::awaitable<Session::Shortcut> Session::read_head(Turn& turn) {
  expire_in(state_.options.header_timeout_s);
  error_code error;
  auto token = asio::redirect_error(asio::use_awaitable, error);
  co_await http::async_read_header(socket_, buffer_, turn.parser, token);
  if (error) turn.broken = true;
  Shortcut reply = refusal(error, state_.options);
  if (error && !reply) throw boost::system::system_error(error);
  const std::string_view given = turn.header("x-request-id").empty()
                                     ? turn.header("request-id")
                                     : turn.header("x-request-id");
  turn.id = sane_id(given) ? std::string(given) : fresh_id();
  turn.method = view(turn.parser.get().method_string());
  const std::string_view target =
      path_of(view(turn.parser.get().target()));
  const size_t question = std::min(target.find('?'), target.size());
  turn.path = percent_decoded(target.substr(0, question));
  turn.query = target.substr(std::min(question + 1, target.size()));
  co_return reply;
}

Session::Shortcut Session::choose(Turn& turn) {
  if (turn.method == "OPTIONS") {
    return preflight(turn.header("access-control-request-headers"));
  }
  const RouteMatch match = find_route(state_.routes, turn.method, turn.path);
  if (!match.route) return without_route(turn, match.allowed);
  turn.route = match.route;
  turn.label = match.route->path;
  if (!match.route->open && !has_key(turn)) {
    ApiReply reply =
        error_reply(401, "a valid API key is needed, as Authorization: Bearer",
                    "authentication_error", {}, "invalid_api_key");
    reply.headers.emplace_back("WWW-Authenticate", "Bearer");
    return reply;
  }
  const std::string_view type = turn.header(http::field::content_type);
  if (match.route->takes_body && !type.empty() && !is_json_type(type)) {
    return error_reply(
        415, fmt::format("expected content type application/json, got {}",
                         in_quotes(type)));
  }
  const std::string_view coding = turn.header(http::field::content_encoding);
  if (!coding.empty() && coding != "identity") {
    return error_reply(415, fmt::format("expected a body without content "
                                        "encoding, got {}",
                                        in_quotes(coding)));
  }
  if (!match.route->endpoint) return metrics_reply();
  return {};
}

Session::Shortcut Session::without_route(Turn& turn,
                                         const std::string& allowed) {
  const bool reads = turn.method == "GET" || turn.method == "HEAD";
  const PageFile* file = find_page(turn.path);
  if (file && reads) {
    turn.label = "page";
    return page_reply(*file, turn.header(http::field::if_none_match));
  }
  if (!allowed.empty() || file) {
    const std::string methods = file ? "GET, HEAD, OPTIONS" : allowed;
    ApiReply reply = error_reply(
        405, fmt::format("{} is not for {}: expected {}",
                         in_quotes(turn.method), in_quotes(turn.path),
                         methods));
    reply.headers.emplace_back("Allow", methods);
    return reply;
  }
  return error_reply(404, fmt::format("there is no {} here (GET /v1 lists what "
                                      "there is)",
                                      in_quotes(turn.path)));
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
      co_return error_reply(
          417, fmt::format("expected 100-continue, got {}", in_quotes(expect)));
    }
    co_await write(turn, "HTTP/1.1 100 Continue\r\n\r\n");
  }
  const Clock::time_point begin = Clock::now();
  error_code error;
  auto token = asio::redirect_error(asio::use_awaitable, error);
  const std::string& body = parser.get().body();
  while (!parser.is_done()) {
    expire_in(state_.options.header_timeout_s);
    deadline_ = std::min(
        deadline_, begin + to_duration(state_.options.header_timeout_s +
                                       double(body.size()) / kSlowestBody));
    co_await http::async_read_some(socket_, buffer_, parser, token);
    if (error) {
      turn.broken = true;
      Shortcut reply = refusal(error, state_.options);
      if (!reply) throw boost::system::system_error(error);
      co_return reply;
    }
    if (!turn.share.grow(body.size(),
                         kBodiesAtOnce * state_.options.max_body_bytes)) {
      ApiReply reply = error_reply(
          503, "too many large requests at once: try again later",
          "server_error");
      reply.headers.emplace_back("Retry-After", "1");
      co_return reply;
    }
  }
  co_return std::nullopt;
}

// Sends an answer under way, or gives the whole one.
asio::awaitable<Session::Shortcut> Session::answer(Turn& turn) {
  deadline_ = Clock::time_point::max();
  const ApiRequest request{
      .method = turn.method,
      .path = turn.path,
      .query = turn.query,
      .content_type = std::string(turn.header(http::field::content_type)),
      .body = std::move(turn.parser.get().body()),
      .id = turn.id};
  ApiOutcome outcome;
  if (turn.route->takes_body) {
    outcome = co_await on_workers(turn, request);
  } else {
    outcome = call(*turn.route, state_.service, request);
  }
  if (auto* reply = std::get_if<ApiReply>(&outcome)) {
    co_return std::move(*reply);
  }
  auto& exchange = *std::get<std::unique_ptr<Exchange>>(outcome);
  try {
    const Watch watch(*this);
    const Follow follow(*this, exchange);
    co_await carry(turn, exchange, follow.bell());
    turn.endings = exchange.endings();
  } catch (const boost::system::system_error&) {
    throw;
  } catch (const std::exception& e) {
    closing_ = true;  // a stream that has begun ends without its last chunk
    ApiReply failure = internal_error(turn.id, e.what());
    if (turn.status == 0) co_return failure;
  }
  co_return std::nullopt;
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
    if (streamed && !rang) out = framed(exchange.keepalive());
  }
  if (!streamed) {
    const ApiReply reply{.status = exchange.status(),
                         .body = std::move(whole)};
    co_await send(turn, reply);
  }
}

// Until there is more to send, or the keepalive is due: whether it rang.
// Throws once the connection is closed.
asio::awaitable<bool> Session::wait(Bell& bell) {
  deadline_ = Clock::time_point::max();
  bool rang = bell.taken();
  if (!rang) {
    timer_.expires_after(to_duration(state_.options.keepalive_s));
    error_code error;
    auto token = asio::redirect_error(asio::use_awaitable, error);
    co_await timer_.async_wait(token);
    rang = bell.taken();
  }
  if (!socket_.is_open()) {
    throw boost::system::system_error(asio::error::connection_aborted);
  }
  co_return rang;
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

asio::awaitable<void> Session::write(Turn& turn, std::string_view bytes) {
  while (!bytes.empty()) {
    expire_in(state_.options.write_timeout_s);
    const asio::const_buffer buffer(bytes.data(), bytes.size());
    const size_t count =
        co_await socket_.async_write_some(buffer, asio::use_awaitable);
    bytes.remove_prefix(count);
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
    const auto space = buffer_.prepare(64 << 10);
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
  std::string line =
      fmt::format("{} {} {} {} {} {:.0f} ms {} bytes", turn.id, peer_,
                  turn.method.empty() ? "-" : turn.method,
                  turn.path.empty() ? "-" : turn.path, turn.status,
                  seconds * 1e3, turn.bytes);
  if (!turn.endings.empty()) {
    int prompt = 0, generated = 0;
    for (const Ending& ending : turn.endings) {
      prompt += ending.prompt_tokens;
      generated += ending.tokens;
    }
    line += fmt::format(" {}+{} tokens", prompt, generated);
  }
  log(LogLevel::info, line);
}

void Session::expire_in(double seconds) {
  deadline_ = Clock::now() + to_duration(seconds);
}

void Session::tick() {
  if (Clock::now() >= deadline_) {
    hang_up();
  } else if (watching_ && !waiting_) {
    look_for_peer();  // a request behind this one is there: it tells no more
  }
}

void Session::look_for_peer() {
  if (!watching_ || !socket_.is_open()) return;
  pollfd peer{.fd = socket_.native_handle(), .events = POLLRDHUP};
  ::poll(&peer, 1, 0);
  if (peer.revents & (POLLRDHUP | POLLHUP | POLLERR)) hang_up();
}

void Session::drain() {
  closing_ = true;
  if (idle_) hang_up();
}

void Session::hang_up() {
  error_code ignored;
  socket_.close(ignored);
  timer_.cancel();
}

}  // namespace quern
