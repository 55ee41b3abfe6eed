#include <fmt/format.h>

#include "cli/answer.h"
#include "cli/commands.h"
#include "cli/escapes.h"
#include "cli/output.h"
#include "cli/sampling_options.h"
#include "text/prompt.h"

namespace quern {
namespace {

struct GenerateOptions {
  RunOptions run;
  SamplingOptions sampling;
  std::optional<std::string> prompt, system, chat_template;
  std::vector<int32_t> ids;
  std::vector<std::string> stops;
  int max_tokens = 0;  // 0 = as long as the context allows
  bool raw = false, escape = false, json = false;
};

void check_usage(const GenerateOptions& o) {
  if (o.prompt.has_value() != o.ids.empty()) {
    throw UsageError("expected one of --prompt and --ids");
  }
  if (o.sampling.others.logprobs >= 0 && !o.json) {
    throw UsageError("--logprobs is for the output of --json");
  }
  const bool bare = o.raw || !o.prompt;
  if (bare && (o.system || o.chat_template)) {
    throw UsageError(
        "--system and --chat-template are for a prompt in the model's "
        "template, not for --raw or --ids");
  }
}

std::string prompt_text(const GenerateOptions& options) {
  if (*options.prompt == "-") return read_input("-").or_throw();
  if (!options.escape) return *options.prompt;
  auto text = unescape(*options.prompt);
  if (!text) throw UsageError("--prompt: " + text.reason());
  return std::move(text).value();
}

std::vector<int32_t> prompt_ids(const GenerateOptions& options,
                                const std::string& text,
                                const TextSetup& setup) {
  if (!options.prompt) return options.ids;
  if (options.raw) return raw_ids(setup.tokenizer, text).or_throw();
  if (setup.templates.empty()) {
    fail(
        "{} has no chat template: give one with --chat-template, or continue "
        "the bare prompt with --raw",
        setup.path.filename().string());
  }
  ChatInput input;
  if (options.system) {
    input.messages.push_back(
        {{"role", "system"}, {"content", *options.system}});
  }
  input.messages.push_back({{"role", "user"}, {"content", text}});
  return chat_ids(setup.tokenizer, setup.templates, input).or_throw();
}

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json logprobs_of(const Answer& answer, const Tokenizer& tokenizer) {
  const auto entry = [&](int32_t id, float logprob) {
    return Json{{"id", id},
                {"token", tokenizer.decode({&id, 1}, false)},
                {"logprob", logprob}};
  };
  Json list = Json::array();
  for (const Sampled& token : answer.tokens) {
    list.push_back(entry(token.token, token.logprob));
    Json& top = list.back()["top"] = Json::array();
    for (auto [id, logprob] : token.top) top.push_back(entry(id, logprob));
  }
  return list;
}

Json json_of(const Answer& answer, const std::vector<int32_t>& prompt,
             const TextSetup& setup, bool logprobs) {
  Json ids = Json::array();
  for (const Sampled& token : answer.tokens) ids.push_back(token.token);
  Json json = {
      {"text", answer.text},
      {"ids", std::move(ids)},
      {"prompt_ids", prompt},
      {"finish_reason", answer.finish == Finish::length ? "length" : "stop"},
      {"stop", or_null(answer.stop)}};
  if (logprobs) json["logprobs"] = logprobs_of(answer, setup.tokenizer);
  json["timings"] = {{"load_s", setup.load_s},
                     {"ttft_ms", answer.first_s * 1e3},
                     {"prefill_tps", or_null(answer.prefill_tps())},
                     {"decode_tps", or_null(answer.decode_tps())}};
  return json;
}

void generate(const GenerateOptions& options) {
  check_usage(options);
  const std::string text = options.prompt ? prompt_text(options) : "";
  const TextSetup setup = load_text_setup(options.run, options.chat_template);
  const std::vector<int32_t> prompt = prompt_ids(options, text, setup);
  SamplingParams sampling =
      sampling_params(options.sampling, setup.path, setup.tokenizer,
                      setup.model->facts().vocabulary);
  const bool logprobs = sampling.logprobs >= 0;
  AnswerRequest request{.prompt = prompt,
                        .options = {.precision = options.run.precision(),
                                    .kv = setup.kv,
                                    .prefill_chunk = options.run.prefill_chunk,
                                    .max_tokens = options.max_tokens,
                                    .sampling = std::move(sampling)},
                        .stops = options.stops};
  const auto show = [&](std::string_view piece) {
    if (!options.json) print(piece);
  };
  const Answer answer =
      run_answer(setup, std::move(request), show, [] { return true; });
  if (options.json) return print_json(json_of(answer, prompt, setup, logprobs));
  print("\n");
}

}  // namespace

Action add_generate(CLI::App& app) {
  auto o = std::make_shared<GenerateOptions>();
  add_run_options(app, o->run);
  add_text(app, "--prompt", o->prompt, "What is asked; - reads it from stdin");
  add_numbers(app, "--ids", o->ids, 0, INT32_MAX,
              "The whole prompt as token ids");
  add_flag(app, "--raw", o->raw,
           "Continue the bare prompt, without the chat template; special "
           "tokens may be spelled in it");
  add_text(app, "--system", o->system, "The system message");
  add_text(app, "--chat-template", o->chat_template,
           "A Jinja file to use in place of the model's template")
      ->type_name("FILE");
  add_flag(app, "--escape", o->escape,
           "Take \\n, \\t, \\r, \\\\, \\' and \\\" in --prompt for characters");
  add_number(app, "--max-tokens", o->max_tokens, 1, INT32_MAX,
             "The answer's longest length (default: what the context leaves)");
  add_stops(app, o->stops);
  add_sampling_options(app, o->sampling);
  add_number(app, "--logprobs", o->sampling.others.logprobs, 0, kMaxTopLogprobs,
             "With --json: each token's log-probability, and those of the N "
             "most likely ones");
  add_flag(app, "--json", o->json,
           "{text, ids, prompt_ids, finish_reason, stop, logprobs, timings}");
  return [o] { generate(*o); };
}

}  // namespace quern
