// One request on its own, from prompt to last token: what the command line
// runs, and what a row of the scheduler must equal.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "engine/decode_batch.h"
#include "engine/finish.h"
#include "engine/prefill.h"

namespace quern {

struct GenerationOptions {
  Precision precision = Precision::fast;
  KvScheme kv = {};  // raw numbers are those of the precision
  int prefill_chunk = kPrefillChunk;
  int max_tokens = 0;            // 0 = as long as the context allows
  std::vector<int32_t> end_ids;  // tokens that end the answer
  SamplingParams sampling;
};

class Generation {
 public:
  // Progress of the prompt: tokens fed, of how many. False ends the answer.
  using Progress = std::function<bool(int fed, int total)>;

  // The model must outlive it. `past` is a row that holds the prompt's first
  // tokens, not all of them; without one the whole prompt is fed. Throws Error
  // on an empty prompt, a past that is too long, or parameters that do not
  // validate.
  Generation(const TextModel& model, std::vector<int32_t> prompt,
             GenerationOptions options, std::optional<Row> past = {});

  // Feeds the prompt and draws the first token; then one token a call.
  // Nothing when the answer has ended: finish() says how. An end token is not
  // returned.
  std::optional<Sampled> next(const Progress& progress = {});

  // Ends the answer where it is (a stop string was seen).
  void stop();

  // Ends the answer and gives up its row: it holds what was fed of the prompt
  // and the answer, and perhaps the token after them.
  Row release();

  // How it ended; nothing while it may go on.
  std::optional<Finish> finish() const { return finish_; }
  const std::string& reason() const { return reason_; }  // of failed
  int prompt_tokens() const { return prompt_tokens_; }
  int generated() const { return generated_; }
  size_t kv_bytes() const { return decode_->row.bytes(); }

 private:
  std::optional<Sampled> accept(Draw draw);
  void end(Finish how);

  const TextModel& model_;
  GenerationOptions options_;
  std::vector<int32_t> prompt_;
  int prompt_tokens_, most_;
  DecodeRowPtr decode_;
  DecodeBatch batch_;
  std::optional<Finish> finish_;
  std::string reason_;
  int generated_ = 0;
  bool started_ = false;
};

}  // namespace quern
