// Many requests on one model: the boundary of the engine.
//
// One thread owns the model. It feeds the prompts of joining rows a chunk at a
// time, between the decode steps of the rows that have theirs, and tells each
// request's Listener what happens. Everything here may be called from any
// thread. A request's tokens are those it would get alone, whatever runs
// beside it.
//
// Memory is promised to a row for its text and some tokens more, and then bit
// by bit. Where it runs out, the youngest row gives its memory back and waits;
// later its text is fed again, and it goes on as if nothing had happened.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "engine/finish.h"
#include "models/model.h"
#include "sample/constraint.h"
#include "sample/params.h"
#include "sample/row.h"

namespace quern {

// Seconds since the request was submitted; those that never came are 0.
struct Timings {
  double admitted = 0;     // left the queue
  double first_token = 0;  // has its prompt
  double ended = 0;
};

struct Ending {
  Finish finish = Finish::failed;
  std::string reason;  // one line, of failed
  int prompt_tokens = 0;
  int cached_tokens = 0;  // of the prompt, taken from an earlier row
  int tokens = 0;         // given to the listener
  Timings timings;
};

// What one token of the prompt would have cost: of the row's unprocessed
// logits at its place.
struct PromptLogprobs {
  int position;    // in the prompt, 1 or more: nothing predicts the first
  Sampled scored;  // the prompt's token there, and the top ones
};

// Told of one request, on the engine's thread and in order: progress and
// prompt logprobs, tokens, end. It must not block. What it throws ends this
// request only.
class Listener {
 public:
  virtual ~Listener() = default;
  // `fed` tokens of the prompt's `total` are in the row. 0: it was admitted.
  virtual void on_progress(int fed, int total) {}
  virtual void on_prompt_logprobs(std::vector<PromptLogprobs> logprobs) {}
  // The next token of the answer; never an end token. False: end here (stop).
  virtual bool on_token(const Sampled& token) = 0;
  // Exactly once, and last.
  virtual void on_end(const Ending& ending) = 0;
};

struct Request {
  std::vector<int32_t> prompt;  // at least one token
  int max_tokens = -1;          // -1: what context and memory leave; 0: none
  std::vector<int32_t> end_ids;
  SamplingParams sampling;
  std::unique_ptr<Constraint> constraint = nullptr;
  int prompt_logprobs = -1;  // as SamplingParams::logprobs, of the prompt
  std::shared_ptr<Listener> listener;
};

// Cancels its request: within one step, wherever it is (queue, prefill,
// decode). May outlive the engine.
class Ticket {
 public:
  void cancel() { cancelled_ = true; }
  bool cancelled() const { return cancelled_; }

 private:
  std::atomic<bool> cancelled_ = false;
};
using Tickets = std::vector<std::shared_ptr<Ticket>>;

// Why requests were not taken.
struct Refusal {
  enum class Kind {
    invalid,      // a parameter out of range, a token that is not there
    too_long,     // prompt tokens >= the context
    over_budget,  // the prompt's keys and values do not fit into memory
    too_many,     // more at once than rows and queue hold
    busy,         // the queue is full: try again later
    draining      // the engine takes no more
  };
  Kind kind;
  std::string reason;     // one line
  int64_t asked = 0;      // of too_long and over_budget: tokens of the prompt,
  int64_t most = 0;       // and the longest row: the context, or what fits
  int retry_after_s = 0;  // of busy
};

struct EngineOptions {
  Precision precision = Precision::fast;
  KvScheme kv = {};  // raw numbers are those of the precision
  BatchLayout layout = BatchLayout::ragged;
  int batch = 8;             // rows that decode together, joiners included
  int queue = 64;            // requests that wait for a place
  int prefill_chunk = 256;   // tokens of prompts between two decode steps
  int context = 0;           // 0: the model's
  size_t memory_budget = 0;  // bytes for weights, rows and transients;
                             // 0: plan/memory_plan.h's default
};

// A moment's view, and counts since the start.
struct EngineStats {
  BatchLayout layout = BatchLayout::ragged;
  int rows = 0;     // decoding
  int joining = 0;  // in prefill
  int queued = 0;   // paused rows included
  int places = 0;   // for rows and joiners
  int context = 0;
  size_t weight_bytes = 0;
  size_t kv_bytes = 0;           // held by rows, padding included
  size_t kv_reserved_bytes = 0;  // what rows may grow to for now
  size_t budget_bytes = 0;
  size_t kv_budget_bytes = 0;  // what the budget leaves for rows
  uint64_t requests = 0;       // submitted, refused ones included
  uint64_t finished[4] = {};   // by Finish
  uint64_t refused = 0;
  uint64_t pauses = 0;  // of rows that made room for older ones
  uint64_t prompt_tokens = 0, generated_tokens = 0, steps = 0;
  double decode_tps = 0, prefill_tps = 0;  // of the last seconds
};

class Engine {
 public:
  // Starts the thread. The model must outlive it. Throws Error if options are
  // out of range or the weights alone exceed the budget.
  Engine(const TextModel& model, EngineOptions options);
  // Cancels what is left and waits for the thread.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Takes all of the requests or none. A request that is taken hears its end,
  // a refused one nothing.
  std::variant<Tickets, Refusal> submit(std::vector<Request> requests);

  // Takes no more; returns when all requests have ended, or after `seconds`:
  // whether they have.
  bool drain(double seconds);

  // The longest row, prompt and answer, that context and memory allow.
  int longest_row() const;
  const TextModel& model() const;
  EngineStats stats() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quern
