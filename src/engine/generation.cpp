#include "engine/generation.h"

#include <algorithm>
#include <limits>

namespace quern {
namespace {

// The answer's longest length: what was asked for, within the context.
int most_tokens(const TextModel& model, int prompt, int asked) {
  const int context = model.facts().context;
  const int room = context > 0 ? std::max(0, context - prompt)
                               : std::numeric_limits<int>::max();
  return asked > 0 ? std::min(asked, room) : room;
}

}  // namespace

Generation::Generation(const TextModel& model, std::vector<int32_t> prompt,
                       GenerationOptions options, std::optional<Row> past)
    : model_(model),
      options_(std::move(options)),
      prompt_(std::move(prompt)),
      prompt_tokens_(int(prompt_.size())),
      most_(most_tokens(model, prompt_tokens_, options_.max_tokens)),
      decode_(std::make_shared<DecodeRow>(DecodeRow{
          .row = past ? std::move(*past)
                      : model.make_row(
                            options_.kv.with(kv_number(options_.precision))),
          .sampler =
              SamplerRow(options_.sampling, model.facts().vocabulary, prompt_),
          .position = uint64_t(prompt_tokens_),
          .left = most_})),
      batch_(model, options_.precision) {
  if (prompt_.empty()) fail("[generate] the prompt has no token");
  if (decode_->row.length() >= prompt_tokens_) {
    fail("[generate] the past holds {} tokens, the prompt {}",
         decode_->row.length(), prompt_tokens_);
  }
  validate(options_.sampling, model.facts().vocabulary).or_throw();
}

std::optional<Sampled> Generation::next(const Progress& progress) {
  if (finish_) return {};
  if (generated_ == most_) {
    end(Finish::length);
    return {};
  }
  if (!started_) {
    started_ = true;
    prompt_.erase(prompt_.begin(), prompt_.begin() + decode_->row.length());
    Prefill prefill(model_, decode_->row, std::move(prompt_),
                    options_.precision, options_.prefill_chunk);
    while (prefill.total() - prefill.fed() > options_.prefill_chunk) {
      prefill.step();
      if (progress && !progress(prefill.fed(), prefill.total())) {
        stop();
        return {};
      }
    }
    batch_.join({decode_}, prefill.finish());
  } else {
    if (batch_.under_way() == 0) batch_.issue();
    // One more token may be wanted: it is under way while this one is read.
    batch_.issue();
  }
  return accept(std::move(batch_.read()[0]));
}

std::optional<Sampled> Generation::accept(Draw draw) {
  if (!draw.sampled) {
    reason_ = draw.sampled.reason();
    end(Finish::failed);
  } else if (std::ranges::count(options_.end_ids, draw.sampled->token)) {
    end(Finish::stop);
  } else {
    generated_++;
    return std::move(draw.sampled).value();
  }
  return {};
}

void Generation::stop() { end(Finish::stop); }

void Generation::end(Finish how) {
  if (!finish_) finish_ = how;
  while (batch_.under_way() > 0) batch_.read();
}

Row Generation::release() {
  stop();
  return std::move(decode_->row);
}

}  // namespace quern
