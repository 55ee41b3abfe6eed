// Routes, headers and metrics: no sockets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <sstream>

#include "server/bell.h"
#include "server/http_text.h"
#include "server/metrics.h"
#include "server/pace.h"
#include "server/reply_head.h"
#include "server/routes.h"

namespace quern::test {
namespace {

using testing::HasSubstr;

TEST(Routes, EveryPathWorksWithAndWithoutV1) {
  for (const char* path : {"/chat/completions", "/completions", "/tokenize",
                           "/detokenize", "/apply-template"}) {
    for (const std::string& full :
         {std::string(path), "/v1" + std::string(path)}) {
      const RouteMatch match = find_route(all_routes(), "POST", full);
      ASSERT_TRUE(match.route) << full;
      EXPECT_EQ(match.route->path, path);
      EXPECT_TRUE(match.route->takes_body);
      EXPECT_FALSE(match.route->open);
      EXPECT_EQ(find_route(all_routes(), "GET", full).allowed, "POST, OPTIONS");
    }
  }
  for (const char* path : {"/models", "/stats", "/metrics", "/health"}) {
    for (const char* method : {"GET", "HEAD"}) {
      EXPECT_TRUE(find_route(all_routes(), method, path).route) << path;
      EXPECT_TRUE(
          find_route(all_routes(), method, "/v1" + std::string(path)).route);
    }
    EXPECT_EQ(find_route(all_routes(), "POST", path).allowed,
              "GET, HEAD, OPTIONS");
  }
  EXPECT_TRUE(find_route(all_routes(), "GET", "/v1").route);
}

TEST(Routes, ARestMayHaveSlashesButNotBeEmpty) {
  const auto path = [](std::string_view of) {
    const RouteMatch match = find_route(all_routes(), "GET", of);
    return match.route ? match.route->path : "";
  };
  EXPECT_EQ(path("/v1/models/org/name"), "/models/*");
  EXPECT_EQ(path("/models/a"), "/models/*");
  EXPECT_EQ(path("/v1/models"), "/models");
  EXPECT_EQ(path("/v1/models/"), "");
  EXPECT_EQ(path("/v1/modelsx"), "");
  EXPECT_EQ(path("/v1/v1/models"), "");
  EXPECT_EQ(path("/V1/models"), "");
  EXPECT_EQ(path(""), "");
}

TEST(Routes, OnlyHealthIsOpen) {
  for (const Route& route : all_routes()) {
    EXPECT_EQ(route.open, route.path == "/health") << route.path;
  }
}

TEST(Routes, WhatIsAskedAllTheTimeIsNotLogged) {
  for (const Route& route : all_routes()) {
    EXPECT_EQ(route.polled, route.path == "/health" || route.path == "/stats" ||
                                route.path == "/metrics")
        << route.path;
  }
}

TEST(Pace, EachStretchHasItsTime) {
  using std::chrono::seconds;
  const Pace::Clock::time_point start{};
  Pace pace(60, start);  // 61440 bytes a stretch
  EXPECT_EQ(pace.after(0, start + seconds(1)), start + seconds(60));
  EXPECT_EQ(pace.after(61440, start + seconds(50)), start + seconds(60));
  EXPECT_EQ(pace.after(61441, start + seconds(55)), start + seconds(115));
  // What came fast is no credit.
  EXPECT_EQ(pace.after(10'000'000, start + seconds(56)), start + seconds(116));
  EXPECT_EQ(pace.after(10'000'100, start + seconds(110)), start + seconds(116));
}

TEST(HttpText, DecodesPercentSigns) {
  EXPECT_EQ(percent_decoded("/a%2Fb%2fc"), "/a/b/c");
  EXPECT_EQ(percent_decoded("%41%zz%4%"), "A%zz%4%");
  EXPECT_EQ(percent_decoded("%00%ff"), std::string("\0\xff", 2));
  EXPECT_EQ(percent_decoded("%2541"), "%41");
  EXPECT_EQ(percent_decoded(""), "");
}

TEST(HttpText, JsonTypes) {
  for (const char* type : {"application/json", "Application/JSON;charset=x",
                           " application/json ", "application/ld+json"}) {
    EXPECT_TRUE(is_json_type(type)) << type;
  }
  for (const char* type : {"", "text/json", "application/jsonp", "json",
                           "text/plain; a=application/json"}) {
    EXPECT_FALSE(is_json_type(type)) << type;
  }
}

TEST(HttpText, Keys) {
  const std::string keys[] = {"first", "second"};
  EXPECT_TRUE(is_known_key("first", keys));
  EXPECT_TRUE(is_known_key("second", keys));
  for (const char* key : {"", "firs", "firstx", "First", "third"}) {
    EXPECT_FALSE(is_known_key(key, keys)) << key;
  }
  EXPECT_FALSE(is_known_key("a", {}));
  EXPECT_EQ(bearer_token("Bearer  k "), "k");
  EXPECT_EQ(bearer_token("bearer k"), "k");
  EXPECT_EQ(bearer_token("Basic k"), "");
  EXPECT_EQ(bearer_token("Bearer"), "");
  EXPECT_EQ(bearer_token(""), "");
}

TEST(HttpText, Ids) {
  EXPECT_TRUE(sane_id("a-B_1.2:3/4+5="));
  EXPECT_FALSE(sane_id(""));
  EXPECT_FALSE(sane_id("a b"));
  EXPECT_FALSE(sane_id("a\r\nb"));
  EXPECT_FALSE(sane_id("\xc3\xa9"));
  EXPECT_TRUE(sane_id(std::string(128, 'a')));
  EXPECT_FALSE(sane_id(std::string(129, 'a')));
  EXPECT_TRUE(sane_id(fresh_id()));
  EXPECT_EQ(fresh_id().size(), 28u);
}

TEST(HttpText, Chunks) {
  EXPECT_EQ(chunk(""), "");
  EXPECT_EQ(chunk(std::string(26, 'a')),
            "1a\r\n" + std::string(26, 'a') + "\r\n");
}

TEST(HttpText, Dates) {  // the example of RFC 9110, 5.6.7
  EXPECT_EQ(http_date(784111777), "Sun, 06 Nov 1994 08:49:37 GMT");
}

TEST(ReplyHead, HasItsFieldsInOneBlock) {
  const std::string head = head_text({.status = 404,
                                      .content_type = "a/b",
                                      .length = 3,
                                      .keep_alive = false,
                                      .id = "i",
                                      .cors_origin = "*",
                                      .headers = {{"X", "y"}}});
  EXPECT_THAT(head, testing::StartsWith("HTTP/1.1 404 Not Found\r\n"));
  EXPECT_THAT(head, testing::EndsWith("\r\nX: y\r\n\r\n"));
  for (const char* line :
       {"Content-Type: a/b", "Content-Length: 3", "Connection: close",
        "request-id: i", "x-request-id: i", "Access-Control-Allow-Origin: *"}) {
    EXPECT_THAT(head, HasSubstr(fmt::format("\r\n{}\r\n", line)));
  }
  EXPECT_EQ(head.find("\r\n\r\n"), head.size() - 4);
  EXPECT_THAT(head_text({}), testing::Not(HasSubstr("\r\nContent-")));
}

TEST(Bell, WakesOnceUntilItIsTaken) {
  int woken = 0;
  Bell bell([&] { ++woken; });
  EXPECT_FALSE(bell.taken());
  bell.ring();
  bell.ring();
  EXPECT_EQ(woken, 1);
  EXPECT_TRUE(bell.taken());
  EXPECT_FALSE(bell.taken());
  bell.ring();
  EXPECT_EQ(woken, 2);
  EXPECT_TRUE(bell.taken());
  bell.mute();
  bell.ring();
  EXPECT_EQ(woken, 2);
}

// The samples of an exposition, name and labels to value. Checks its form:
// each metric has HELP and TYPE before its samples and comes once.
std::map<std::string, double> samples_of(const std::string& text) {
  std::map<std::string, double> samples;
  std::map<std::string, std::string> types;
  std::istringstream lines(text);
  std::string line, help, name;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string first, second, third;
    words >> first >> second >> third;
    if (first == "#" && second == "HELP") {
      help = third;
    } else if (first == "#") {
      EXPECT_EQ(second, "TYPE") << line;
      EXPECT_EQ(third, help);
      EXPECT_FALSE(types.contains(third)) << third;
      name = third;
      words >> types[name];
    } else {
      EXPECT_THAT(first, testing::StartsWith(name)) << line;
      const std::string rest = first.substr(name.size());
      const bool histogram = types[name] == "histogram";
      EXPECT_TRUE(histogram ? rest.starts_with("_bucket{le=\"") ||
                                  rest == "_sum" || rest == "_count"
                            : rest.empty() || rest[0] == '{')
          << line;
      EXPECT_TRUE(samples.emplace(first, std::stod(second)).second) << first;
      EXPECT_EQ(third, "") << line;
    }
  }
  EXPECT_EQ(text.back(), '\n');
  return samples;
}

TEST(Histogram, BucketsAreSumsUpToTheirBounds) {
  constexpr double kBounds[] = {0.5, 1, 2};
  Histogram histogram(kBounds);
  for (double value : {0.25, 0.5, 0.75, 2.0, 4.0}) histogram.observe(value);
  std::string text;
  histogram.write(text, "h");
  EXPECT_EQ(text,
            "h_bucket{le=\"0.5\"} 2\nh_bucket{le=\"1\"} 3\n"
            "h_bucket{le=\"2\"} 4\nh_bucket{le=\"+Inf\"} 5\n"
            "h_sum 7.5\nh_count 5\n");
}

TEST(Metrics, TextIsAnExposition) {
  Metrics metrics;
  const Ending ending{
      .finish = Finish::length,
      .prompt_tokens = 7,
      .tokens = 5,
      .timings = {.admitted = 0.5, .first_token = 1.5, .ended = 3.5}};
  const Ending refused{};
  for (const Ending& one : {ending, refused}) {
    metrics.observe({.route = "/chat/completions",
                     .status = 200,
                     .seconds = 4,
                     .bytes = 100,
                     .endings = {&one, 1}});
  }
  metrics.observe({.route = "none", .status = 404, .seconds = 0.001});
  EngineStats engine;
  engine.rows = 3;
  engine.kv_bytes = 12345678901;
  engine.finished[int(Finish::length)] = 9;
  auto samples =
      samples_of(metrics.text({.connections = 2, .engine = &engine}));
  const auto sample = [&](const std::string& name) {
    EXPECT_TRUE(samples.contains(name)) << name;
    return samples[name];
  };
  EXPECT_EQ(sample("quern_http_requests_total{route=\"/chat/completions\","
                   "status=\"200\"}"),
            2);
  EXPECT_EQ(sample("quern_http_requests_total{route=\"none\",status=\"404\"}"),
            1);
  EXPECT_EQ(sample("quern_http_answer_bytes_total"), 200);
  EXPECT_EQ(sample("quern_http_request_seconds_count"), 3);
  EXPECT_EQ(sample("quern_queue_seconds_sum"), 0.5);
  EXPECT_EQ(sample("quern_time_to_first_token_seconds_bucket{le=\"1\"}"), 0);
  EXPECT_EQ(sample("quern_time_to_first_token_seconds_bucket{le=\"2.5\"}"), 1);
  EXPECT_EQ(sample("quern_time_to_first_token_seconds_count"), 1);
  EXPECT_EQ(sample("quern_time_between_tokens_seconds_sum"), 0.5);
  EXPECT_EQ(sample("quern_http_connections"), 2);
  EXPECT_EQ(sample("quern_ready"), 1);
  EXPECT_EQ(sample("quern_rows"), 3);
  EXPECT_EQ(sample("quern_kv_bytes"), 12345678901);
  EXPECT_EQ(sample("quern_generations_total{finish=\"length\"}"), 9);
  EXPECT_GT(sample("process_resident_memory_bytes"), 1e6);
}

TEST(Metrics, HasNoEngineWhileTheModelLoads) {
  const auto samples = samples_of(Metrics().text({}));
  EXPECT_EQ(samples.at("quern_ready"), 0);
  EXPECT_FALSE(samples.contains("quern_rows"));
}

}  // namespace
}  // namespace quern::test
