#include "cli/model_source.h"

#include "cli/output.h"
#include "hub/library.h"

namespace quern {

ModelSource::ModelSource(const std::optional<std::string>& argument)
    : path_(resolve_model(argument, Places::from_environment()).or_throw()) {
  std::error_code error;
  if (!std::filesystem::is_directory(path_, error)) {
    gguf_ = Gguf::open(path_).or_throw();
  }
}

std::unique_ptr<TextModel> ModelSource::load_model() const {
  const Progress progress("loading " + path_.filename().string());
  if (gguf_) return quern::load_model(gguf_, path_).or_throw();
  return quern::load_model(path_).or_throw();
}

Tokenizer ModelSource::load_tokenizer() const {
  if (!gguf_) return Tokenizer::from_directory(path_).or_throw();
  const auto vocabulary = gguf_vocabulary(*gguf_);
  if (!vocabulary) fail("{}: {}", path_.string(), vocabulary.reason());
  auto tokenizer = Tokenizer::from_gguf(*vocabulary);
  if (!tokenizer) fail("{}: {}", path_.string(), tokenizer.reason());
  return std::move(tokenizer).value();
}

void add_model(CLI::App& app, std::optional<std::string>& model) {
  add_text(app, "MODEL", model,
           "A directory, a .gguf file, or an id of 'quern models'")
      ->type_name("");
}

void add_run_options(CLI::App& app, RunOptions& options) {
  add_model(app, options.model);
  add_flag(app, "--exact", options.exact,
           "Compute in f32 throughout, which is slower");
  add_number(app, "--threads", options.threads, 1, kMostThreads,
             "Threads to compute with (default: all cores)");
  add_number(app, "--prefill-chunk", options.prefill_chunk, 1, 65536,
             fmt::format("Tokens of the prompt fed at once (default {}); "
                         "changes no result",
                         kPrefillChunk));
  add_kv_options(app, options.kv);
}

void check_ids(const std::vector<int32_t>& ids, const TextModel& model) {
  const int vocabulary = model.facts().vocabulary;
  if (ids.empty()) fail("the list of token ids is empty");
  for (int32_t id : ids) {
    if (id >= 0 && id < vocabulary) continue;
    fail("token ids: {} is not in the model's vocabulary, 0 to {}", id,
         vocabulary - 1);
  }
}

}  // namespace quern
