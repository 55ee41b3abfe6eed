// /tokenize, /detokenize and /apply-template: what the model reads.
#include "api/chat_input.h"
#include "api/endpoints.h"
#include "api/prompt_limit.h"
#include "base/str.h"

namespace quern {
namespace {

// The characters of a token, or its bytes where they are none.
Json piece_of(std::string_view bytes) {
  if (valid_utf8(bytes)) return bytes;
  Json list = Json::array();
  for (unsigned char byte : bytes) list.push_back(int(byte));
  return list;
}

Json tokenized(const Json& body, const ServedModel& served) {
  const Fields fields(body);
  const auto content = fields.string("content");
  if (!content) refuse("content", "content is required");
  if (content->size() > kMaxPlainText) {
    refuse("content", "content: at most {} bytes, got {}", kMaxPlainText,
           content->size());
  }
  const EncodeOptions options{
      .add_special = fields.boolean("add_special").value_or(false),
      .parse_special = fields.boolean("parse_special").value_or(true)};
  const bool pieces = fields.boolean("with_pieces").value_or(false);
  const auto ids = served.tokenizer.encode(*content, options);
  if (!ids) refuse("content", "content: {}", ids.reason());
  Json tokens = Json::array();
  for (int32_t id : *ids) {
    if (pieces) {
      tokens.push_back(
          {{"id", id}, {"piece", piece_of(served.tokenizer.token_bytes(id))}});
    } else {
      tokens.push_back(id);
    }
  }
  return {{"tokens", std::move(tokens)}};
}

Json detokenized(const Json& body, const ServedModel& served) {
  const Fields fields(body);
  const Json* tokens = fields.list("tokens");
  if (!tokens) refuse("tokens", "tokens is required");
  const int vocabulary = served.tokenizer.vocab_size();
  std::vector<int32_t> ids;
  for (const Json& token : *tokens) {
    if (!is_whole(token) || token.get<double>() < 0 ||
        token.get<double>() >= vocabulary) {
      refuse("tokens",
             "tokens: a token id is a whole number in [0, {}], got {}",
             vocabulary - 1, brief(token));
    }
    ids.push_back(token.get<int32_t>());
  }
  return {{"content", served.tokenizer.decode(ids, false)}};
}

Json templated(const Json& body, const ServedModel& served) {
  const Fields fields(body);
  const ChatInput input = read_chat_input(fields, read_tools(fields), served);
  const auto text = chat_text(served.tokenizer, served.templates, input);
  if (!text) refuse("messages", "{}", text.reason());
  return {{"prompt", *text}};
}

ApiOutcome reply(Service& service, const ApiRequest& request,
                 Json (*endpoint)(const Json&, const ServedModel&)) {
  return answer_or_error([&] {
    const auto served = service.ready();
    return json_reply(endpoint(parse_body(request.body), *served));
  });
}

}  // namespace

ApiOutcome tokenize(Service& service, const ApiRequest& request) {
  return reply(service, request, tokenized);
}

ApiOutcome detokenize(Service& service, const ApiRequest& request) {
  return reply(service, request, detokenized);
}

ApiOutcome apply_template(Service& service, const ApiRequest& request) {
  return reply(service, request, templated);
}

}  // namespace quern
