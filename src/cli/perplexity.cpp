#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/commands.h"
#include "cli/logits_rows.h"
#include "cli/model_source.h"
#include "cli/output.h"
#include "cli/prediction.h"
#include "ops/thread_pool.h"

namespace quern {
namespace {

constexpr int kDefaultContext = 4096;
constexpr int kMost = 1 << 30;

struct Compared {
  KvCodec codec;
  std::optional<Precision> precision;  // that of the run unless given
};

struct PerplexityOptions {
  RunOptions run;
  std::optional<std::string> file;
  int tokens = 0;   // 0 = the whole text
  int context = 0;  // 0 = the trained one, at most kDefaultContext
  int skip = 1;     // of a window, not predicted
  std::vector<Compared> compared;
  bool json = false;

  // That of --kv and --exact, then the compared ones.
  std::vector<Way> ways(const TextModel& model,
                        const ModelSource& source) const {
    std::vector<Way> all{{run.kv_scheme(model, source), run.precision()}};
    for (const Compared& other : compared) {
      const Precision precision = other.precision.value_or(run.precision());
      KvOptions kv{.codec = other.codec, .ring_same = run.kv.ring_same};
      all.push_back(
          {kv_scheme(kv, model, source.path(), precision), precision});
    }
    return all;
  }
};

struct Text {
  std::vector<int32_t> ids;
  std::optional<int32_t> bos;  // what the tokenizer puts before every text
};

// Predictions of the tokens, beside those of the first way.
struct Figures {
  std::vector<double> nll, kl;
  std::vector<double> same_top;  // 1 or 0

