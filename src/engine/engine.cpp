#include "engine/engine.h"

#include <mlx/mlx.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <thread>

#include "engine/evaluate.h"
#include "engine/prompt_scores.h"
#include "engine/scheduler.h"

namespace quern {
namespace {

// Without a request for so long the engine gives memory back. Longer than the
// time that rates look back.
constexpr double kIdleSeconds = 6;

void check(const char* name, int value, int low, int high) {
  if (value < low || value > high) {
    fail("[engine] {} must be in [{}, {}], got {}", name, low, high, value);
  }
}

EngineOptions checked(EngineOptions options, const ModelFacts& facts) {
  const int context =
      facts.context > 0 ? std::min(facts.context, kMostTokens) : kMostTokens;
  check("batch", options.batch, 1, 4096);
  check("queue", options.queue, 0, 1 << 20);
  check("prefill_chunk", options.prefill_chunk, 1, 1 << 16);
  check("context", options.context, 0, context);
  if (options.context == 0) options.context = context;
  if (options.memory_budget == 0) options.memory_budget = default_budget();
  return options;
}

Refusal invalid(std::string reason) {
  return {Refusal::Kind::invalid, std::move(reason)};
}

}  // namespace

class Engine::Impl {
 public:
  Impl(const TextModel& model, const EngineOptions& options)
      : model_(model),
        options_(options),
        admission_(
            memory_needs(model, options.kv.with(kv_number(options.precision)),
                         {.chunk = options.prefill_chunk,
                          .batch = options.batch,
                          .scored = kScoredAtOnce,
                          .layout = options.layout}),
            options.memory_budget, options.context, options.batch),
        queue_(options.batch + options.queue),
        scheduler_(model, options, admission_, queue_, [this] { publish(); }),
        thread_([this] { run(); }) {}

  ~Impl() {
    queue_.stop();
    thread_.join();
  }

  std::variant<Tickets, Refusal> submit(std::vector<Request> requests) {
    const size_t count = requests.size();
    auto outcome = take(std::move(requests));
    std::lock_guard lock(mutex_);
    requests_ += count;
    if (std::holds_alternative<Refusal>(outcome)) refused_ += count;
    return outcome;
  }

  bool drain(double seconds) { return queue_.drain(seconds); }
  int longest_row() const { return admission_.longest_row(); }
  const TextModel& model() const { return model_; }

  EngineStats stats() const {
    const int queued = queue_.waiting();
    std::lock_guard lock(mutex_);
    EngineStats stats = stats_;
    stats.queued += queued;
    stats.context = options_.context;
    stats.weight_bytes = model_.facts().weight_bytes;
    stats.layout = options_.layout;
    stats.places = options_.batch;
    stats.budget_bytes = options_.memory_budget;
    stats.kv_budget_bytes = admission_.room();
    stats.requests = requests_;
    stats.refused = refused_;
    return stats;
  }

 private:
  void run() {
    mx::set_cache_limit(kAllocatorCache);
    while (queue_.wait(scheduler_.busy())) {
      scheduler_.turn();
      publish();
      if (scheduler_.busy() || queue_.wait_for(kIdleSeconds)) continue;
      give_back_memory();
      publish();  // nothing a second
    }
    scheduler_.cancel_all();
    mx::clear_streams();  // this thread's
  }

  void publish() {
    EngineStats stats = scheduler_.stats();
    const double ends = scheduler_.ends_per_second();
    std::lock_guard lock(mutex_);
    stats_ = stats;
    ends_per_second_ = ends;
  }

  std::variant<Tickets, Refusal> take(std::vector<Request> requests) {
    const int held = options_.batch + options_.queue;
    if (requests.size() > size_t(held)) {
      return Refusal{Refusal::Kind::too_many,
                     fmt::format("{} answers at once, at most {} fit",
                                 requests.size(), held)};
    }
    for (const Request& request : requests) {
      if (auto refusal = refuse(request)) return *std::move(refusal);
    }
    Tickets tickets;
    std::vector<JobPtr> jobs;
    for (Request& request : requests) {
      jobs.push_back(make_job(std::move(request)));
      tickets.push_back(jobs.back()->ticket);
    }
    const int count = int(jobs.size());
    switch (queue_.push(std::move(jobs))) {
      case RequestQueue::Pushed::yes: return tickets;
      case RequestQueue::Pushed::full: return busy(count);
      default:
        return Refusal{Refusal::Kind::draining, "the server is shutting down"};
    }
  }

  std::optional<Refusal> refuse(const Request& request) const {
    if (!request.listener) fail("[engine.submit] a request has no listener");
    const int vocabulary = model_.facts().vocabulary;
    if (request.prompt.empty()) return invalid("the prompt has no token");
    for (int32_t id : request.prompt) {
      if (id < 0 || id >= vocabulary) {
        return invalid(fmt::format("token ids must be in [0, {}], got {}",
                                   vocabulary - 1, id));
      }
    }
    if (request.max_tokens < -1) {
      return invalid(fmt::format("max_tokens must be at least 0, got {}",
                                 request.max_tokens));
    }
    if (auto ok = validate(request.sampling, vocabulary); !ok) {
      return invalid(ok.reason());
    }
    const SamplingParams scoring{.logprobs = request.prompt_logprobs};
    if (auto ok = validate(scoring, vocabulary); !ok) {
      return invalid(ok.reason());
    }
    return admission_.refuse(int64_t(request.prompt.size()),
                             request.max_tokens);
  }

  JobPtr make_job(Request request) const {
    const int prompt = int(request.prompt.size());
    const int most = admission_.most_tokens(prompt, request.max_tokens);
    std::vector<int32_t> text = std::move(request.prompt);
    SamplerRow sampler(request.sampling, model_.facts().vocabulary, text,
                       std::move(request.constraint));
    return std::make_shared<Job>(Job{.request = std::move(request),
                                     .ticket = std::make_shared<Ticket>(),
                                     .text = std::move(text),
                                     .decode = {.row = Row({}),
                                                .sampler = std::move(sampler),
                                                .position = uint64_t(prompt),
                                                .left = most},
                                     .prompt = prompt,
                                     .most = most});
  }

  Refusal busy(int count) const {
    std::lock_guard lock(mutex_);
    const double seconds = std::ceil(count / std::max(ends_per_second_, 0.1));
    return {.kind = Refusal::Kind::busy,
            .reason = fmt::format("{} requests are waiting, the queue is full",
                                  options_.queue),
            .retry_after_s = int(std::clamp(seconds, 1., 60.))};
  }

  const TextModel& model_;
  const EngineOptions options_;
  Admission admission_;
  RequestQueue queue_;
  Scheduler scheduler_;  // the thread's

  mutable std::mutex mutex_;
  EngineStats stats_;
  double ends_per_second_ = 0;
  uint64_t requests_ = 0, refused_ = 0;

  std::thread thread_;  // last: all else is there when it starts
};

Engine::Engine(const TextModel& model, EngineOptions options)
    : impl_(std::make_unique<Impl>(
          model, checked(std::move(options), model.facts()))) {}

Engine::~Engine() = default;

std::variant<Tickets, Refusal> Engine::submit(std::vector<Request> requests) {
  return impl_->submit(std::move(requests));
}

bool Engine::drain(double seconds) { return impl_->drain(seconds); }
int Engine::longest_row() const { return impl_->longest_row(); }
const TextModel& Engine::model() const { return impl_->model(); }
EngineStats Engine::stats() const { return impl_->stats(); }

}  // namespace quern
