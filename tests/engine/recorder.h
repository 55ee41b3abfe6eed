// A listener that keeps what it hears, and the solo run of a request.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "engine/engine.h"
#include "engine/generation.h"

namespace quern::test {

// Hooks run on the engine's thread and may throw.
class Recorder final : public Listener {
 public:
  std::function<void(int fed)> progress = [](int) {};
  std::function<bool(int tokens)> token = [](int) { return true; };
  std::function<void()> end = [] {};

  void on_progress(int fed, int total) override {
    fed_.push_back(fed);
    progress(fed);
  }
  void on_prompt_logprobs(std::vector<PromptLogprobs> logprobs) override {
    for (auto& l : logprobs) prompt_.push_back(std::move(l));
  }
  bool on_token(const Sampled& sampled) override {
    tokens_.push_back(sampled);
    return token(int(tokens_.size()));
  }
  void on_end(const Ending& ending) override {
    {
      std::lock_guard lock(mutex_);
      ending_ = ending;
      ends_++;
    }
    ended_.notify_all();
    end();
  }

  // Waits for the end. What was heard may be read after it.
  const Ending& wait() {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return ending_.has_value(); });
    return *ending_;
  }
  const std::vector<Sampled>& tokens() const { return tokens_; }
  const std::vector<PromptLogprobs>& prompt() const { return prompt_; }
  const std::vector<int>& fed() const { return fed_; }
  int ends() {
    std::lock_guard lock(mutex_);
    return ends_;
  }

 private:
  std::vector<Sampled> tokens_;
  std::vector<PromptLogprobs> prompt_;
  std::vector<int> fed_;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::optional<Ending> ending_;
  int ends_ = 0;
};

// What a test asks for: a Request without its owners, so that it can be made
// twice.
struct Ask {
  std::vector<int32_t> prompt;
  int max_tokens = -1;
  std::vector<int32_t> end_ids = {};
  SamplingParams sampling = {};
};

inline Request request_of(const Ask& ask, std::shared_ptr<Listener> listener) {
  return {.prompt = ask.prompt,
          .max_tokens = ask.max_tokens,
          .end_ids = ask.end_ids,
          .sampling = ask.sampling,
          .listener = std::move(listener)};
}

struct Answer {
  std::vector<Sampled> tokens;
  Finish finish;
};

// The same request on its own.
inline Answer solo(const TextModel& model, const Ask& ask,
                   Precision precision = Precision::fast,
                   const KvScheme& kv = {}) {
  Generation generation(model, ask.prompt,
                        {.precision = precision,
                         .kv = kv,
                         .max_tokens = ask.max_tokens < 0 ? 0 : ask.max_tokens,
                         .end_ids = ask.end_ids,
                         .sampling = ask.sampling});
  std::vector<Sampled> tokens;
  while (auto token = generation.next()) tokens.push_back(std::move(*token));
  return {std::move(tokens), *generation.finish()};
}

inline bool same(const Sampled& a, const Sampled& b) {
  return a.token == b.token && a.logprob == b.logprob && a.top == b.top;
}

// Token for token, and bit for bit in their log-probabilities.
inline bool same(const std::vector<Sampled>& a, const std::vector<Sampled>& b) {
  return std::equal(
      a.begin(), a.end(), b.begin(), b.end(),
      [](const Sampled& x, const Sampled& y) { return same(x, y); });
}

// Whether `some` are the first of `all`.
inline bool begins(const std::vector<Sampled>& all,
                   const std::vector<Sampled>& some) {
  return some.size() <= all.size() &&
         same(some, {all.begin(), all.begin() + some.size()});
}

// One ticket of a submission that must have been taken.
inline std::shared_ptr<Ticket> submit(Engine& engine, Request request) {
  std::vector<Request> requests;
  requests.push_back(std::move(request));
  auto outcome = engine.submit(std::move(requests));
  if (auto* refusal = std::get_if<Refusal>(&outcome)) {
    fail("refused: {}", refusal->reason);
  }
  return std::get<Tickets>(outcome)[0];
}

// The same request as the only row of an engine.
inline Answer solo(const TextModel& model, const Ask& ask,
                   EngineOptions options) {
  options.batch = 1;
  Engine engine(model, options);
  const auto heard = std::make_shared<Recorder>();
  submit(engine, request_of(ask, heard));
  const Ending& ending = heard->wait();
  return {heard->tokens(), ending.finish};
}

}  // namespace quern::test
