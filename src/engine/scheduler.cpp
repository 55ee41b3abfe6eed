#include "engine/scheduler.h"

#include <mlx/mlx.h>

#include <algorithm>

#include "engine/evaluate.h"
#include "engine/prompt_scores.h"

namespace quern {
namespace {

constexpr uint64_t kStepsBetweenClears = 256;  // of the allocator's cache

// The length that memory is promised for to a row of `tokens`.
int64_t tokens_ahead(int64_t tokens) { return tokens + tokens / 4 + 512; }
// Where memory is short.
constexpr int kLeastAhead = 256;

void insert_by_age(std::vector<JobPtr>& jobs, JobPtr job) {
  const auto older = [](const JobPtr& a, const JobPtr& b) {
    return a->submitted < b->submitted;
  };
  jobs.insert(std::ranges::upper_bound(jobs, job, older), job);
}

}  // namespace

Scheduler::Scheduler(const TextModel& model, const EngineOptions& options,
                     Admission& admission, RequestQueue& queue,
                     std::function<void()> publish)
    : model_(model),
      precision_(options.precision),
      kv_(options.kv.with(kv_number(options.precision))),
      admission_(admission),
      queue_(queue),
      publish_(std::move(publish)),
      prefill_(model, options.precision, options.prefill_chunk),
      batch_(model, options.precision, options.layout) {}

bool Scheduler::busy() const {
  return !jobs_.empty() || !paused_.empty() || batch_.under_way() > 0 ||
         prefill_.under_way();
}

void Scheduler::turn() {
  end_cancelled();
  admit();
  decode();   // starts a step, reads the one before it
  collect();  // reads the chunk that ran between them
  make_room();
  prefill();  // starts the next chunk
}

void Scheduler::end_cancelled() {
  for (const JobPtr& job : queue_.take_cancelled()) {
    finish(*job, Finish::cancelled);
  }
  for (const auto& jobs : {jobs_, paused_}) {
    for (const JobPtr& job : jobs) {
      if (job->ticket->cancelled()) finish(*job, Finish::cancelled);
    }
  }
}

void Scheduler::cancel_all() {
  for (const auto& jobs : {queue_.take_all(), jobs_, paused_}) {
    for (const JobPtr& job : jobs) finish(*job, Finish::cancelled);
  }
  batch_.drop();
  prefill_.drop();
}

void Scheduler::admit() {
  while (!paused_.empty() && reserve(*paused_.front())) {
    const JobPtr job = paused_.front();
    paused_.erase(paused_.begin());
    tell(*job, [&](Listener&) { feed(job); });
  }
  if (!paused_.empty()) return;
  const auto fits = [&](Job& job) { return reserve(job); };
  while (const JobPtr job = queue_.take(fits)) begin(job);
}

bool Scheduler::reserve(Job& job) {
  const int64_t ahead = tokens_ahead(int64_t(job.text.size()));
  job.decode.most = int(std::min<int64_t>(job.prompt + job.most, ahead));
  job.reservation = admission_.reserve(job.decode.most);
  return job.reservation != nullptr;
}

void Scheduler::begin(const JobPtr& job) {
  job->ending.timings.admitted = seconds_since(job->submitted);
  tell(*job, [&](Listener& listener) {
    feed(job);
    listener.on_progress(0, job->prompt);
  });
}

void Scheduler::feed(const JobPtr& job) {
  job->decode.row = model_.make_row(kv_);
  insert_by_age(jobs_, job);
  prefill_.join({row_of(job), job->text});
}

// Between the chunks of prompts, so that none is under way.
void Scheduler::make_room() {
  const auto lacks = [&](const JobPtr& job) {
    const DecodeRow& row = job->decode;
    return row.left > 0 && batch_.length(row) >= row.most;
  };
  while (true) {
    const auto oldest = std::ranges::find_if(jobs_, lacks);
    if (oldest == jobs_.end()) return;
    if (!tidy()) continue;
    Job& job = **oldest;
    const auto extend = [&](int64_t ahead) {
      const int tokens = int(std::min<int64_t>(job.prompt + job.most, ahead));
      if (!job.reservation->extend(tokens)) return false;
      job.decode.most = tokens;
      return true;
    };
    const int length = batch_.length(job.decode);
    if (extend(tokens_ahead(length)) || extend(length + kLeastAhead)) continue;
    if (batch_.under_way() > 0) {
      read_steps(0);  // rows that have ended give their memory back
    } else {
      pause(jobs_.back());
    }
  }
}

// What rows that have left hold is promised to others only once it is free.
bool Scheduler::tidy() {
  try {
    batch_.tidy();
    return true;
  } catch (const DeviceFault& e) {
    lose_steps(e.what());
    return false;
  }
}

// No step of the row is under way.
void Scheduler::pause(JobPtr job) {
  stats_.pauses++;
  prefill_.leave(job->decode);
  batch_.leave(job->decode);
  std::erase(jobs_, job);
  job->decode.row = Row({});
  job->reservation = nullptr;
  insert_by_age(paused_, job);
}

void Scheduler::decode() {
  std::string fault;
  int ahead = 0;
  try {
    ahead = batch_.issue() ? 1 : 0;
    stats_.steps += ahead;
  } catch (const DeviceFault& e) {
    lose_steps(e.what());
  } catch (const std::exception& e) {
    fault = e.what();
  }
  read_steps(ahead);
  if (!fault.empty()) fail_rows(batch_.drop(), fault);
  if (ahead > 0 && stats_.steps % kStepsBetweenClears == 0) mx::clear_cache();
}

// Until no more than `ahead` are under way.
void Scheduler::read_steps(int ahead) {
  try {
    while (batch_.under_way() > ahead) {
      for (const Draw& draw : batch_.read()) deliver(draw);
    }
  } catch (const DeviceFault& e) {
    lose_steps(e.what());
  }
}

void Scheduler::deliver(const Draw& draw) {
  const JobPtr job = find(*draw.row);
  if (!job) return;
  if (!draw.sampled) {
    finish(*job, Finish::failed, draw.sampled.reason());
    return;
  }
  Ending& ending = job->ending;
  if (ending.tokens == 0) {
    ending.timings.first_token = seconds_since(job->submitted);
  }
  decoded_.add(seconds_since(start_), 1);
  stats_.generated_tokens++;
  if (std::ranges::count(job->request.end_ids, draw.sampled->token)) {
    finish(*job, Finish::stop);
    return;
  }
  ending.tokens++;
  job->text.push_back(draw.sampled->token);
  tell(*job, [&](Listener& listener) {
    if (!listener.on_token(*draw.sampled) || draw.done) {
      finish(*job, Finish::stop);
    } else if (ending.tokens == job->most) {
      finish(*job, Finish::length);
    }
  });
}

void Scheduler::prefill() {
  try {
    prefill_.issue();
  } catch (const DeviceFault& e) {
    lose_steps(e.what());
  } catch (const std::exception& e) {
    fail_rows(prefill_.drop(), e.what());
  }
}

void Scheduler::collect() {
  if (!prefill_.under_way()) return;
  std::vector<PrefillBatch::Part> parts;
  try {
    parts = prefill_.read();
  } catch (const DeviceFault& e) {
    lose_steps(e.what());
  }
  std::vector<PrefillBatch::Part> complete;
  for (PrefillBatch::Part& part : parts) {
    const JobPtr job = find(*part.row.row);
    if (!job) continue;
    take_part(part, job);
    if (part.complete() && find(*part.row.row)) complete.push_back(part);
  }
  if (!complete.empty()) join(complete);
}

void Scheduler::take_part(PrefillBatch::Part& part, const JobPtr& job) {
  fed_.add(seconds_since(start_), part.count);
  const int fed = std::min(part.row.fed, job->prompt);
  if (fed <= job->told) return;  // fed again
  stats_.prompt_tokens += fed - job->told;
  tell(*job, [&](Listener& listener) {
    if (job->request.prompt_logprobs >= 0) score_prompt(part, *job);
    job->told = fed;
    listener.on_progress(fed, job->prompt);
    if (part.complete() && job->most == 0) finish(*job, Finish::length);
  });
}

void Scheduler::score_prompt(const PrefillBatch::Part& part, const Job& job) {
  const int begin = part.row.fed - part.count;  // of the part, in the prompt
  const int from = std::max(begin, job.told);
  const int count = std::min(part.row.fed, job.prompt - 1) - from;
  if (count <= 0) return;
  const mx::array hidden =
      mx::slice(part.hidden, {from - begin, 0},
                {from - begin + count, part.hidden.shape(1)});
  const auto scores =
      score_tokens(model_, hidden, part.row.tokens.subspan(from + 1, count),
                   job.request.prompt_logprobs, precision_);
  std::vector<PromptLogprobs> logprobs;
  for (int i = 0; i < count; i++) {
    logprobs.push_back({from + 1 + i, scores[i]});
  }
  job.request.listener->on_prompt_logprobs(std::move(logprobs));
}

void Scheduler::join(const std::vector<PrefillBatch::Part>& complete) {
  std::vector<DecodeRowPtr> rows;
  std::vector<mx::array> last;
  for (const PrefillBatch::Part& part : complete) {
    rows.push_back(part.row.row);
    last.push_back(mx::slice(part.hidden, {part.count - 1, 0},
                             {part.count, part.hidden.shape(1)}));
  }
  try {
    batch_.join(rows, mx::concatenate(last, 0));
  } catch (const DeviceFault& e) {
    fail_rows(rows, e.what());
    lose_steps(e.what());
  } catch (const std::exception& e) {
    fail_rows(rows, e.what());
  }
}

template <class Act>
void Scheduler::tell(Job& job, Act act) {
  try {
    act(*job.request.listener);
  } catch (const DeviceFault& e) {
    finish(job, Finish::failed, e.what());
    lose_steps(e.what());
  } catch (const std::exception& e) {
    finish(job, Finish::failed, e.what());
  }
}

void Scheduler::finish(Job& job, Finish how, std::string reason) {
  prefill_.leave(job.decode);
  batch_.leave(job.decode);
  Ending& ending = job.ending;
  ending.finish = how;
  ending.reason = std::move(reason);
  ending.prompt_tokens = job.prompt;
  ending.timings.ended = seconds_since(job.submitted);
  stats_.finished[int(how)]++;
  ended_.add(seconds_since(start_), 1);
  const auto listener = std::exchange(job.request.listener, nullptr);
  const Ending told = ending;  // the job may die now
  for (auto* jobs : {&jobs_, &paused_}) {
    std::erase_if(*jobs, [&](const JobPtr& j) { return j.get() == &job; });
  }
  publish_();
  try {
    listener->on_end(told);
  } catch (const std::exception&) {
    // It has ended already.
  }
  queue_.ended();
}

void Scheduler::lose_steps(const std::string& reason) {
  fail_rows(batch_.drop(), reason);
  fail_rows(prefill_.drop(), reason);
}

void Scheduler::fail_rows(const std::vector<DecodeRowPtr>& rows,
                          const std::string& reason) {
  for (const DecodeRowPtr& row : rows) {
    if (const JobPtr job = find(*row)) finish(*job, Finish::failed, reason);
  }
}

JobPtr Scheduler::find(const DecodeRow& row) const {
  const auto it = std::ranges::find_if(
      jobs_, [&](const JobPtr& job) { return &job->decode == &row; });
  return it == jobs_.end() ? nullptr : *it;
}

EngineStats Scheduler::stats() const {
  EngineStats stats = stats_;
  const double now = seconds_since(start_);
  stats.rows = int(batch_.rows().size());
  stats.joining = prefill_.size();
  stats.queued = int(paused_.size());
  stats.kv_bytes = batch_.merged_bytes();
  for (const JobPtr& job : jobs_) stats.kv_bytes += job->decode.row.bytes();
  stats.kv_reserved_bytes = admission_.reserved_bytes();
  stats.decode_tps = decoded_.rate(now);
  stats.prefill_tps = fed_.rate(now);
  return stats;
}

double Scheduler::ends_per_second() const {
  return ended_.rate(seconds_since(start_));
}

}  // namespace quern
