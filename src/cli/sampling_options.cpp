#include "cli/sampling_options.h"

#include <cmath>

namespace quern {
namespace {

// What a parameter may be, typed or in a file.
struct Range {
  float low, high;
};
constexpr Range kTemperature{0, 5}, kProbability{0, 1}, kRepetition{0.01f, 100};
constexpr int kLeastTopK = -1;

// A token's bias as ID=VALUE.
void read_bias(const std::string& text, std::map<int32_t, float>& bias) {
  constexpr const char* kName = "--logit-bias";
  const size_t sign = text.find('=');
  if (sign == text.npos) {
    throw UsageError(
        fmt::format("{}: expected ID=VALUE, got {}", kName, in_quotes(text)));
  }
  const std::string_view view = text;
  const auto id = parse_number(kName, view.substr(0, sign), 0, INT32_MAX);
  bias[id] = parse_number(kName, view.substr(sign + 1), -1000.f, 1000.f);
}

// The model's own parameters; an empty object if it has none.
class GenerationConfig {
 public:
  explicit GenerationConfig(const Path& model)
      : path_(model / "generation_config.json") {
    if (!std::filesystem::exists(path_)) return;
    json_ = parse_json(read_text(path_).or_throw(), path_.string()).or_throw();
    if (!json_.is_object()) fail("{}: expected an object", path_.string());
  }

  std::optional<float> number(const char* name, Range range) const {
    const Json* found = find(name);
    if (!found) return {};
    if (!in_range(*found, range.low, range.high)) {
      refuse(name, fmt::format("a number from {} to {}", range.low, range.high),
             *found);
    }
    return found->get<float>();
  }
  std::optional<int> top_k() const {
    const Json* found = find("top_k");
    if (!found) return {};
    if (!in_range(*found, kLeastTopK, INT32_MAX) ||
        found->get<double>() != std::trunc(found->get<double>())) {
      refuse("top_k", fmt::format("a whole number, {} or more", kLeastTopK),
             *found);
    }
    return int(found->get<double>());
  }
  // Whether it says that tokens are to be drawn at random, or greedily.
  std::optional<bool> samples() const {
    const Json* found = find("do_sample");
    if (!found) return {};
    if (!found->is_boolean()) refuse("do_sample", "true or false", *found);
    return found->get<bool>();
  }
  // Hugging Face's meaning: sampling is at temperature 1 unless it says
  // another.
  std::optional<float> temperature() const {
    if (samples() == false) return 0.f;
    if (const auto temperature = number("temperature", kTemperature))
      return temperature;
    return samples() == true ? std::optional(1.f) : std::nullopt;
  }

 private:
  // Null if the field is missing or null.
  const Json* find(const char* name) const {
    const auto found = json_.find(name);
    return found == json_.end() || found->is_null() ? nullptr : &*found;
  }
  static bool in_range(const Json& value, double low, double high) {
    return value.is_number() && value.get<double>() >= low &&
           value.get<double>() <= high;
  }
  [[noreturn]] void refuse(const char* name, const std::string& expected,
                           const Json& value) const {
    fail("{}: {}: expected {}, got {}", path_.string(), name, expected,
         brief(value));
  }

  Path path_;
  Json json_ = Json::object();
};

void check_bias(const std::map<int32_t, float>& bias, int vocabulary) {
  if (bias.empty() || bias.rbegin()->first < vocabulary) return;
  fail("--logit-bias: token {} is not in the model's vocabulary, 0 to {}",
       bias.rbegin()->first, vocabulary - 1);
}

}  // namespace

void add_sampling_options(CLI::App& app, SamplingOptions& o) {
  const std::string group = "Sampling";
  SamplingParams& p = o.others;
  const std::initializer_list<CLI::Option*> options = {
      add_number(app, "--temp,--temperature", o.temperature, kTemperature.low,
                 kTemperature.high,
                 "0 takes the most likely token (default: the model's, else "
                 "0)"),
      add_number(app, "--top-p", o.top_p, kProbability.low, kProbability.high,
                 "Only the most likely tokens that make up X of the "
                 "probability; 0 and 1: all"),
      add_number(app, "--top-k", o.top_k, kLeastTopK, INT32_MAX,
                 "Only the N most likely tokens; 0 and -1: all"),
      add_number(app, "--min-p", o.min_p, kProbability.low, kProbability.high,
                 "Only tokens at least X times as likely as the most likely"),
      add_number(app, "--xtc-probability", p.xtc_probability, 0.f, 1.f,
                 "How often all likely tokens but the last are left out"),
      add_number(app, "--xtc-threshold", p.xtc_threshold, 0.f, 0.5f,
                 "From which probability a token is likely (default 0.1)"),
      add_number(app, "--repetition-penalty", o.repetition_penalty,
                 kRepetition.low, kRepetition.high,
                 "Makes tokens of the text less likely; 1: off"),
      add_number(app, "--repetition-context", p.repetition_context, 0,
                 INT32_MAX, "Of the last N tokens (default 20); 0: all"),
      add_number(app, "--presence-penalty", p.presence_penalty, -100.f, 100.f,
                 "Taken off each token of the last 20"),
      add_number(app, "--frequency-penalty", p.frequency_penalty, -100.f, 100.f,
                 "Taken off for each time it is there"),
      add_values(
          app, "--logit-bias",
          [&p](const std::string& text) { read_bias(text, p.logit_bias); },
          "Added to a token's logit, -100 or less bans it; may be repeated")
          ->type_name("ID=X"),
      add_number(app, "--seed", p.seed, uint64_t(0), UINT64_MAX,
                 "The same seed gives the same text"),
  };
  for (CLI::Option* option : options) option->group(group);
}

SamplingParams sampling_params(const SamplingOptions& options,
                               const Path& model, const Tokenizer& tokenizer,
                               int vocabulary) {
  check_bias(options.others.logit_bias, vocabulary);
  const GenerationConfig config(model);
  // Given, else the model's, else what the parameter is by default.
  const auto choose = [&](const std::optional<float>& given, const char* name,
                          Range range, float otherwise) {
    return given ? *given : config.number(name, range).value_or(otherwise);
  };
  SamplingParams params = options.others;
  params.temperature = options.temperature
                           ? *options.temperature
                           : config.temperature().value_or(params.temperature);
  params.top_p = choose(options.top_p, "top_p", kProbability, params.top_p);
  params.min_p = choose(options.min_p, "min_p", kProbability, params.min_p);
  params.repetition_penalty =
      choose(options.repetition_penalty, "repetition_penalty", kRepetition,
             params.repetition_penalty);
  params.top_k =
      options.top_k ? *options.top_k : config.top_k().value_or(params.top_k);
  params.xtc_exempt = tokenizer.end_ids();
  if (auto newline = tokenizer.encode("\n", {.add_special = false})) {
    params.xtc_exempt.insert(params.xtc_exempt.end(), newline->begin(),
                             newline->end());
  }
  return params;
}

}  // namespace quern
