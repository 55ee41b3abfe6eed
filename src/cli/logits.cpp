#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/logits_rows.h"
#include "cli/model_source.h"
#include "cli/output.h"
#include "files/npy.h"
#include "ops/thread_pool.h"

namespace quern {
namespace {

struct LogitsOptions {
  RunOptions run;
  std::vector<int32_t> ids;
  std::optional<std::string> out;
};

void write_logits(const LogitsOptions& options) {
  set_threads(options.run.threads);
  const ModelSource source(options.run.model);
  const auto model = source.load_model();
  check_ids(options.ids, *model);
  const KvScheme kv = options.run.kv_scheme(*model, source);

  const int vocabulary = model->facts().vocabulary;
  const int count = int(options.ids.size());
  std::vector<float> values;  // [T, V]
  values.reserve(size_t(count) * vocabulary);
  Progress progress("logits", count);
  for_each_logits(*model, {{kv, options.run.precision()}}, options.ids,
                  options.run.prefill_chunk, 0,
                  [&](int, int first, int rows, std::span<const float> logits) {
                    values.insert(values.end(), logits.begin(), logits.end());
                    progress.update(first + rows);
                  });
  write_npy(*options.out, values, {count, vocabulary}).or_throw();
}

}  // namespace

Action add_logits(CLI::App& app) {
  auto options = std::make_shared<LogitsOptions>();
  add_run_options(app, options->run);
  add_numbers(app, "--ids", options->ids, 0, INT32_MAX,
              "Token ids, nothing is added to them")
      ->required();
  add_text(app, "--out", options->out,
           "The .npy file to write: f32 [ids, vocabulary]")
      ->required();
  return [options] { write_logits(*options); };
}

}  // namespace quern
