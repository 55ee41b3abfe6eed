#include "engine/admission.h"

#include <algorithm>

#include "kv/layout.h"

namespace quern {

Admission::Admission(MemoryNeeds needs, size_t budget, int context, int places)
    : needs_(std::move(needs)),
      budget_(budget),
      context_(context > 0 ? context : kMostTokens),
      places_(places) {
  if (budget_ > needs_.fixed()) {
    room_ = budget_ - needs_.fixed();
    longest_row_ = quern::longest_row(needs_, room_, context_);
  }
  if (longest_row_ < 2) {
    fail(
        "the model does not fit into {:.0f} MB of memory: its weights take "
        "{:.0f} MB, a step {:.0f} MB, the shortest row {:.0f} MB",
        budget_ / 1e6, needs_.weights / 1e6,
        (needs_.transients + needs_.reserve) / 1e6, needs_.row(2) / 1e6);
  }
}

std::optional<Refusal> Admission::refuse(int64_t prompt, int max_tokens) const {
  const int64_t least = prompt + (max_tokens == 0 ? 0 : 1);
  if (least > context_) {
    return Refusal{Refusal::Kind::too_long,
                   fmt::format("the prompt has {} tokens, the context is {}",
                               prompt, context_),
                   prompt, context_};
  }
  if (least > longest_row_) {
    return Refusal{
        Refusal::Kind::over_budget,
        fmt::format("the prompt has {} tokens, memory allows a context of {}",
                    prompt, longest_row_),
        prompt, longest_row_};
  }
  return {};
}

int Admission::most_tokens(int prompt, int max_tokens) const {
  const int room = longest_row_ - prompt;
  return max_tokens < 0 ? room : std::min(max_tokens, room);
}

std::unique_ptr<Admission::Reservation> Admission::reserve(int tokens) {
  if (places_ == 0) return nullptr;
  auto reservation = std::make_unique<Reservation>(*this);
  return reservation->extend(tokens) ? std::move(reservation) : nullptr;
}

size_t Admission::reserved_with(const Reservation& one, int tokens) const {
  size_t rows = 0, sum = 0;
  int longest = 0;
  for (const Reservation* r : reservations_) {
    const int length = r == &one ? tokens : r->tokens_;
    if (length == 0) continue;
    rows++;
    longest = std::max(longest, length);
    if (!needs_.padded) sum += r == &one ? needs_.row(tokens) : r->bytes_;
  }
  if (needs_.padded && rows > 0) sum = rows * needs_.row(longest);
  return sum;
}

Admission::Reservation::Reservation(Admission& owner) : owner_(owner) {
  owner_.places_--;
  owner_.reservations_.push_back(this);
}

Admission::Reservation::~Reservation() {
  owner_.reserved_ = owner_.reserved_with(*this, 0);
  std::erase(owner_.reservations_, this);
  owner_.places_++;
}

bool Admission::Reservation::extend(int tokens) {
  const size_t reserved = owner_.reserved_with(*this, tokens);
  if (reserved > owner_.room_) return false;
  owner_.reserved_ = reserved;
  bytes_ = owner_.needs_.row(tokens);
  tokens_ = tokens;
  return true;
}

}  // namespace quern
