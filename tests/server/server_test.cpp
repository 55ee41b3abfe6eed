// The server's HTTP, over sockets, against endpoints that do what a test says.
#include "server/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <optional>
#include <thread>

#include "base/json.h"
#include "base/log.h"
#include "base/temp_dir.h"
#include "server/client.h"
#include "server/fake_api.h"
#include "server/page.h"

namespace quern::test {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

class ServerTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { set_log_level(LogLevel::off); }

  Server& start(ServerOptions options = {}) {
    options.port = 0;
    server_.emplace(service_, std::move(options), fake_routes());
    return *server_;
  }
  int port() const { return server_->port(); }

  // What is counted is counted soon, not at once.
  bool metrics_have(const std::string& line) {
    for (int i = 0; i < 500; ++i) {
      const HttpAnswer answer = ask(request("GET", "/metrics"));
      if (answer.body.find("\n" + line + "\n") != std::string::npos) {
        return true;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

  HttpAnswer ask(std::string_view bytes) {
    Client client(port());
    client.send(bytes);
    return client.read();
  }

  Service service_;
  std::optional<Server> server_;
};

// The error object of a reply in OpenAI's form.
Json error_of(const HttpAnswer& answer) {
  const Json error =
      parse_json(answer.body, "the answer").or_throw().at("error");
  EXPECT_TRUE(error.at("message").is_string());
  EXPECT_TRUE(error.contains("type") && error.contains("param") &&
              error.contains("code"));
  return error;
}

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

TEST_F(ServerTest, AnswersManyRequestsOnOneConnection) {
  start();
  Client client(port());
  for (const char* body : {"1", "[2]", "\"3\""}) {
    client.send(request("POST", "/echo", body));
    const HttpAnswer answer = client.read();
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, body);
    EXPECT_EQ(answer.headers.at("content-type"), "application/json");
    EXPECT_EQ(answer.headers.at("connection"), "keep-alive");
    EXPECT_EQ(answer.headers.at("access-control-allow-origin"), "*");
  }
}

TEST_F(ServerTest, AnswersInTheOrderOfRequestsThatDoNotWait) {
  start();
  Client client(port());
  client.send(request("POST", "/echo", "1") + request("GET", "/nothing") +
              request("POST", "/big", "300000") +
              request("POST", "/echo", "2"));
  EXPECT_EQ(client.read().body, "1");
  EXPECT_EQ(client.read().status, 404);
  EXPECT_EQ(client.read().body, std::string(300000, 'b'));
  EXPECT_EQ(client.read().body, "2");
}

TEST_F(ServerTest, TakesARequestByteByByte) {
  start();
  Client client(port());
  for (char c : request("POST", "/echo", "[1, 2]")) client.send({&c, 1});
  EXPECT_EQ(client.read().body, "[1, 2]");
}

TEST_F(ServerTest, TakesChunkedBodies) {
  start();
  Client client(port());
  client.send(
      "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3;name=value\r\n[1,\r\n");
  client.send("00004\r\n 22]\r\n0\r\nTrailer: t\r\n\r\n");
  EXPECT_EQ(client.read().body, "[1, 22]");
  client.send(request("POST", "/echo", "3"));
  EXPECT_EQ(client.read().body, "3");
}

TEST_F(ServerTest, RefusesBadChunks) {
  start();
  for (const char* chunks :
       {"zz\r\n", "-1\r\n", "fffffffffffffffff\r\nx", "2\r\n{}0\r\n\r\n"}) {
    const HttpAnswer answer =
        ask(std::string(
                "POST /echo HTTP/1.1\r\nHost: x\r\n"
                "Transfer-Encoding: chunked\r\n\r\n") +
            chunks);
    EXPECT_TRUE(answer.status == 400 || answer.status == 413) << chunks;
    error_of(answer);
  }
}

TEST_F(ServerTest, AsksForTheBodyOfAnExpectation) {
  start();
  Client client(port());
  client.send(
      "POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
      "Content-Length: 2\r\n\r\n");
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("{}");
  EXPECT_EQ(client.read().body, "{}");
  EXPECT_EQ(ask("POST /echo HTTP/1.1\r\nHost: x\r\nExpect: more\r\n"
                "Content-Length: 2\r\n\r\n{}")
                .status,
            417);
  // What is refused is refused before the body.
  EXPECT_EQ(ask("POST /nothing HTTP/1.1\r\nHost: x\r\n"
                "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n")
                .status,
            404);
}

TEST_F(ServerTest, HeadIsGetWithoutItsBody) {
  start();
  Client client(port());
  client.send(request("HEAD", "/echo/a") + request("GET", "/echo/a") +
              request("HEAD", "/nothing"));
  const HttpAnswer head = client.read(false), get = client.read();
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.headers.at("content-length"), std::to_string(get.body.size()));
  EXPECT_EQ(head.headers.at("content-type"), get.headers.at("content-type"));
  EXPECT_EQ(client.read(false).status, 404);
}

TEST_F(ServerTest, AnswersPreflights) {
  start({.api_keys = {"k"}, .cors_origin = "http://a"});
  const HttpAnswer answer =
      ask(request("OPTIONS", "/v1/echo", {},
                  "Access-Control-Request-Headers: authorization, x-b\r\n"));
  EXPECT_EQ(answer.status, 204);
  EXPECT_EQ(answer.headers.at("access-control-allow-origin"), "http://a");
  EXPECT_EQ(answer.headers.at("vary"), "Origin");
  EXPECT_EQ(answer.headers.at("access-control-allow-headers"),
            "authorization, x-b");
  EXPECT_FALSE(answer.headers.contains("content-length"));
}

TEST_F(ServerTest, DecodesPathsAndLeavesTheQuery) {
  start();
  const auto path = [&](const std::string& target) {
    return parse_json(ask(request("GET", target)).body, "echo").or_throw();
  };
  EXPECT_EQ(path("/v1/echo/org%2Fname?a=%20b"),
            (Json{{"path", "/v1/echo/org/name"}, {"query", "a=%20b"}}));
  EXPECT_EQ(path("/echo/a/b")["path"], "/echo/a/b");
  EXPECT_EQ(path("http://here:80/echo/x?q")["path"], "/echo/x");
}

TEST_F(ServerTest, RefusesWhatIsNotThere) {
  start();
  EXPECT_EQ(ask(request("GET", "/nothing")).status, 404);
  EXPECT_EQ(ask(request("GET", "/echo/")).status, 404);
  EXPECT_EQ(ask(request("POST", "/v1/v1/echo", "{}")).status, 404);
  const HttpAnswer answer = ask(request("GET", "/v1/echo"));
  EXPECT_EQ(answer.status, 405);
  EXPECT_EQ(answer.headers.at("allow"), "POST, OPTIONS");
  EXPECT_EQ(ask(request("DELETE", "/health")).headers.at("allow"),
            "GET, HEAD, OPTIONS");
  // A path that is not UTF-8 comes back escaped.
  EXPECT_THAT(error_of(ask(request("GET", "/%ff%01"))).at("message"),
              HasSubstr("\\xFF\\x01"));
}

TEST_F(ServerTest, RefusesOtherTypesOfBodies) {
  start();
  const auto status = [&](const std::string& headers) {
    return ask("POST /echo HTTP/1.1\r\nHost: x\r\n" + headers +
               "Content-Length: 2\r\n\r\n{}")
        .status;
  };
  EXPECT_EQ(status("Content-Type: text/plain\r\n"), 415);
  EXPECT_EQ(status("Content-Type: application/x-www-form-urlencoded\r\n"), 415);
  EXPECT_EQ(status("Content-Encoding: gzip\r\n"), 415);
  EXPECT_EQ(status("Content-Type: Application/JSON ; charset=utf-8\r\n"), 200);
  EXPECT_EQ(status("Content-Type: application/vnd.api+json\r\n"), 200);
  EXPECT_EQ(status(""), 200);
}

TEST_F(ServerTest, BoundsHeadAndBody) {
  start({.max_body_bytes = 1000, .max_header_bytes = 2000});
  EXPECT_EQ(ask(request("POST", "/echo", std::string(1000, ' '))).status, 200);
  for (const std::string& bytes :
       {request("POST", "/echo", std::string(1001, ' ')),
        std::string("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: "
                    "99999999999999\r\n\r\n"),
        "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
        "\r\n3e9\r\n" +
            std::string(1001, ' ')}) {
    const HttpAnswer answer = ask(bytes);
    EXPECT_EQ(answer.status, 413);
    EXPECT_EQ(answer.headers.at("connection"), "close");
    error_of(answer);
  }
  EXPECT_EQ(ask(request("GET", "/health", {},
                        "X: " + std::string(3000, 'x') + "\r\n"))
                .status,
            431);
}

TEST_F(ServerTest, BoundsWhatStandsBesideAChunkedBody) {
  start({.max_header_bytes = 2000});
  for (const std::string& chunks :
       {"1;" + std::string(1 << 20, 'x'), std::string(1 << 20, '0'),
        "0\r\nA: " + std::string(1 << 20, 'x')}) {
    Client client(port());
    client.try_send(
        "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" +
        chunks);
    const HttpAnswer answer = client.read();
    EXPECT_TRUE(answer.status == 400 || answer.status == 431)
        << answer.status << " to " << chunks.substr(0, 5);
  }
}

TEST_F(ServerTest, TheRefusalOfALargeBodyArrives) {
  start({.max_body_bytes = 1000});
  Client client(port());
  const std::string body(32 << 20, ' ');
  client.try_send(request("POST", "/echo", body));
  EXPECT_EQ(client.read().status, 413);
}

TEST_F(ServerTest, RefusesWhatIsNotHttp) {
  start();
  for (const std::string& bytes :
       {std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11),
        std::string(100, '\0'), std::string("hello\r\n\r\n"),
        std::string("GET / HTTP/9.9\r\n\r\n"),
        std::string("GET /health HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n"),
        std::string("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n"
                    "\r\n"),
        std::string("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n"
                    "Content-Length: 2\r\n\r\n{}"),
        std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")}) {
    const HttpAnswer answer = ask(bytes);
    EXPECT_EQ(answer.status, 400) << bytes;
    EXPECT_EQ(answer.headers.at("connection"), "close");
    error_of(answer);
  }
  EXPECT_EQ(ask(request("GET", "/health")).status, 200);
}

TEST_F(ServerTest, RefusesHeadsThatLeaveADoubt) {
  start();
  const std::string coding = "Host: x\r\nTransfer-Encoding: ";
  const std::string length = "Content-Length: 1\r\n";
  const std::string smuggled = request("GET", "/health");
  for (const auto& [headers, status] :
       std::vector<std::pair<std::string, int>>{
           {coding + "gzip\r\n", 400},
           {coding + "identity\r\n", 400},
           {coding + "xchunked\r\n", 400},
           {coding + "chunked, identity\r\n", 400},
           {coding + "gzip, chunked\r\n", 501},
           {coding + "gzip\r\nTransfer-Encoding: chunked\r\n", 400},
           {coding + "chunked\r\nTransfer-Encoding: chunked\r\n", 400},
           {coding + "chunked\r\n" + length, 400},
           {coding + "gzip\r\n" + length, 400},
           {length + coding + "chunked\r\n", 400},
           {"Host: x\r\n" + length + length, 400},
           {"Host: x\r\nContent-Length: 1, 1\r\n", 400},
           {"Host: x\r\nHost: x\r\n" + length, 400},
           {length, 400}}) {
    Client client(port());
    client.send("POST /echo HTTP/1.1\r\n" + headers + "\r\n" + smuggled);
    const HttpAnswer answer = client.read();
    EXPECT_EQ(answer.status, status) << headers;
    EXPECT_EQ(answer.headers.at("connection"), "close") << headers;
    error_of(answer);
    EXPECT_EQ(client.read_to_end(), "") << headers;
  }
  EXPECT_EQ(ask("POST /echo HTTP/1.0\r\n" + coding + "chunked\r\n\r\n").status,
            400);
  EXPECT_EQ(ask("GET /health HTTP/1.0\r\n\r\n").status, 200);
  EXPECT_EQ(ask("POST /echo HTTP/1.1\r\n" + coding +
                " Chunked \r\n\r\n1\r\n7\r\n0\r\n\r\n")
                .body,
            "7");
}

TEST_F(ServerTest, LargeBodiesTurnAwayLargeOnesOnly) {
  constexpr size_t kMost = 200'000;
  start({.max_body_bytes = kMost});
  const std::string large = request("POST", "/echo", std::string(kMost, ' '));
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 8; ++i) {
    clients.push_back(std::make_unique<Client>(port()));
    clients.back()->send(std::string_view(large).substr(0, large.size() - 1));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  int status = 0;
  for (int i = 0; i < 100 && status != 503; ++i) {
    Client client(port());
    client.try_send(large);
    status = client.read().status;
  }
  EXPECT_EQ(status, 503);
  EXPECT_EQ(ask(request("POST", "/echo", "1")).status, 200);
  for (const auto& client : clients) {
    client->send(" ");
    EXPECT_EQ(client->read().status, 200);
  }
}

TEST_F(ServerTest, GoesOnWhenItCannotAccept) {
  start();
  rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = ::dup(STDIN_FILENO);
  ::close(next);
  rlimit limit = before;
  limit.rlim_cur = rlim_t(next) + 1;  // one more file: the client's
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  Client client(port());
  client.send(request("GET", "/health"));
  EXPECT_FALSE(client.is_closed_within(0.3));
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(client.read().status, 200);
}

TEST_F(ServerTest, CountsWhatItCutsOffAsWhatItWas) {
  start({.header_timeout_s = 0.3, .write_timeout_s = 0.3});
  Client gone(port()), body(port()), reader(port());
  gone.send(request("POST", "/whole", "{}"));
  const auto whole = next_feed();
  gone.close();
  EXPECT_TRUE(whole->is_gone_within(5));
  EXPECT_TRUE(metrics_have(
      "quern_http_requests_total{route=\"/whole\",status=\"499\"} 1"));
  EXPECT_TRUE(metrics_have("quern_time_to_first_token_seconds_count 1"));
  body.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n");
  EXPECT_TRUE(body.is_closed_within(10));
  EXPECT_TRUE(metrics_have(
      "quern_http_requests_total{route=\"/echo\",status=\"408\"} 1"));
  reader.send(request("POST", "/stream", "{}"));
  const auto stream = next_feed();
  stream->flood();
  EXPECT_TRUE(stream->is_gone_within(Client::kPatience));
  EXPECT_TRUE(metrics_have(
      "quern_http_requests_total{route=\"/stream\",status=\"200\"} 1"));
}

TEST_F(ServerTest, SlowHeadsAndBodiesAreCutOff) {
  start({.header_timeout_s = 0.3, .idle_timeout_s = 60});
  const std::string post =
      "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n";
  for (const std::string& begin :
       {std::string("GET /health HTTP/1.1\r\nX: "), post,
        post + std::string(500'000, 'x')}) {
    Client client(port());
    client.send(begin);
    // A byte now and then does not help.
    bool closed = false;
    const double took = seconds_of([&] {
      for (int i = 0; i < 200 && !closed; ++i) {
        client.try_send("x");
        closed = client.is_closed_within(0.05);
      }
    });
    EXPECT_TRUE(closed) << begin.substr(0, 100);
    EXPECT_GT(took, 0.2);
  }
}

TEST_F(ServerTest, IdleConnectionsAreClosed) {
  start({.idle_timeout_s = 0.3});
  Client client(port()), silent(port());
  client.send(request("GET", "/health"));
  EXPECT_EQ(client.read().status, 200);
  EXPECT_TRUE(client.is_closed_within(10));
  EXPECT_TRUE(silent.is_closed_within(10));
}

TEST_F(ServerTest, AsksForAKey) {
  start({.api_keys = {"first", "second"}});
  const auto status = [&](const std::string& headers) {
    return ask(request("POST", "/v1/echo", "1", headers)).status;
  };
  EXPECT_EQ(status("Authorization: Bearer first\r\n"), 200);
  EXPECT_EQ(status("authorization: bearer second\r\n"), 200);
  EXPECT_EQ(status("x-api-key: second\r\n"), 200);
  EXPECT_EQ(status(""), 401);
  EXPECT_EQ(status("Authorization: first\r\n"), 401);
  EXPECT_EQ(status("Authorization: Bearer firs\r\n"), 401);
  EXPECT_EQ(status("x-api-key: first \x01\r\n"), 400);
  const HttpAnswer answer = ask(request("GET", "/metrics"));
  EXPECT_EQ(answer.status, 401);
  EXPECT_EQ(error_of(answer).at("code"), "invalid_api_key");
  EXPECT_EQ(ask(request("GET", "/health")).status, 200);
}

TEST_F(ServerTest, RepeatsSaneRequestIds) {
  start();
  const auto id = [&](const std::string& headers) {
    const HttpAnswer answer = ask(request("GET", "/health", {}, headers));
    EXPECT_EQ(answer.headers.at("request-id"),
              answer.headers.at("x-request-id"));
    return answer.headers.at("x-request-id");
  };
  EXPECT_EQ(id("X-Request-Id: a-1.b:2\r\n"), "a-1.b:2");
  EXPECT_EQ(id("request-id: c\r\n"), "c");
  const std::string own = id("");
  EXPECT_THAT(own, StartsWith("req_"));
  EXPECT_NE(own, id(""));
  EXPECT_THAT(id("x-request-id: a b\r\n"), StartsWith("req_"));
  EXPECT_THAT(id("x-request-id: " + std::string(129, 'a') + "\r\n"),
              StartsWith("req_"));
}

TEST_F(ServerTest, AHandlerThatThrowsIsAnError500) {
  start();
  Client client(port());
  client.send(request("POST", "/throw", "{}", "x-request-id: r1\r\n"));
  const HttpAnswer answer = client.read();
  EXPECT_EQ(answer.status, 500);
  EXPECT_THAT(error_of(answer).at("message"), HasSubstr("r1"));
  EXPECT_THAT(answer.body, testing::Not(HasSubstr("secret")));
  client.send(request("POST", "/echo", "1"));
  EXPECT_EQ(client.read().body, "1");
}

TEST_F(ServerTest, StreamsPartsAsTheyCome) {
  start();
  Client client(port());
  client.send(request("POST", "/stream", "{}"));
  const auto feed = next_feed();
  const std::string head = client.read_until("\r\n\r\n");
  EXPECT_THAT(head, StartsWith("HTTP/1.1 200 OK\r\n"));
  for (const char* header : {"Content-Type: text/event-stream; charset=utf-8",
                             "Cache-Control: no-cache", "X-Accel-Buffering: no",
                             "Transfer-Encoding: chunked"}) {
    EXPECT_THAT(head, HasSubstr(fmt::format("\r\n{}\r\n", header)));
  }
  feed->push("data: 1\n\n");
  EXPECT_EQ(client.read_until("\n\n\r\n"), "9\r\ndata: 1\n\n\r\n");
  feed->push("data: 22\n\n");
  EXPECT_EQ(client.read_until("\n\n\r\n"), "a\r\ndata: 22\n\n\r\n");
  feed->push("data: [DONE]\n\n", true);
  EXPECT_EQ(client.read_until("0\r\n\r\n"),
            "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n");
  EXPECT_TRUE(feed->is_gone_within(Client::kPatience));
  // The connection goes on.
  client.send(request("POST", "/echo", "1"));
  EXPECT_EQ(client.read().body, "1");
}

TEST_F(ServerTest, SilentStreamsGetComments) {
  start({.keepalive_s = 0.05});
  Client client(port());
  client.send(request("POST", "/stream", "{}"));
  const auto feed = next_feed();
  for (int i = 0; i < 3; ++i) client.read_until(": keepalive\n\n\r\n");
  feed->push("data: x\n\n", true);
  EXPECT_THAT(client.read_until("0\r\n\r\n"), HasSubstr("data: x\n\n"));
}

TEST_F(ServerTest, StreamsToHttp10UntilTheConnectionEnds) {
  start();
  Client client(port());
  client.send("POST /stream HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}");
  next_feed()->push("data: x\n\n", true);
  const std::string all = client.read_to_end();
  EXPECT_THAT(all, HasSubstr("Connection: close\r\n"));
  EXPECT_THAT(all, testing::Not(HasSubstr("chunked")));
  EXPECT_THAT(all, EndsWith("\r\n\r\ndata: x\n\n"));
}

TEST_F(ServerTest, CollectsAnAnswerInOnePiece) {
  start({.keepalive_s = 0.02});
  Client client(port());
  client.send(request("POST", "/whole", "{}") + request("POST", "/echo", "1"));
  const auto feed = next_feed();
  feed->push("{\"a\":");
  EXPECT_FALSE(client.is_closed_within(0.2));
  feed->push("1}", true);
  const HttpAnswer answer = client.read();
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, "{\"a\":1}");
  EXPECT_EQ(client.read().body, "1");
}

TEST_F(ServerTest, TheEndOfTheClientCancelsItsAnswer) {
  start();
  for (const char* path : {"/stream", "/whole"}) {
    for (const bool pipelines : {false, true}) {
      for (const bool resets : {false, true}) {
        Client client(port());
        client.send(request("POST", path, "{}"));
        const auto feed = next_feed();
        if (pipelines) client.send(request("POST", "/echo", "1"));
        EXPECT_FALSE(feed->is_gone_within(0.15));
        resets ? client.reset() : client.close();
        EXPECT_TRUE(feed->is_gone_within(5)) << path << pipelines << resets;
        feed->push("late", true);
      }
    }
  }
}

TEST_F(ServerTest, AReaderThatTakesNothingIsCutOff) {
  start({.write_timeout_s = 0.5});
  Client client(port());
  client.send(request("POST", "/stream", "{}"));
  const auto feed = next_feed();
  feed->flood();
  EXPECT_TRUE(feed->is_gone_within(Client::kPatience));
  // What was taken from the answer is what the sockets hold, of 1 MiB each.
  EXPECT_LT(feed->takes(), 32);
}

TEST_F(ServerTest, AReaderMayBeSlow) {
  start({.write_timeout_s = 0.5});
  constexpr size_t kSize = 20'000'000, kPart = 1'000'000;
  Client client(port());
  client.send(request("POST", "/big", std::to_string(kSize)));
  client.read_until("\r\n\r\n");
  for (size_t count = 0; count < kSize; count += kPart) {
    EXPECT_EQ(client.take(kPart), std::string(kPart, 'b'));
    std::this_thread::sleep_for(std::chrono::milliseconds(80));
  }
}

TEST_F(ServerTest, AnAnswerThatFailsOnTheWay) {
  start();
  Client whole(port());
  whole.send(request("POST", "/whole", "{}"));
  next_feed()->fail_next();
  const HttpAnswer answer = whole.read();
  EXPECT_EQ(answer.status, 500);
  error_of(answer);
  EXPECT_TRUE(metrics_have(
      "quern_http_requests_total{route=\"/whole\",status=\"500\"} 1"));
  EXPECT_TRUE(metrics_have("quern_time_to_first_token_seconds_count 1"));

  // A stream that has begun ends without its last chunk.
  Client stream(port());
  stream.send(request("POST", "/stream", "{}"));
  const auto feed = next_feed();
  stream.read_until("\r\n\r\n");
  feed->fail_next();
  EXPECT_EQ(stream.read_to_end(), "");
  EXPECT_EQ(ask(request("GET", "/health")).status, 200);
}

TEST_F(ServerTest, ManyStreamsAtOnce) {
  start();
  constexpr int kStreams = 64, kEvents = 50;
  std::vector<std::unique_ptr<Client>> clients;
  std::vector<std::shared_ptr<Feed>> feeds;
  for (int i = 0; i < kStreams; ++i) {
    clients.push_back(std::make_unique<Client>(port()));
    clients.back()->send(request("POST", "/stream", "{}"));
    feeds.push_back(next_feed());
  }
  auto engine = std::async(std::launch::async, [&] {
    for (int event = 0; event < kEvents; ++event) {
      for (int i = 0; i < kStreams; ++i) {
        feeds[i]->push(fmt::format("data: {}.{}\n\n", i, event),
                       event + 1 == kEvents);
      }
    }
  });
  for (int i = 0; i < kStreams; i += 3) clients[i]->close();
  for (int i = 0; i < kStreams; ++i) {
    if (i % 3 == 0) continue;
    std::string expected;
    for (int event = 0; event < kEvents; ++event) {
      expected += fmt::format("data: {}.{}\n\n", i, event);
    }
    EXPECT_EQ(clients[i]->read().body, expected);
  }
  engine.get();
  for (const auto& feed : feeds) {
    EXPECT_TRUE(feed->is_gone_within(Client::kPatience));
  }
}

TEST_F(ServerTest, ConnectionsTooManyAreTurnedAway) {
  start({.max_connections = 2});
  Client first(port());
  std::optional<Client> second(std::in_place, port());
  first.send(request("GET", "/health"));
  second->send(request("GET", "/health"));
  EXPECT_EQ(first.read().status, 200);
  EXPECT_EQ(second->read().status, 200);
  Client third(port());
  const HttpAnswer answer = third.read();
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.headers.at("retry-after"), "1");
  error_of(answer);
  second.reset();
  const auto ok = [&] {
    Client again(port());
    again.try_send(request("GET", "/health"));
    return again.read().status == 200;
  };
  bool served = false;
  for (int i = 0; i < 100 && !served; ++i) served = ok();
  EXPECT_TRUE(served);
}

TEST_F(ServerTest, DrainsBeforeItEnds) {
  Server& server = start();
  Client idle(port()), streaming(port());
  idle.send(request("GET", "/health"));
  EXPECT_EQ(idle.read().status, 200);
  streaming.send(request("POST", "/stream", "{}"));
  const auto feed = next_feed();
  streaming.read_until("\r\n\r\n");
  const int bound = port();
  auto stopping = std::async(std::launch::async, [&] { server.stop(60); });
  EXPECT_TRUE(idle.is_closed_within(10));
  EXPECT_THROW(Client late(bound), Error);
  EXPECT_EQ(stopping.wait_for(std::chrono::milliseconds(100)),
            std::future_status::timeout);
  feed->push("data: x\n\n", true);
  EXPECT_EQ(streaming.read_to_end(), "9\r\ndata: x\n\n\r\n0\r\n\r\n");
  stopping.get();
}

TEST_F(ServerTest, ADrainTakesNoRequestWhoseBodyComesLate) {
  Server& server = start({.threads = 1});
  Client idle(port()), late(port());
  idle.send(request("GET", "/health"));
  EXPECT_EQ(idle.read().status, 200);
  late.send(
      "POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
      "Content-Length: 1\r\n\r\n");
  late.read_until("100 Continue\r\n\r\n");
  auto stopping = std::async(std::launch::async, [&] { server.stop(60); });
  EXPECT_TRUE(idle.is_closed_within(10));
  const HttpAnswer answer = late.read();  // at once
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.headers.at("connection"), "close");
  EXPECT_EQ(answer.headers.at("retry-after"), "5");
  EXPECT_EQ(error_of(answer).at("code"), "shutting_down");
  late.close();
  stopping.get();
}

