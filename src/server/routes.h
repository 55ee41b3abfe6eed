// Which endpoint answers what.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "api/exchange.h"
#include "api/service.h"

namespace quern {

struct Route {
  std::string_view method;  // GET (which answers HEAD as well) or POST
  // As in the API's documents, without /v1: every path is served with that
  // prefix and without it. "/*" at the end is any rest that is not empty.
  std::string_view path;
  // Null: the server's own, /metrics.
  ApiOutcome (*endpoint)(Service& service, const ApiRequest& request);
  bool takes_body = false;  // JSON; then it may be slow
  bool open = false;        // asks for no key
  bool polled = false;      // asked again and again: not worth a line of log
};

// For the last columns of a table.
inline constexpr bool kTakesBody = true, kNoBody = false, kOpen = true,
                      kWithKey = false, kPolled = true;

// The table.
std::span<const Route> all_routes();

struct RouteMatch {
  const Route* route = nullptr;
  // Without a route: the methods that the path has. Empty: there is no such
  // path.
  std::string allowed = {};
};

// `path` is decoded and has no query.
RouteMatch find_route(std::span<const Route> routes, std::string_view method,
                      std::string_view path);

}  // namespace quern
