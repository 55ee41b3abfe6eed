// /v1/models and /v1/models/{id}
#include <algorithm>

#include "api/endpoints.h"
#include "api/error.h"
#include "base/str.h"

namespace quern {
namespace {

Json model_json(const ServedModel& served) {
  return {{"id", served.id},
          {"object", "model"},
          {"created", served.created},
          {"owned_by", "quern"},
          {"context_window", served.engine->longest_row()},
          {"reasoning", served.format.think_close.has_value()},
          {"vision", false}};
}

// An id may be a path; its first slash is lost beside that of the URL.
std::string_view without_slash(std::string_view id) {
  return id.substr(std::min(id.find_first_not_of('/'), id.size()));
}

// "org/name" of "/v1/models/org/name".
std::string_view id_in(std::string_view path) {
  constexpr std::string_view kBefore = "/models/";
  const size_t at = path.find(kBefore);
  return at == path.npos ? "" : without_slash(path.substr(at + kBefore.size()));
}

}  // namespace

ApiOutcome list_models(Service& service, const ApiRequest&) {
  return answer_or_error([&] {
    return json_reply({{"object", "list"},
                       {"data", Json::array({model_json(*service.ready())})}});
  });
}

ApiOutcome get_model(Service& service, const ApiRequest& request) {
  return answer_or_error([&] {
    const auto served = service.ready();
    const std::string_view id = id_in(request.path);
    if (id == without_slash(served->id)) return json_reply(model_json(*served));
    throw ApiError(
        fmt::format("there is no model {}; {} is served", in_quotes(id),
                    in_quotes(served->id)),
        {.status = 404, .param = "model", .code = "model_not_found"});
  });
}

}  // namespace quern