TEST_F(ServerTest, ADrainHasAnEnd) {
  Server& server = start();
  Client streaming(port()), whole(port()), halfway(port());
  streaming.send(request("POST", "/stream", "{}"));
  const auto stream = next_feed();
  whole.send(request("POST", "/whole", "{}"));
  const auto one = next_feed();
  halfway.send("GET /he");
  const double took = seconds_of([&] { server.stop(0.3); });
  EXPECT_GE(took, 0.3);
  EXPECT_LT(took, 10);
  const HttpAnswer answer = whole.read(), streamed = streaming.read();
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(error_of(answer).at("code"), "shutting_down");
  EXPECT_EQ(streamed.status, 200);
  EXPECT_EQ(streamed.body, "data: " + answer.body + "\n\n");
  EXPECT_TRUE(stream->is_gone_within(0));
  EXPECT_TRUE(one->is_gone_within(0));
  stream->push("late", true);
}

TEST_F(ServerTest, SaysWhoIsOnAPortInUse) {
  start();
  try {
    Server second(service_, {.port = port()}, fake_routes());
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_EQ(e.what(), fmt::format("port {} of 127.0.0.1 is in use: a quern "
                                    "answers there",
                                    port()));
  }
  EXPECT_THROW(Server(service_, {.host = "256.1.1.1"}, fake_routes()), Error);
}

