#include "server/routes.h"

#include "api/endpoints.h"
#include "base/json.h"

namespace quern {
namespace {

// What there is, for people and for clients that look for a quern.
ApiOutcome describe(Service& service, const ApiRequest& request);

constexpr Route kRoutes[] = {
    {"POST", "/chat/completions", chat_completions, kTakesBody},
    {"POST", "/completions", completions, kTakesBody},
    {"GET", "/models", list_models},
    {"GET", "/models/*", get_model},
    {"POST", "/tokenize", tokenize, kTakesBody},
    {"POST", "/detokenize", detokenize, kTakesBody},
    {"POST", "/apply-template", apply_template, kTakesBody},
    {"GET", "/stats", stats, kNoBody, kWithKey, kPolled},
    {"GET", "/metrics", nullptr, kNoBody, kWithKey, kPolled},
    {"GET", "/health", health, kNoBody, kOpen, kPolled},
    {"GET", "/v1", describe},
};

ApiOutcome describe(Service&, const ApiRequest&) {
  Json endpoints = Json::array();
  for (const Route& route : kRoutes) {
    endpoints.push_back(fmt::format(
        "{} {}{}", route.method, route.path == "/v1" ? "" : "/v1", route.path));
  }
  const Json body = {{"name", "quern"}, {"endpoints", std::move(endpoints)}};
  return ApiReply{.body = body.dump()};
}

bool matches(std::string_view pattern, std::string_view path) {
  if (!pattern.ends_with("/*")) return path == pattern;
  pattern.remove_suffix(1);
  return path.size() > pattern.size() && path.starts_with(pattern);
}

bool serves(const Route& route, std::string_view method) {
  return method == route.method || (method == "HEAD" && route.method == "GET");
}

}  // namespace

std::span<const Route> all_routes() { return kRoutes; }

RouteMatch find_route(std::span<const Route> routes, std::string_view method,
                      std::string_view path) {
  const std::string_view bare =
      path.starts_with("/v1/") ? path.substr(3) : path;
  std::string allowed;
  for (const Route& route : routes) {
    if (!matches(route.path, bare)) continue;
    if (serves(route, method)) return {.route = &route};
    allowed += route.method;
    allowed += route.method == "GET" ? ", HEAD, " : ", ";
  }
  if (!allowed.empty()) allowed += "OPTIONS";
  return {.allowed = std::move(allowed)};
}

}  // namespace quern
