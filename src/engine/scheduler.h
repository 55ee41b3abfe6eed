// Who gets the next step: the engine without its thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/decode_batch.h"
#include "engine/job.h"
#include "engine/meter.h"
#include "engine/prefill_batch.h"
#include "engine/request_queue.h"

namespace quern {

class Scheduler {
 public:
  // All three must outlive it. `publish` is called before a request hears its
  // end, with that in the stats.
  Scheduler(const TextModel& model, const EngineOptions& options,
            Admission& admission, RequestQueue& queue,
            std::function<void()> publish);

  // There is more to do than to wait for requests.
  bool busy() const;
  // One decode step for the rows that have their prompts and a share of one
  // chunk for those that have not.
  void turn();
  // Ends every request, those that wait too.
  void cancel_all();

  // Without what submitting counts.
  EngineStats stats() const;
  double ends_per_second() const;

 private:
  void end_cancelled();
  void admit();
  void decode();
  void collect();
  void make_room();
  void prefill();

  bool reserve(Job& job);
  void begin(const JobPtr& job);
  void feed(const JobPtr& job);
  bool tidy();
  void pause(JobPtr job);
  void read_steps(int ahead);
  void take_part(PrefillBatch::Part& part, const JobPtr& job);
  void score_prompt(const PrefillBatch::Part& part, const Job& job);
  void join(const std::vector<PrefillBatch::Part>& complete);
  void deliver(const Draw& draw);

  // Runs `act` on the job's listener; what it throws ends the job.
  template <class Act>
  void tell(Job& job, Act act);
  void finish(Job& job, Finish how, std::string reason = {});
  // After a DeviceFault: ends the rows of all steps under way.
  void lose_steps(const std::string& reason);
  void fail_rows(const std::vector<DecodeRowPtr>& rows,
                 const std::string& reason);
  // The job of a row, or null if it has ended.
  JobPtr find(const DecodeRow& row) const;

  const TextModel& model_;
  const Precision precision_;
  const KvScheme kv_;
  Admission& admission_;
  RequestQueue& queue_;
  const std::function<void()> publish_;
  PrefillBatch prefill_;
  DecodeBatch batch_;
  std::vector<JobPtr> jobs_;    // admitted and running, the oldest first
  std::vector<JobPtr> paused_;  // admitted and waiting, the oldest first
  EngineStats stats_;           // its counts
  Clock::time_point start_ = Clock::now();
  Meter decoded_, fed_, ended_;
};

}  // namespace quern