TEST_F(ServerTest, KnowsWhetherOtherMachinesReachIt) {
  const TempDir dir;
  const auto is_local = [&](ServerOptions options) {
    options.port = 0;
    return Server(service_, std::move(options), fake_routes()).is_local();
  };
  EXPECT_TRUE(is_local({.host = "127.0.0.1"}));
  EXPECT_TRUE(is_local({.host = "127.1.2.3"}));
  EXPECT_TRUE(is_local({.host = "localhost"}));
  EXPECT_FALSE(is_local({.host = "0.0.0.0"}));
  EXPECT_TRUE(is_local({.unix_socket = dir.path() / "quern.sock"}));
}

// A unix socket that listens at `path` and accepts nothing.
int busy_socket(const Path& path) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address = {.sun_family = AF_UNIX};
  path.string().copy(address.sun_path, sizeof address.sun_path - 1);
  EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address),
            0);
  EXPECT_EQ(::listen(fd, 0), 0);
  return fd;
}

TEST_F(ServerTest, LeavesTheUnixSocketsOfOthers) {
  const TempDir dir;
  const Path path = dir.path() / "quern.sock";
  const int busy = busy_socket(path);
  Client waits(path);  // all that the queue holds
  EXPECT_THROW(Server(service_, {.unix_socket = path}, fake_routes()), Error);
  EXPECT_TRUE(std::filesystem::exists(path));
  ::close(busy);

  std::optional<Server> server(std::in_place, service_,
                               ServerOptions{.unix_socket = path},
                               fake_routes());
  std::filesystem::remove(path);
  const int other = busy_socket(path);
  server.reset();
  EXPECT_TRUE(std::filesystem::exists(path));
  ::close(other);
}

