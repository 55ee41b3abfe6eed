#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/commands.h"
#include "cli/logits_rows.h"
#include "cli/model_source.h"
#include "cli/output.h"
#include "ops/thread_pool.h"

namespace quern {
namespace {

constexpr int kDefaultContext = 4096;
constexpr int kMost = 1 << 30;

struct PerplexityOptions {
  RunOptions run;
  std::optional<std::string> file;
  int tokens = 0;   // 0 = the whole text
  int context = 0;  // 0 = the trained one, at most kDefaultContext
  bool json = false;
};

// -log softmax(logits)[target]
double surprise(std::span<const float> logits, int32_t target) {
  const double most = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (float logit : logits) sum += std::exp(logit - most);
  return most + std::log(sum) - logits[target];
}

int window_size(const PerplexityOptions& options, const TextModel& model) {
  if (options.context > 0) return options.context;
  const int trained = model.facts().context;
  return trained > 0 ? std::min(trained, kDefaultContext) : kDefaultContext;
}

std::vector<int32_t> text_ids(const PerplexityOptions& options,
                              const ModelSource& source) {
  const std::string text = read_input(*options.file).or_throw();
  auto ids = source.load_tokenizer().encode(text);
  if (!ids) fail("{}: {}", *options.file, ids.reason());
  if (options.tokens > 0 && size_t(options.tokens) < ids->size()) {
    ids->resize(options.tokens);
  }
  if (ids->size() < 2) {
    fail("{} has {} tokens, at least 2 are needed", *options.file, ids->size());
  }
  return std::move(ids).value();
}

// The sum of the surprises of all ids but the first. Windows of `size` ids
// overlap by one, so that each is predicted once, from its window alone.
double total_surprise(const TextModel& model, const std::vector<int32_t>& ids,
                      int size, const RunOptions& run, const KvScheme& kv) {
  const int last = int(ids.size()) - 1;
  std::vector<double> surprises(ids.size());
  Progress progress("perplexity", last);
  for (int begin = 0; begin < last; begin += size - 1) {
    const int end = std::min(begin + size, last + 1);
    for_each_logits(
        model, model.make_row(kv), {ids.begin() + begin, ids.begin() + end},
        run.precision(), run.prefill_chunk,
        [&](int first, int count, std::span<const float> logits) {
          const size_t vocabulary = logits.size() / count;
          thread_pool().run(count, [&](int i) {
            const int next = begin + first + i + 1;
            if (next >= end) return;
            surprises[next] =
                surprise(logits.subspan(i * vocabulary, vocabulary), ids[next]);
          });
          progress.update(std::min(begin + first + count, last));
        });
  }
  double sum = 0;
  for (double s : surprises) sum += s;
  return sum;
}

void measure_perplexity(const PerplexityOptions& options) {
  set_threads(options.run.threads);
  const ModelSource source(options.run.model);
  const std::vector<int32_t> ids = text_ids(options, source);
  const auto model = source.load_model();
  check_ids(ids, *model);
  const KvScheme kv = options.run.kv_scheme(*model, source);
  const int context = window_size(options, *model);

  const Stopwatch watch;
  const int predicted = int(ids.size()) - 1;
  const double nll =
      total_surprise(*model, ids, context, options.run, kv) / predicted;
  const double perplexity = std::exp(nll), seconds = watch.seconds();
  if (!std::isfinite(perplexity)) {
    fail("{}: the perplexity is not finite, mean nll {}", *options.file, nll);
  }
  if (options.json) {
    return print_json({{"perplexity", perplexity},
                       {"nll", nll},
                       {"tokens", predicted},
                       {"context", context},
                       {"exact", options.run.exact},
                       {"seconds", seconds}});
  }
  print(
      fmt::format("perplexity {:.4f} (mean nll {:.5f}) over {} tokens, "
                  "context {}, {:.1f} s\n",
                  perplexity, nll, predicted, context, seconds));
}

}  // namespace

Action add_perplexity(CLI::App& app) {
  auto options = std::make_shared<PerplexityOptions>();
  add_run_options(app, options->run);
  add_text(app, "--file", options->file,
           "The text (- is stdin), with the tokens that the tokenizer puts "
           "around it (bos)")
      ->required();
  add_number(app, "--tokens", options->tokens, 2, kMost,
             "Only the first N tokens of the text");
  add_number(app, "--context", options->context, 2, kMost,
             "Tokens of a window (default: the trained context, at most 4096). "
             "Windows overlap by one token: all but the first are predicted, "
             "each from its own window");
  add_flag(app, "--json", options->json,
           "{perplexity, nll, tokens, context, exact, seconds}");
  return [options] { measure_perplexity(*options); };
}

}  // namespace quern
