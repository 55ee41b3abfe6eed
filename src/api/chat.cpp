// /v1/chat/completions
#include "api/answer.h"
#include "api/chat_request.h"
#include "api/chat_writer.h"
#include "api/endpoints.h"

namespace quern {
namespace {

ApiOutcome chat(Service& service, const ApiRequest& http) {
  auto served = service.ready();
  const ChatRequest chat = read_chat(parse_body(http.body), *served);
  const GenerationFields& g = chat.generation;

  auto mailbox = std::make_shared<Mailbox>(g.choices);
  std::vector<Request> requests;
  for (int i = 0; i < g.choices; ++i) {
    requests.push_back(make_request(g, *served, chat.prompt, i));
    requests.back().listener = std::make_shared<Choice>(
        served->tokenizer, chat.choice(*served), mailbox, i);
  }
  Dialect dialect{
      .writer = std::make_unique<ChatWriter>(
          AnswerHead::fresh("chatcmpl-", g.model), served->tokenizer,
          ChatWriterOptions{
              .choices = g.choices,
              .include_usage = g.include_usage || !g.stream,
              .logprobs = g.sampling.logprobs >= 0,
              .reasoning_field = served->defaults.reasoning_field})};
  if (!g.stream) dialect.fold = std::make_unique<ChatFold>();
  return start_answer(std::move(served), std::move(requests),
                      std::move(mailbox), std::move(dialect));
}

}  // namespace

ApiOutcome chat_completions(Service& service, const ApiRequest& request) {
  return answer_or_error([&] { return chat(service, request); });
}

}  // namespace quern
