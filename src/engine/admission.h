// Which requests may run, and how long their answers may be. Tokens and bytes
// only.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "engine/engine.h"
#include "plan/memory_plan.h"

namespace quern {

class Admission {
 public:
  // `context` 0: as much as memory allows. Throws Error if no row fits.
  Admission(MemoryNeeds needs, size_t budget, int context, int places);

  // Any thread may call these.

  // The longest row, prompt and answer, that context and memory allow.
  int longest_row() const { return longest_row_; }
  // Why a prompt of so many tokens can never run, if it cannot. `max_tokens` as
  // in Request.
  std::optional<Refusal> refuse(int64_t prompt, int max_tokens) const;
  // The longest answer: what was asked for, within the room that is left.
  int most_tokens(int prompt, int max_tokens) const;
  size_t budget() const { return budget_; }
  // Bytes of the budget that are for rows.
  size_t room() const { return room_; }

  // A place and the memory of a row; gives them back when it dies. Of one
  // thread.
  class Reservation {
   public:
    explicit Reservation(Admission& owner);
    ~Reservation();
    Reservation(const Reservation&) = delete;
    Reservation& operator=(const Reservation&) = delete;

    // The longest that the row may be.
    int tokens() const { return tokens_; }
    // For a longer row; false, and nothing changed, if that does not fit.
    bool extend(int tokens);

   private:
    friend class Admission;
    Admission& owner_;
    int tokens_ = 0;
    size_t bytes_ = 0;
  };
  // For a row of at most `tokens`; null if it does not fit beside the others
  // now.
  std::unique_ptr<Reservation> reserve(int tokens);
  size_t reserved_bytes() const { return reserved_; }

 private:
  // What all reservations take if that one is for `tokens`; without it for 0.
  size_t reserved_with(const Reservation& one, int tokens) const;

  MemoryNeeds needs_;
  size_t budget_, room_ = 0;  // room_: for rows
  int context_, places_, longest_row_ = 0;
  size_t reserved_ = 0;
  std::vector<const Reservation*> reservations_;
};

}  // namespace quern
