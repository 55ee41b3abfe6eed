// The model that a command names, and the options of running one.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cli/kv_options.h"
#include "cli/options.h"
#include "engine/prefill.h"
#include "models/model.h"
#include "models/registry.h"
#include "text/tokenizer.h"

namespace quern {

// A model's files. A .gguf is opened once for all that is read from it.
class ModelSource {
 public:
  // `argument` is MODEL as it was typed. Throws Error if it names none.
  explicit ModelSource(const std::optional<std::string>& argument);

  const Path& path() const { return path_; }
  const Gguf* gguf() const { return gguf_.get(); }  // null for a directory

  std::unique_ptr<TextModel> load_model() const;
  Tokenizer load_tokenizer() const;

 private:
  Path path_;
  std::shared_ptr<const Gguf> gguf_;
};

struct RunOptions {
  std::optional<std::string> model;
  bool exact = false;
  int threads = 0;  // 0 = all cores
  int prefill_chunk = kPrefillChunk;
  KvOptions kv;

  Precision precision() const {
    return exact ? Precision::exact : Precision::fast;
  }
  KvScheme kv_scheme(const TextModel& model, const ModelSource& source) const {
    return quern::kv_scheme(kv, model, source.path(), precision());
  }
};

inline constexpr int kMostThreads = 1024;

void add_model(CLI::App& app, std::optional<std::string>& model);
// MODEL, --exact, --threads, --prefill-chunk, --kv and --kv-ring.
void add_run_options(CLI::App& app, RunOptions& options);

// Throws Error if there is no id, or one that the model does not have.
void check_ids(const std::vector<int32_t>& ids, const TextModel& model);

}  // namespace quern