  explicit Figures(size_t tokens) : nll(tokens), kl(tokens), same_top(tokens) {}
};

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (double v : values) sum += v;
  return sum / double(values.size());
}

// The standard error of the mean of a - b.
double error_of_change(const std::vector<double>& a,
                       const std::vector<double>& b) {
  const double change = mean(a) - mean(b);
  double squares = 0;
  for (size_t i = 0; i < a.size(); i++) {
    squares += std::pow(a[i] - b[i] - change, 2);
  }
  return std::sqrt(squares) / double(a.size());
}

int window_size(const PerplexityOptions& options, const TextModel& model) {
  if (options.context > 0) return options.context;
  const int trained = model.facts().context;
  return trained > 0 ? std::min(trained, kDefaultContext) : kDefaultContext;
}

Text text_of(const PerplexityOptions& options, const ModelSource& source) {
  const std::string text = read_input(*options.file).or_throw();
  const Tokenizer tokenizer = source.load_tokenizer();
  auto ids = tokenizer.encode(text);
  if (!ids) fail("{}: {}", *options.file, ids.reason());
  if (options.tokens > 0 && size_t(options.tokens) < ids->size()) {
    ids->resize(options.tokens);
  }
  if (ids->size() <= size_t(options.skip)) {
    fail("{} has {} tokens, at least {} are needed", *options.file, ids->size(),
         options.skip + 1);
  }
  const auto around = tokenizer.encode("").or_throw();
  std::optional<int32_t> bos;
  if (!around.empty() && around[0] == ids->front()) bos = around[0];
  return {std::move(ids).value(), bos};
}

struct Window {
  int begin, end;  // of the text's ids
  int before;      // tokens that earlier windows predict
};

// Windows overlap by one token, so that with a skip of one each is predicted
// once.
std::vector<Window> windows(int tokens, int size, int skip) {
  std::vector<Window> all;
  int before = 0;
  for (int begin = 0; begin + skip < tokens; begin += size - 1) {
    all.push_back({begin, std::min(begin + size, tokens), before});
    before += all.back().end - begin - skip;
  }
  return all;
}

// The figures of each way.
std::vector<Figures> predict(const TextModel& model, const Text& text, int size,
                             const std::vector<Way>& ways,
                             const PerplexityOptions& options) {
  const std::vector<Window> all =
      windows(int(text.ids.size()), size, options.skip);
  const int total =
      all.back().before + all.back().end - all.back().begin - options.skip;
  std::vector<Figures> figures(ways.size(), Figures(total));
  Progress progress("perplexity", total);
  for (const Window& window : all) {
    const auto begin = text.ids.begin() + window.begin;
    std::vector<int32_t> ids{begin, text.ids.begin() + window.end - 1};
    if (text.bos) ids[0] = *text.bos;
    std::vector<std::optional<KeptPrediction>> kept;
    for_each_logits(
        model, ways, ids, options.run.prefill_chunk, options.skip - 1,
        [&](int way, int first, int count, std::span<const float> logits) {
          const size_t vocabulary = logits.size() / count;
          const int next = window.before + first + 1 - options.skip;
          Figures& to = figures[way];
          if (way == 0) kept.assign(count, {});
          thread_pool().run(count, [&](int i) {
            const Prediction prediction(
                logits.subspan(i * vocabulary, vocabulary));
            to.nll[next + i] = prediction.surprise(begin[first + i + 1]);
            if (ways.size() == 1) return;
            if (way == 0) kept[i].emplace(prediction);
            to.kl[next + i] = kept[i]->divergence(prediction);
            to.same_top[next + i] =
                kept[i]->likeliest() == prediction.likeliest();
          });
          progress.update(next + count);
        });
  }
  return figures;
}

// The first way, which the others are compared with.
Json result_of(const Figures& f, const Way& way) {
  const double nll = mean(f.nll);
  return {{"kv", way.scheme.name()},
          {"exact", way.precision == Precision::exact},
          {"perplexity", std::exp(nll)},
          {"nll", nll}};
}

Json comparison(const Figures& f, const Figures& first, const Way& way) {
  Json json = result_of(f, way);
  json["nll_change_error"] = error_of_change(f.nll, first.nll);
  json["kl"] = mean(f.kl);
  json["same_top"] = mean(f.same_top);
  return json;
}

void print_text(const Json& result) {
  std::string text = fmt::format(
      "perplexity {:.4f} (mean nll {:.5f}) over {} tokens, context {}, {:.1f} "
      "s\n",
      double(result["perplexity"]), double(result["nll"]),
      int(result["tokens"]), int(result["context"]), double(result["seconds"]));
  for (const Json& other : result.value("compared", Json::array())) {
    text += fmt::format(
        "{}{}: perplexity {:.4f} ({:+.2f} %, +-{:.2f}), KL {:.5f}, the same "
        "most likely token {:.2f} %\n",
        other["exact"] == result["exact"] ? ""
        : other["exact"]                  ? "exact:"
                                          : "fast:",
        std::string(other["kv"]), double(other["perplexity"]),
        100 * std::expm1(double(other["nll"]) - double(result["nll"])),
        100 * double(other["nll_change_error"]), double(other["kl"]),
        100 * double(other["same_top"]));
  }
  print(text);
}

void measure_perplexity(const PerplexityOptions& options) {
  set_threads(options.run.threads);
  const ModelSource source(options.run.model);
  const Text text = text_of(options, source);
  const auto model = source.load_model();
  check_ids(text.ids, *model);
  const std::vector<Way> ways = options.ways(*model, source);
  const int context = window_size(options, *model);
  if (options.skip >= context) {
    fail("--skip {} leaves nothing of windows of {} tokens", options.skip,
         context);
  }

  const Stopwatch watch;
  const std::vector<Figures> figures =
      predict(*model, text, context, ways, options);
  for (const Figures& f : figures) {
    if (!std::isfinite(std::exp(mean(f.nll)))) {
      fail("{}: the perplexity is not finite, mean nll {}", *options.file,
           mean(f.nll));
    }
  }
  Json result = result_of(figures[0], ways[0]);
  result["tokens"] = figures[0].nll.size();
  result["context"] = context;
  result["seconds"] = watch.seconds();
  for (size_t i = 1; i < figures.size(); i++) {
    result["compared"].push_back(comparison(figures[i], figures[0], ways[i]));
  }
  if (options.json) return print_json(result);
  print_text(result);
}

Compared parse_compared(std::string_view text) {
  Compared compared;
  for (auto [word, precision] : {std::pair("fast:", Precision::fast),
                                 std::pair("exact:", Precision::exact)}) {
    if (text.starts_with(word)) {
      compared.precision = precision;
      text.remove_prefix(std::string_view(word).size());
      break;
    }
  }
  compared.codec = codec_option("--compare", text);
  return compared;
}

void add_compare(CLI::App& app, std::vector<Compared>& compared) {
  const auto read = [&compared](const std::string& text) {
    compared.push_back(parse_compared(text));
  };
  add_values(app, "--compare", read,
             "Another KV scheme, run over the same windows: its perplexity, "
             "the standard error of the change, the mean KL divergence from "
             "the predictions with --kv (nats), and how often both have the "
             "same most likely token; may be repeated. fast: or exact: before "
             "it computes so, whatever the rest does")
      ->type_name("SCHEME");
}

}  // namespace

Action add_perplexity(CLI::App& app) {
  auto options = std::make_shared<PerplexityOptions>();
  add_run_options(app, options->run);
  add_text(app, "--file", options->file,
           "The text (- is stdin), with the tokens that the tokenizer puts "
           "around it")
      ->required();
  add_number(app, "--tokens", options->tokens, 2, kMost,
             "Only the first N tokens of the text");
  add_number(app, "--context", options->context, 2, kMost,
             "Tokens of a window (default: the trained context, at most 4096). "
             "Windows overlap by one token: all but the first are predicted, "
             "each from its own window. It begins with the tokenizer's bos, if "
             "there is one, in the place of its first token");
  add_number(app, "--skip", options->skip, 1, kMost,
             "Tokens of each window that are read and not predicted (default "
             "1: nothing predicts the first)");
  add_compare(app, options->compared);
  add_flag(app, "--json", options->json,
           "{kv, exact, perplexity, nll, tokens, context, seconds}; compared: "
           "[{kv, exact, perplexity, nll, nll_change_error, kl, same_top}]");
  return [options] { measure_perplexity(*options); };
}

}  // namespace quern