TEST_F(ServerTest, ServesAUnixSocket) {
  const TempDir dir;
  const Path path = dir.path() / "quern.sock";
  {
    Server server(service_, {.unix_socket = path}, fake_routes());
    EXPECT_EQ(server.url(), "unix:" + path.string());
    struct stat status;
    ASSERT_EQ(::stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600u);
    Client client(path);
    client.send(request("POST", "/echo", "1"));
    EXPECT_EQ(client.read().body, "1");
    EXPECT_THROW(Server(service_, {.unix_socket = path}, fake_routes()), Error);
    client.send(request("POST", "/whole", "{}"));
    const auto feed = next_feed();
    client.close();
    EXPECT_TRUE(feed->is_gone_within(5));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(ServerTest, ReplacesAStaleUnixSocketAndNothingElse) {
  const TempDir dir;
  const Path path = dir.path() / "quern.sock";
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address = {.sun_family = AF_UNIX};
  path.string().copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address),
            0);
  ::close(fd);
  ASSERT_TRUE(std::filesystem::exists(path));
  {
    Server server(service_, {.unix_socket = path}, fake_routes());
    Client client(path);
    client.send(request("GET", "/health"));
    EXPECT_EQ(client.read().status, 200);
  }
  const Path file = dir.write("file", "text");
  EXPECT_THROW(Server(service_, {.unix_socket = file}, fake_routes()), Error);
  EXPECT_EQ(read_text(file).or_throw(), "text");
  EXPECT_THROW(
      Server(service_, {.unix_socket = dir.path() / std::string(200, 'a')},
             fake_routes()),
      Error);
}

