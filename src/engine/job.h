// A request inside the engine, from the queue to its end.
#pragma once

#include <chrono>
#include <memory>

#include "engine/admission.h"
#include "engine/decode_batch.h"

namespace quern {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

// Written by the submitting thread until it is in the queue, then by the
// engine's.
struct Job {
  Request request;  // without its prompt
  std::shared_ptr<Ticket> ticket;
  std::vector<int32_t> text;  // prompt, and answer so far
  DecodeRow decode;           // its row is empty while it waits
  int prompt;                 // tokens
  int most;                   // tokens of the answer
  int told = 0;               // of the prompt, to the listener
  Ending ending;
  Clock::time_point submitted = Clock::now();
  std::unique_ptr<Admission::Reservation> reservation = nullptr;
};
using JobPtr = std::shared_ptr<Job>;

// The job's row; keeps the whole job alive, and with it what it has reserved.
inline DecodeRowPtr row_of(const JobPtr& job) {
  return DecodeRowPtr(job, &job->decode);
}

}  // namespace quern
