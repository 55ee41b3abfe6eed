// The endpoints, as server/routes.cpp lists them. Each takes a request whose
// method and path matched. None throws ApiError: faults are replies.
#pragma once

#include "api/exchange.h"
#include "api/service.h"

namespace quern {

ApiOutcome chat_completions(Service& service, const ApiRequest& request);
ApiOutcome completions(Service& service, const ApiRequest& request);
ApiOutcome list_models(Service& service, const ApiRequest& request);
ApiOutcome get_model(Service& service, const ApiRequest& request);
ApiOutcome tokenize(Service& service, const ApiRequest& request);
ApiOutcome detokenize(Service& service, const ApiRequest& request);
ApiOutcome apply_template(Service& service, const ApiRequest& request);
ApiOutcome health(Service& service, const ApiRequest& request);
ApiOutcome stats(Service& service, const ApiRequest& request);

// An error in the form of OpenAI's API, always valid UTF-8: for the server's
// own refusals (404, 405, 413, ...) as well.
ApiReply error_reply(int status, std::string_view message,
                     std::string_view type = "invalid_request_error",
                     std::string_view param = {}, std::string_view code = {});

}  // namespace quern
