#include "cli/answer.h"

#include <future>

#include "cli/output.h"
#include "ops/thread_pool.h"
#include "text/detokenizer.h"
#include "text/stops.h"

namespace quern {
namespace {

ChatTemplates load_templates(const ModelSource& source,
                             const std::optional<std::string>& file) {
  if (file) {
    std::string text = read_input(*file).or_throw();
    if (text.empty()) fail("--chat-template: {} is empty", *file);
    auto templates = ChatTemplates::from_source(std::move(text));
    if (!templates) fail("{}: {}", *file, templates.reason());
    return std::move(templates).value();
  }
  if (!source.gguf()) {
    return ChatTemplates::from_directory(source.path()).or_throw();
  }
  return ChatTemplates::from_source(
             std::string(
                 source.gguf()->str("tokenizer.chat_template").value_or("")))
      .or_throw();
}

void check_context(const std::vector<int32_t>& prompt, const TextModel& model) {
  const int context = model.facts().context;
  if (context > 0 && prompt.size() > size_t(context)) {
    fail("the prompt has {} tokens, the model's context is {}", prompt.size(),
         context);
  }
}

}  // namespace

TextSetup load_text_setup(const RunOptions& options,
                          const std::optional<std::string>& template_file) {
  const Stopwatch watch;
  set_threads(options.threads);
  const ModelSource source(options.model);
  ChatTemplates templates = load_templates(source, template_file);
  // A large vocabulary takes as long as the weights.
  auto tokenizer =
      std::async(std::launch::async, [&] { return source.load_tokenizer(); });
  std::unique_ptr<TextModel> model;
  try {
    model = source.load_model();
  } catch (...) {
    tokenizer.get();  // its own error comes first
    throw;
  }
  KvScheme kv = options.kv_scheme(*model, source);
  return {source.path(),   std::move(model),     std::move(kv),
          tokenizer.get(), std::move(templates), watch.seconds()};
}

std::optional<double> Answer::prefill_tps() const {
  if (tokens.empty()) return {};
  return fed / first_s;
}

std::optional<double> Answer::decode_tps() const {
  if (tokens.size() < 2) return {};
  return (tokens.size() - 1) / decode_s;
}

Answer run_answer(const TextSetup& setup, AnswerRequest request,
                  const std::function<void(std::string_view)>& show,
                  const std::function<bool()>& go_on) {
  check_ids(request.prompt, *setup.model);
  check_context(request.prompt, *setup.model);
  const int fed =
      int(request.prompt.size()) - (request.past ? request.past->length() : 0);
  request.options.end_ids = setup.tokenizer.end_ids();
  Generation generation(*setup.model, std::move(request.prompt),
                        std::move(request.options), std::move(request.past));
  Detokenizer detokenizer(setup.tokenizer);
  StopMatcher stops(std::move(request.stops));

  std::string text;
  std::vector<Sampled> tokens;
  const auto add = [&](const std::string& piece) {
    if (piece.empty()) return;
    text += piece;
    show(piece);
  };
  const Stopwatch watch;
  double first_s = 0;
  std::optional<Progress> progress(std::in_place, "reading the prompt", fed);
  while (go_on()) {
    auto token = generation.next([&](int done, int) {
      progress->update(done);
      return go_on();
    });
    if (tokens.empty()) first_s = watch.seconds();
    progress.reset();
    if (!token) break;
    tokens.push_back(std::move(*token));
    add(stops.push(detokenizer.push(tokens.back().token)));
    if (stops.stopped()) break;
  }
  generation.stop();
  if (generation.finish() == Finish::failed) fail("{}", generation.reason());
  add(stops.push(detokenizer.finish()));
  add(stops.finish());

  std::optional<std::string> stop;
  if (stops.stopped()) stop = stops.matched();
  return {std::move(text),
          std::move(tokens),
          *generation.finish(),
          std::move(stop),
          fed,
          first_s,
          watch.seconds() - first_s,
          generation.release()};
}

}  // namespace quern