TEST_F(ServerTest, ServesThePage) {
  start({.api_keys = {"k"}});
  ASSERT_FALSE(page_files().empty());
  for (const PageFile& file : page_files()) {
    Client client(port());
    client.send(request("GET", file.path));
    const HttpAnswer answer = client.read();
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, file.bytes);
    EXPECT_EQ(answer.headers.at("content-type"), file.content_type);
    EXPECT_THAT(answer.headers.at("content-security-policy"),
                StartsWith("default-src 'self'"));
    client.send(request(
        "GET", file.path, {},
        fmt::format("If-None-Match: {}\r\n", answer.headers.at("etag"))));
    EXPECT_EQ(client.read().status, 304);
    client.send(request("POST", file.path, "{}"));
    EXPECT_EQ(client.read().status, 405);
  }
}

TEST_F(ServerTest, CountsWhatItAnswers) {
  start();
  Client client(port());
  client.send(request("POST", "/v1/stream", "{}"));
  next_feed()->push("data: x\n\n", true);
  client.read();
  client.send(request("GET", "/nothing") + request("GET", "/metrics"));
  EXPECT_EQ(client.read().status, 404);
  const HttpAnswer answer = client.read();
  EXPECT_EQ(answer.headers.at("content-type"),
            "text/plain; version=0.0.4; charset=utf-8");
  for (const char* line :
       {"quern_http_requests_total{route=\"/stream\",status=\"200\"} 1",
        "quern_http_requests_total{route=\"none\",status=\"404\"} 1",
        "quern_http_connections 1", "quern_ready 0",
        "quern_time_to_first_token_seconds_sum 1.5",
        "quern_time_between_tokens_seconds_sum 0.5"}) {
    EXPECT_THAT(answer.body, HasSubstr(fmt::format("\n{}\n", line)));
  }
}

}  // namespace
}  // namespace quern::test
