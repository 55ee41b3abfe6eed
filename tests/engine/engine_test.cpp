#include "engine/engine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <future>
#include <random>
#include <thread>

#include "engine/prompt_scores.h"
#include "engine/recorder.h"
#include "engine/row_checks.h"
#include "engine/tiny_model.h"
#include "plan/memory_plan.h"

namespace quern::test {
namespace {

using Ids = std::vector<int32_t>;
constexpr int kVocabulary = 96;  // of the tiny models

// The i-th of many requests that have little in common.
Ask mixed_ask(int i) {
  std::mt19937 random(i);
  const auto up_to = [&](int n) { return int(random() % uint32_t(n)); };
  Ask ask{.prompt = random_ids(1 + (i % 5 == 0 ? up_to(300) : up_to(40)),
                               kVocabulary, 100 + i),
          .max_tokens = 1 + up_to(40)};
  SamplingParams& s = ask.sampling;
  s.seed = random();
  if (i % 3) s.temperature = 0.5f + 0.1f * (i % 9);
  if (i % 4 == 1) s.top_p = 0.9f;
  if (i % 4 == 2) s.min_p = 0.05f;
  if (i % 4 == 3) s.top_k = 7;
  if (i % 5 == 1) s.repetition_penalty = 1.3f;
  if (i % 5 == 2) s.frequency_penalty = 0.4f;
  if (i % 7 == 3) s.logit_bias = {{i % kVocabulary, 4.f}};
  if (i % 2) s.logprobs = i % 6;
  if (i % 3 == 1) ask.end_ids = {int32_t(up_to(kVocabulary)), 5};
  return ask;
}

// Waits for the request; no other may be running.
void expect_solo(const TextModel& model, const Ask& ask, Recorder& heard) {
  const Ending& ending = heard.wait();
  const Answer alone = solo(model, ask);
  EXPECT_EQ(ending.finish, alone.finish) << ending.reason;
  EXPECT_TRUE(same(heard.tokens(), alone.tokens));
  EXPECT_EQ(ending.tokens, int(alone.tokens.size()));
  EXPECT_EQ(ending.prompt_tokens, int(ask.prompt.size()));
  EXPECT_EQ(heard.fed().front(), 0);
  EXPECT_EQ(heard.fed().back(), int(ask.prompt.size()));
  EXPECT_EQ(heard.ends(), 1);
}

class Engines : public testing::TestWithParam<const char*> {};

TEST_P(Engines, EachOfManyEqualsItsSoloRun) {
  const auto model = tiny_model(GetParam());
  Engine engine(*model, {.batch = 6, .queue = 64, .prefill_chunk = 48});
  std::vector<Ask> asks;
  std::vector<std::shared_ptr<Recorder>> heard;
  for (int i = 0; i < 50; i++) {
    asks.push_back(mixed_ask(i));
    heard.push_back(std::make_shared<Recorder>());
    submit(engine, request_of(asks[i], heard[i]));
  }
  ASSERT_TRUE(engine.drain(600));
  for (int i = 0; i < 50; i++) {
    SCOPED_TRACE(i);
    expect_solo(*model, asks[i], *heard[i]);
  }
  const EngineStats stats = engine.stats();
  EXPECT_EQ(stats.requests, 50u);
  EXPECT_EQ(stats.refused, 0u);
  EXPECT_EQ(
      stats.finished[int(Finish::stop)] + stats.finished[int(Finish::length)],
      50u);
}

INSTANTIATE_TEST_SUITE_P(Tiny, Engines,
                         testing::Values("llama", "gemma3_text"));

// Each of 16 threads submits one request after the other; a third of them are
// cancelled at some token.
TEST(Engine, ManyThreadsWithRandomCancels) {
  const auto model = tiny_model("gemma3_text");
  std::vector<Answer> alone;
  for (int i = 0; i < 96; i++) alone.push_back(solo(*model, mixed_ask(i)));
  Engine engine(*model, {.batch = 5, .queue = 64, .prefill_chunk = 64});
  std::vector<std::thread> threads;
  std::atomic<int> finished = 0, cancelled = 0;
  for (int t = 0; t < 16; t++) {
    threads.emplace_back([&, t] {
      for (int i = t; i < 96; i += 16) {
        const Ask ask = mixed_ask(i);
        const auto heard = std::make_shared<Recorder>();
        const bool leaves = i % 3 == 0;
        std::promise<std::shared_ptr<Ticket>> promise;
        const auto ticket = promise.get_future().share();
        if (leaves) {
          heard->token = [&, ticket](int tokens) {
            if (tokens == 1 + i % 8) ticket.get()->cancel();
            return true;
          };
        }
        promise.set_value(submit(engine, request_of(ask, heard)));
        if (i % 12 == 0) ticket.get()->cancel();
        if (heard->wait().finish == Finish::cancelled) {
          EXPECT_TRUE(leaves);
          EXPECT_TRUE(begins(alone[i].tokens, heard->tokens()));
          cancelled++;
        } else {
          EXPECT_EQ(heard->wait().finish, alone[i].finish);
          EXPECT_TRUE(same(heard->tokens(), alone[i].tokens));
          finished++;
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(finished + cancelled, 96);
  EXPECT_GT(cancelled, 8);
  EXPECT_TRUE(engine.drain(60));
  const EngineStats stats = engine.stats();
  EXPECT_EQ(stats.rows + stats.joining + stats.queued, 0);
  EXPECT_EQ(stats.kv_bytes, 0u);
}

class OneModel : public testing::Test {
 protected:
  std::unique_ptr<TextModel> model_ = tiny_model("llama");
  Ids ids(int count, int seed = 1) {
    return random_ids(count, kVocabulary, seed);
  }
};
using EngineCancel = OneModel;
using EngineFaults = OneModel;
using EngineLimits = OneModel;
using EnginePrompt = OneModel;

TEST_F(EngineCancel, InTheQueue) {
  Engine engine(*model_, {.batch = 1});
  const Ask long_ask{ids(20), 200};
  const auto first = std::make_shared<Recorder>();
  const auto second = std::make_shared<Recorder>();
  std::promise<void> cancelled;
  first->token = [&](int tokens) {
    if (tokens == 3) cancelled.get_future().wait();
    return true;
  };
  submit(engine, request_of(long_ask, first));
  submit(engine, request_of({ids(9)}, second))->cancel();
  cancelled.set_value();
  EXPECT_EQ(second->wait().finish, Finish::cancelled);
  EXPECT_EQ(second->wait().timings.admitted, 0);
  EXPECT_TRUE(second->fed().empty());
  EXPECT_LT(second->wait().timings.ended, first->wait().timings.ended);
  expect_solo(*model_, long_ask, *first);
}

TEST_F(EngineCancel, InItsPrompt) {
  Engine engine(*model_, {.prefill_chunk = 16});
  const auto heard = std::make_shared<Recorder>();
  std::promise<std::shared_ptr<Ticket>> ticket;
  heard->progress = [&](int fed) {
    if (fed == 48) ticket.get_future().get()->cancel();
  };
  ticket.set_value(submit(engine, request_of({ids(4000)}, heard)));
  EXPECT_EQ(heard->wait().finish, Finish::cancelled);
  EXPECT_EQ(heard->fed(), (std::vector<int>{0, 16, 32, 48}));
  EXPECT_TRUE(heard->tokens().empty());
}

TEST_F(EngineCancel, InItsAnswer) {
  Engine engine(*model_, {});
  const auto heard = std::make_shared<Recorder>();
  std::promise<std::shared_ptr<Ticket>> ticket;
  heard->token = [&](int tokens) {
    if (tokens == 5) ticket.get_future().get()->cancel();
    return true;
  };
  ticket.set_value(submit(engine, request_of({ids(30)}, heard)));
  EXPECT_EQ(heard->wait().finish, Finish::cancelled);
  EXPECT_EQ(heard->tokens().size(), 5u);
}

TEST_F(EngineCancel, WhenTheEngineEnds) {
  std::vector<std::shared_ptr<Recorder>> heard;
  {
    Engine engine(*model_, {.batch = 2});
    for (int i = 0; i < 6; i++) {
      heard.push_back(std::make_shared<Recorder>());
      submit(engine, request_of({ids(i < 3 ? 10 : 6000)}, heard[i]));
    }
  }
  for (const auto& one : heard) {
    EXPECT_EQ(one->ends(), 1);
    EXPECT_EQ(one->wait().finish, Finish::cancelled);
  }
}

TEST_F(EngineFaults, AListenerThatThrowsEndsItsRequestOnly) {
  Engine engine(*model_, {});
  const Ask ask{ids(30), 40};
  std::vector<std::shared_ptr<Recorder>> heard;
  for (int i = 0; i < 5; i++) heard.push_back(std::make_shared<Recorder>());
  heard[0]->progress = [](int fed) {
    if (fed == 0) fail("no place");
  };
  heard[1]->progress = [](int fed) {
    if (fed > 0) fail("no prompt");
  };
  heard[2]->token = [](int tokens) -> bool {
    if (tokens == 7) throw std::runtime_error("no more");
    return true;
  };
  heard[3]->end = [] { fail("no end"); };
  for (auto& one : heard) submit(engine, request_of(ask, one));
  const char* reasons[] = {"no place", "no prompt", "no more"};
  for (int i = 0; i < 3; i++) {
    EXPECT_EQ(heard[i]->wait().finish, Finish::failed);
    EXPECT_EQ(heard[i]->wait().reason, reasons[i]);
    EXPECT_EQ(heard[i]->ends(), 1);
  }
  EXPECT_EQ(heard[2]->tokens().size(), 7u);
  EXPECT_TRUE(engine.drain(60));
  expect_solo(*model_, ask, *heard[3]);
  expect_solo(*model_, ask, *heard[4]);
}

TEST_F(EngineFaults, AListenerMayEndItsAnswer) {
  Engine engine(*model_, {});
  const auto heard = std::make_shared<Recorder>();
  heard->token = [](int tokens) { return tokens < 4; };
  submit(engine, request_of({ids(8)}, heard));
  EXPECT_EQ(heard->wait().finish, Finish::stop);
  EXPECT_EQ(heard->tokens().size(), 4u);
}

// Allows the tokens of `text` one by one; fails or throws at one of them.
class Spelled final : public Constraint {
 public:
  enum class Fault { none, mask, accept, throws };
  Spelled(Ids text, Fault fault = Fault::none, size_t at = 0)
      : text_(std::move(text)), fault_(fault), at_(at) {}

  Result<std::span<const uint32_t>> mask() override {
    if (done()) return failure("asked after its end");
    if (here(Fault::mask)) return failure("no mask");
    if (here(Fault::throws)) throw std::runtime_error("a grammar's fault");
    std::fill(std::begin(mask_), std::end(mask_), 0);
    mask_[text_[next_] / 32] |= 1u << text_[next_] % 32;
    return std::span<const uint32_t>(mask_);
  }
  Status accept(int32_t token) override {
    if (here(Fault::accept)) return failure("not accepted");
    next_++;
    return {};
  }
  bool done() const override { return next_ == text_.size(); }

 private:
  bool here(Fault fault) const { return fault_ == fault && next_ == at_; }

  Ids text_;
  Fault fault_;
  size_t at_, next_ = 0;
  uint32_t mask_[kVocabulary / 32] = {};
};

TEST_F(EngineFaults, AConstraintEndsOrFailsItsRowOnly) {
  using Fault = Spelled::Fault;
  Engine engine(*model_, {});
  const Ids text{4, 8, 15, 16, 23, 42};
  const Ask ask{ids(12), 25};
  struct Case {
    Fault fault;
    const char* reason;
  };
  std::vector<std::shared_ptr<Recorder>> heard;
  const std::vector<Case> cases{{Fault::none, ""},
                                {Fault::mask, "no mask"},
                                {Fault::accept, "not accepted"},
                                {Fault::throws, "a grammar's fault"}};
  for (const Case& c : cases) {
    heard.push_back(std::make_shared<Recorder>());
    Request request = request_of(ask, heard.back());
    request.constraint = std::make_unique<Spelled>(text, c.fault, 3);
    submit(engine, std::move(request));
  }
  const auto free = std::make_shared<Recorder>();
  submit(engine, request_of(ask, free));
  EXPECT_TRUE(engine.drain(60));
  for (size_t i = 0; i < cases.size(); i++) {
    Ids spelled;
    const Ending& ending = heard[i]->wait();
    for (const Sampled& s : heard[i]->tokens()) spelled.push_back(s.token);
    const bool fails = cases[i].fault != Fault::none;
    EXPECT_EQ(ending.finish, fails ? Finish::failed : Finish::stop);
    EXPECT_EQ(ending.reason, cases[i].reason);
    EXPECT_EQ(spelled, fails ? Ids(text.begin(), text.begin() + 3) : text);
  }
  expect_solo(*model_, ask, *free);
}

// Throws at the n-th forward pass, or makes its hidden states NaN.
class FaultyModel final : public TextModel {
 public:
  enum class Fault { throws, nan, on_stream };
  FaultyModel(const TextModel& model, Fault fault, int at)
      : model_(model), fault_(fault), at_(at) {
    facts_ = model.facts();
  }
  mx::array hidden(const mx::array& tokens, const Step& step) const override {
    mx::array hidden = model_.hidden(tokens, step);
    if (++passes_ != at_) return hidden;
    if (fault_ == Fault::throws) throw std::bad_alloc();
    if (fault_ == Fault::nan) return mx::multiply(hidden, mx::array(NAN));
    return cpu_op("test.fault", stream_of({}), hidden.shape(), mx::float32,
                  {hidden}, [](auto&, auto&) { fail("the device failed"); });
  }
  mx::array logits(const mx::array& hidden, Precision p) const override {
    return model_.logits(hidden, p);
  }
  Row make_row(const KvScheme& scheme) const override {
    return model_.make_row(scheme);
  }

 private:
  const TextModel& model_;
  Fault fault_;
  int at_;
  mutable int passes_ = 0;
};

TEST_F(EngineFaults, AFailingStepEndsItsRowsAndTheEngineGoesOn) {
  const Ask ask{ids(50), 30};
  const Answer alone = solo(*model_, ask);
  for (auto fault : {FaultyModel::Fault::throws, FaultyModel::Fault::nan,
                     FaultyModel::Fault::on_stream}) {
    for (int at : {1, 2, 6}) {
      SCOPED_TRACE(fmt::format("fault {} at {}", int(fault), at));
      const FaultyModel faulty(*model_, fault, at);
      Engine engine(faulty, {.prefill_chunk = 32});
      std::vector<std::shared_ptr<Recorder>> heard;
      for (int i = 0; i < 2; i++) {
        heard.push_back(std::make_shared<Recorder>());
        submit(engine, request_of(ask, heard[i]));
      }
      int failed = 0;
      for (auto& one : heard) {
        failed += one->wait().finish == Finish::failed;
        EXPECT_TRUE(begins(alone.tokens, one->tokens()));
      }
      // Nothing is drawn from the states of the first chunk.
      const bool unseen = fault == FaultyModel::Fault::nan && at == 1;
      EXPECT_GE(failed, unseen ? 0 : 1);
      const auto later = std::make_shared<Recorder>();
      submit(engine, request_of(ask, later));
      expect_solo(*model_, ask, *later);
    }
  }
}

TEST_F(EngineLimits, AFullQueueTakesAllOrNone) {
  Engine engine(*model_, {.batch = 1, .queue = 2});
  std::promise<void> go;
  const auto gate = go.get_future().share();
  std::vector<std::shared_ptr<Recorder>> heard;
  const auto requests = [&](int count) {
    std::vector<Request> all;
    for (int i = 0; i < count; i++) {
      heard.push_back(std::make_shared<Recorder>());
      heard.back()->progress = [gate](int) { gate.wait(); };
      all.push_back(request_of({ids(5), 3}, heard.back()));
    }
    return all;
  };
  ASSERT_TRUE(std::holds_alternative<Tickets>(engine.submit(requests(2))));
  const auto outcome = engine.submit(requests(2));
  ASSERT_TRUE(std::holds_alternative<Refusal>(outcome));
  const auto& refusal = std::get<Refusal>(outcome);
  EXPECT_EQ(refusal.kind, Refusal::Kind::busy);
  EXPECT_GE(refusal.retry_after_s, 1);
  const auto last = engine.submit(requests(1));
  ASSERT_TRUE(std::holds_alternative<Tickets>(last));
  // A cancelled one that waits takes no place.
  std::get<Tickets>(last)[0]->cancel();
  ASSERT_TRUE(std::holds_alternative<Tickets>(engine.submit(requests(1))));
  go.set_value();
  for (int taken : {0, 1, 5}) {
    EXPECT_EQ(heard[taken]->wait().finish, Finish::length);
  }
  EXPECT_EQ(heard[4]->wait().finish, Finish::cancelled);
  for (int refused : {2, 3}) EXPECT_EQ(heard[refused]->ends(), 0);
  EXPECT_EQ(engine.stats().requests, 6u);
  EXPECT_EQ(engine.stats().refused, 2u);

  const auto many = engine.submit(requests(4));
  EXPECT_EQ(std::get<Refusal>(many).kind, Refusal::Kind::too_many);
  EXPECT_TRUE(engine.drain(10));
  EXPECT_EQ(std::get<Refusal>(engine.submit(requests(1))).kind,
            Refusal::Kind::draining);
}

TEST_F(EngineLimits, DrainWaitsNoLongerThanAsked) {
  Engine engine(*model_, {});
  const auto heard = std::make_shared<Recorder>();
  std::promise<void> go;
  heard->token = [&](int tokens) {
    if (tokens == 1) go.get_future().wait();
    return tokens < 3;
  };
  submit(engine, request_of({ids(5)}, heard));
  EXPECT_FALSE(engine.drain(0.05));
  go.set_value();
  EXPECT_TRUE(engine.drain(30));
  EXPECT_EQ(heard->ends(), 1);
}

Refusal refusal_of(Engine& engine, Request request) {
  std::vector<Request> requests;
  requests.push_back(std::move(request));
  auto outcome = engine.submit(std::move(requests));
  const auto* refusal = std::get_if<Refusal>(&outcome);
  return refusal ? *refusal : Refusal{.reason = "none"};
}

TEST_F(EngineLimits, TellsWhatCannotRun) {
  Engine engine(*model_, {.context = 100});
  EXPECT_EQ(engine.longest_row(), 100);
  const auto heard = std::make_shared<Recorder>();
  const auto refused = [&](Ask ask) {
    return refusal_of(engine, request_of(ask, heard));
  };
  using Kind = Refusal::Kind;
  const Refusal longer = refused({ids(100)});
  EXPECT_EQ(longer.kind, Kind::too_long);
  EXPECT_EQ(longer.asked, 100);
  EXPECT_EQ(longer.most, 100);
  EXPECT_EQ(longer.reason, "the prompt has 100 tokens, the context is 100");
  EXPECT_EQ(refused({Ids{}}).kind, Kind::invalid);
  EXPECT_EQ(refused({Ids{1, kVocabulary}}).reason,
            "token ids must be in [0, 95], got 96");
  EXPECT_EQ(refused({Ids{-1}}).kind, Kind::invalid);
  EXPECT_EQ(refused({Ids{1}, -2}).kind, Kind::invalid);
  EXPECT_EQ(refused({Ids{1}, 4, {}, {.temperature = 9}}).kind, Kind::invalid);
  Request scored = request_of({Ids{1, 2}}, heard);
  scored.prompt_logprobs = kMaxTopLogprobs + 1;
  EXPECT_EQ(refusal_of(engine, std::move(scored)).kind, Kind::invalid);

  submit(engine, request_of({ids(99), 50}, heard));
  EXPECT_EQ(heard->wait().finish, Finish::length);
  EXPECT_EQ(heard->tokens().size(), 1u);
}

TEST_F(EngineLimits, RefusesOptionsOutOfRange) {
  EXPECT_THROW(Engine(*model_, {.batch = 0}), Error);
  EXPECT_THROW(Engine(*model_, {.queue = -1}), Error);
  EXPECT_THROW(Engine(*model_, {.prefill_chunk = 0}), Error);
  EXPECT_THROW(Engine(*model_, {.context = 8193}), Error);
  EXPECT_THROW(Engine(*model_, {.memory_budget = 1 << 20}), Error);
}

// MLX counts every byte it hands out, this process's other arrays too.
TEST(EngineMemory, StaysWithinWhatThePlanBills) {
  for (const char* type : {"llama", "gemma3_text"}) {
    const auto model = tiny_model(type);
    const StepSizes sizes{.chunk = 256, .batch = 8, .scored = kScoredAtOnce};
    const MemoryNeeds needs = memory_needs(*model, qmm::Number::f16, sizes);
    const size_t before = mx::get_active_memory();
    mx::reset_peak_memory();
    size_t bill = needs.transients;
    {
      Engine engine(*model, {.batch = 8, .prefill_chunk = 256});
      std::vector<std::shared_ptr<Recorder>> heard;
      for (int i = 0; i < 8; i++) {
        heard.push_back(std::make_shared<Recorder>());
        Request request =
            request_of({random_ids(1500, kVocabulary, i), 300 + i}, heard[i]);
        request.prompt_logprobs = 2;
        submit(engine, std::move(request));
        bill += needs.row(1800 + i);
      }
      size_t reserved = 0;
      for (auto& one : heard) {
        EXPECT_EQ(one->wait().finish, Finish::length);
        reserved = std::max(reserved, engine.stats().kv_reserved_bytes);
      }
      EXPECT_LE(reserved, bill - needs.transients);
    }
    EXPECT_LE(mx::get_peak_memory() - before, bill) << type;
    EXPECT_LE(mx::get_active_memory(), before) << type;
  }
}

// Room for two rows at first and for one at full length: they grow, the younger
// makes room, waits, and goes on where it was. The second of five is cancelled
// while it waits, the fourth has its prompt scored.
TEST(EngineMemory, RowsThatFindNoRoomWaitAndGoOn) {
  for (const char* type : {"llama", "gemma3_text"}) {
    const auto model = tiny_model(type);
    const StepSizes sizes{.chunk = 256, .batch = 4, .scored = kScoredAtOnce};
    const MemoryNeeds needs = memory_needs(*model, qmm::Number::f16, sizes);
    const size_t rows = 2 * needs.row(768), before = mx::get_active_memory();
    mx::reset_peak_memory();
    Engine engine(*model, {.batch = 4,
                           .prefill_chunk = 256,
                           .memory_budget = needs.fixed() + rows});
    std::vector<Ask> asks;
    std::vector<std::shared_ptr<Recorder>> heard;
    std::vector<std::shared_ptr<Ticket>> tickets;
    for (int i = 0; i < 5; i++) {
      asks.push_back({random_ids(100 + i, kVocabulary, i), 800});
      asks[i].sampling = {.temperature = 0.9f,
                          .repetition_penalty = 1.1f,
                          .seed = uint64_t(i),
                          .logprobs = 2};
      heard.push_back(std::make_shared<Recorder>());
    }
    heard[0]->token = [&](int tokens) {
      if (tokens == 780) tickets[1]->cancel();
      return true;
    };
    std::vector<Request> requests;
    for (int i = 0; i < 5; i++) {
      requests.push_back(request_of(asks[i], heard[i]));
      if (i == 3) requests[i].prompt_logprobs = 1;
    }
    std::promise<void> submitted;
    heard[0]->progress = [&](int fed) {
      if (fed == 0) submitted.get_future().wait();
    };
    tickets = std::get<Tickets>(engine.submit(std::move(requests)));
    submitted.set_value();
    ASSERT_TRUE(engine.drain(600));
    EXPECT_LE(mx::get_peak_memory() - before, needs.transients + rows);
    for (int i : {0, 2, 3, 4}) {
      SCOPED_TRACE(i);
      expect_solo(*model, asks[i], *heard[i]);
    }
    EXPECT_EQ(heard[1]->wait().finish, Finish::cancelled);
    EXPECT_GT(heard[1]->tokens().size(), 400u);
    EXPECT_EQ(heard[3]->prompt().size(), 102u);
    EXPECT_GE(engine.stats().pauses, 2u);
  }
}

// By whole forward passes: log(softmax) in double.
TEST_F(EnginePrompt, LogprobsEqualThoseOfAWholePass) {
  Engine engine(*model_, {.precision = Precision::exact, .prefill_chunk = 20});
  const Ids prompt = ids(70);
  const auto heard = std::make_shared<Recorder>();
  Request request = request_of({prompt, 0}, heard);
  request.prompt_logprobs = 3;
  submit(engine, std::move(request));
  EXPECT_EQ(heard->wait().finish, Finish::length);
  EXPECT_EQ(heard->wait().tokens, 0);

  const Logits all = chunked(*model_, prompt, Precision::exact, 70);
  ASSERT_EQ(heard->prompt().size(), 69u);
  for (int i = 1; i < 70; i++) {
    const PromptLogprobs& one = heard->prompt()[i - 1];
    const float* row = all.data() + (i - 1) * kVocabulary;
    double sum = 0;
    for (int t = 0; t < kVocabulary; t++) sum += std::exp(double(row[t]));
    EXPECT_EQ(one.position, i);
    EXPECT_EQ(one.scored.token, prompt[i]);
    EXPECT_NEAR(one.scored.logprob, row[prompt[i]] - std::log(sum), 1e-4);
    ASSERT_EQ(one.scored.top.size(), 3u);
    const auto best = std::max_element(row, row + kVocabulary) - row;
    EXPECT_EQ(one.scored.top[0].first, best);
    EXPECT_NEAR(one.scored.top[0].second, row[best] - std::log(sum), 1e-4);
  }
}

TEST_F(EnginePrompt, ShortOnesShareAStep) {
  Engine engine(*model_, {.batch = 8, .prefill_chunk = 256});
  std::promise<void> go;
  const auto first = std::make_shared<Recorder>();
  first->progress = [&](int fed) {
    if (fed == 0) go.get_future().wait();
  };
  submit(engine, request_of({ids(4), 1}, first));
  std::vector<std::shared_ptr<Recorder>> heard;
  std::vector<Ask> asks;
  for (int i = 0; i < 7; i++) {
    asks.push_back({ids(20 + i, i), 12});
    heard.push_back(std::make_shared<Recorder>());
    submit(engine, request_of(asks[i], heard[i]));
  }
  go.set_value();
  ASSERT_TRUE(engine.drain(60));
  for (int i = 0; i < 7; i++) expect_solo(*model_, asks[i], *heard[i]);
  // 7 rows of 12 tokens, of which the first comes with the prompt.
  EXPECT_EQ(engine.stats().steps, 11u);
  EXPECT_EQ(engine.stats().prompt_tokens, 4u + 7 * 20 + 21);
  EXPECT_EQ(engine.stats().generated_tokens, 1u + 7 * 12);
}

}  // namespace
}  // namespace quern::test
