// A request of a connection, and what becomes of it.
#pragma once

#include <atomic>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "server/routes.h"
#include "server/server.h"

namespace quern {

// The bytes of a body, counted in a sum of all bodies while it lives.
class BodyShare {
 public:
  explicit BodyShare(std::atomic<size_t>& sum) : sum_(sum) {}
  ~BodyShare() { sum_ -= bytes_; }
  BodyShare(const BodyShare&) = delete;
  BodyShare& operator=(const BodyShare&) = delete;

  // The sum.
  size_t set(size_t bytes) {
    sum_ += bytes - bytes_;
    bytes_ = bytes;
    return sum_;
  }

 private:
  std::atomic<size_t>& sum_;
  size_t bytes_ = 0;
};

// Why the server cuts a client off that would stay.
inline constexpr std::string_view kTooSlow = "too slow";
inline constexpr std::string_view kServerEnds = "the server ended";

struct Turn {
  Turn(const ServerOptions& options, std::atomic<size_t>& all_bodies)
      : share(all_bodies) {
    parser.header_limit(std::uint32_t(options.max_header_bytes));
    parser.body_limit(options.max_body_bytes);
  }

  // Empty if there is none. `name`: a field of Beast's, or text.
  template <class Name>
  std::string_view header(Name name) const {
    const auto value = parser.get()[name];
    return {value.data(), value.size()};
  }

  boost::beast::http::request_parser<boost::beast::http::string_body> parser;
  const std::chrono::steady_clock::time_point start =
      std::chrono::steady_clock::now();
  std::string id, method, path, query;  // the path decoded
  const Route* route = nullptr;
  std::string_view label = "none";  // in the metrics
  BodyShare share;
  bool broken = false;  // what follows on the connection cannot be read
  int status = 0;       // 0: no reply yet
  size_t bytes = 0;     // written
  std::string_view cut = {};  // why the server cut it off, if it did
  std::vector<Ending> endings = {};
};

}  // namespace quern
