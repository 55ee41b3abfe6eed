#include "engine/scheduler.h"

#include <mlx/mlx.h>

#include <algorithm>

#include "engine/prompt_scores.h"

namespace quern {
namespace {

constexpr uint64_t kStepsBetweenClears = 256;  // of the allocator's cache

}  // namespace

Scheduler::Scheduler(const TextModel& model, const EngineOptions& options,
                     Admission& admission, RequestQueue& queue)
    : model_(model),
      precision_(options.precision),
      admission_(admission),
      queue_(queue),
      prefill_(model, options.precision, options.prefill_chunk),
      batch_(model, options.precision) {}

bool Scheduler::busy() const {
  return !jobs_.empty() || batch_.under_way() > 0 || prefill_.under_way();
}

void Scheduler::turn() {
  end_cancelled();
  admit();
  decode();   // starts a step, reads the one before it
  collect();  // reads the chunk that ran between them
  prefill();  // starts the next
}

void Scheduler::end_cancelled() {
  for (const JobPtr& job : queue_.take_cancelled()) {
    finish(*job, Finish::cancelled);
  }
  for (const JobPtr& job : std::vector(jobs_)) {
    if (job->ticket->cancelled()) finish(*job, Finish::cancelled);
  }
}

void Scheduler::cancel_all() {
  for (const JobPtr& job : queue_.take_all()) finish(*job, Finish::cancelled);
  for (const JobPtr& job : std::vector(jobs_)) finish(*job, Finish::cancelled);
  batch_.drop();
  prefill_.drop();
}

void Scheduler::admit() {
  const auto fits = [&](Job& job) {
    job.reservation = admission_.reserve(job.prompt() + job.most);
    return job.reservation != nullptr;
  };
  while (const JobPtr job = queue_.take(fits)) begin(job);
}

void Scheduler::begin(const JobPtr& job) {
  job->ending.timings.admitted = seconds_since(job->submitted);
  jobs_.push_back(job);
  tell(*job, [&](Listener& listener) {
    job->decode.row = model_.make_row(kv_number(precision_));
    prefill_.join({row_of(job), job->request.prompt});
    listener.on_progress(0, job->prompt());
  });
}

void Scheduler::decode() {
  std::string fault;
  int ahead = 0;
  try {
    ahead = batch_.issue() ? 1 : 0;
    stats_.steps += ahead;
  } catch (const std::exception& e) {
    fault = e.what();
  }
  try {
    while (batch_.under_way() > ahead) {
      for (const Draw& draw : batch_.read()) deliver(draw);
    }
  } catch (const std::exception& e) {
    fault = e.what();
  }
  if (!fault.empty()) fail_rows(batch_.drop(), fault);
  if (stats_.steps % kStepsBetweenClears == 1) mx::clear_cache();
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
  } catch (const std::exception& e) {
    fail_rows(prefill_.drop(), e.what());
  }
}

void Scheduler::collect() {
  if (!prefill_.under_way()) return;
  std::vector<PrefillBatch::Part> parts;
  try {
    parts = prefill_.read();
  } catch (const std::exception& e) {
    fail_rows(prefill_.drop(), e.what());
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
  stats_.prompt_tokens += part.count;
  tell(*job, [&](Listener& listener) {
    if (job->request.prompt_logprobs >= 0) score_prompt(part, *job);
    listener.on_progress(part.row.fed, job->prompt());
    if (part.complete() && job->most == 0) finish(*job, Finish::length);
  });
}

void Scheduler::score_prompt(const PrefillBatch::Part& part, Job& job) {
  const int first = part.row.fed - part.count + 1;
  const int count = std::min(part.count, job.prompt() - first);
  if (count == 0) return;
  const auto scores = score_tokens(
      model_, part.hidden, part.row.tokens.subspan(first, count),
      job.request.prompt_logprobs, precision_);
  std::vector<PromptLogprobs> logprobs;
  for (int i = 0; i < count; i++) logprobs.push_back({first + i, scores[i]});
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
  } catch (const std::exception& e) {
    fail_rows(rows, e.what());
  }
}

template <class Act>
void Scheduler::tell(Job& job, Act act) {
  try {
    act(*job.request.listener);
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
  ending.prompt_tokens = job.prompt();
  ending.timings.ended = seconds_since(job.submitted);
  stats_.finished[int(how)]++;
  ended_.add(seconds_since(start_), 1);
  try {
    std::exchange(job.request.listener, nullptr)->on_end(ending);
  } catch (const std::exception&) {
    // It has ended already.
  }
  queue_.ended();
  std::erase_if(jobs_, [&](const JobPtr& other) { return other.get() == &job; });
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
