// /v1/completions
#include "api/answer.h"
#include "api/choice.h"
#include "api/completion_writer.h"
#include "api/endpoints.h"

namespace quern {
namespace {

// The requests of each prompt's choices, prompt after prompt.
std::vector<Request> make_requests(const CompletionRequest& completion,
                                   const ServedModel& served,
                                   const std::shared_ptr<Mailbox>& mailbox) {
  const GenerationFields& g = completion.generation;
  std::vector<Request> requests;
  for (const Prompt& prompt : completion.prompts) {
    for (int i = 0; i < completion.best_of; ++i) {
      Request request = make_request(g, served, prompt.ids, i);
      const bool scored = completion.scores_prompts() && i == 0;
      if (scored) request.prompt_logprobs = completion.logprobs;
      request.listener = std::make_shared<Choice>(
          served.tokenizer,
          ChoiceOptions{.stops = g.stops,
                        .scores = completion.logprobs >= 0,
                        .prompt_scores = scored},
          mailbox, int(requests.size()));
      requests.push_back(std::move(request));
    }
  }
  return requests;
}

ApiOutcome complete(Service& service, const ApiRequest& http) {
  auto served = service.ready();
  CompletionRequest completion =
      read_completion(parse_body(http.body), *served);
  GenerationFields& g = completion.generation;
  g.include_usage = g.include_usage || !g.stream;

  auto mailbox = std::make_shared<Mailbox>(int(completion.prompts.size()) *
                                           completion.best_of);
  auto requests = make_requests(completion, *served, mailbox);
  Dialect dialect;
  if (!g.stream) {
    dialect.fold =
        std::make_unique<CompletionFold>(completion.best_of, g.choices);
  }
  auto head = AnswerHead::fresh("cmpl-", g.model);
  dialect.writer = std::make_unique<CompletionWriter>(
      std::move(head), served->tokenizer, std::move(completion));
  return start_answer(std::move(served), std::move(requests),
                      std::move(mailbox), std::move(dialect));
}

}  // namespace

ApiOutcome completions(Service& service, const ApiRequest& request) {
  return answer_or_error([&] { return complete(service, request); });
}

}  // namespace quern
