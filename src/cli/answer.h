// One answer of a model, as text.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/model_source.h"
#include "engine/generation.h"
#include "text/chat_template.h"

namespace quern {

// A model with all that text needs.
struct TextSetup {
  Path path;
  std::unique_ptr<TextModel> model;
  KvScheme kv;
  Tokenizer tokenizer;
  ChatTemplates templates;
  double load_s;
};

// `template_file` takes the place of the model's own chat template.
TextSetup load_text_setup(const RunOptions& options,
                          const std::optional<std::string>& template_file);

struct AnswerRequest {
  std::vector<int32_t> prompt;
  GenerationOptions options;  // end_ids are the tokenizer's
  std::vector<std::string> stops;
  std::optional<Row> past = {};  // a row with the first tokens of the prompt
};

struct Answer {
  std::string text;
  std::vector<Sampled> tokens;      // without the end token
  Finish finish;                    // stop or length
  std::optional<std::string> stop;  // the stop string that ended it
  int fed;          // tokens of the prompt that were not in the past
  double first_s;   // until the first token
  double decode_s;  // from the first token to the end
  Row row;          // as Generation::release gives it

  std::optional<double> prefill_tps() const;
  std::optional<double> decode_tps() const;
};

// Runs until the answer ends or `go_on` says no. `show` gets the text in
// pieces, as they come. Throws Error if the prompt does not fit into the
// model's context or sampling fails.
Answer run_answer(const TextSetup& setup, AnswerRequest request,
                  const std::function<void(std::string_view)>& show,
                  const std::function<bool()>& go_on);

}  // namespace quern
