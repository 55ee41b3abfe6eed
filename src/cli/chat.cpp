#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "cli/answer.h"
#include "cli/commands.h"
#include "cli/interrupts.h"
#include "cli/line_reader.h"
#include "cli/output.h"
#include "cli/sampling_options.h"
#include "text/prompt.h"

namespace quern {
namespace {

constexpr const char* kHelp =
    "/reset   forget the conversation\n"
    "/exit    end (also Ctrl-D)\n"
    "/help    this list\n"
    "Ctrl-C stops an answer; a line that ends in \\ goes on in the next.\n";

struct ChatOptions {
  RunOptions run;
  SamplingOptions sampling;
  std::optional<std::string> system, chat_template;
  std::vector<std::string> stops;
  int max_tokens = 0;  // of an answer; 0 = as long as the context allows
};

// The past of a conversation: a row and the tokens in it.
struct Past {
  Row row;
  std::vector<int32_t> ids;
};

// Cuts a past to what it has in common with `prompt`, of which at least one
// token must remain to be fed. Nothing if it cannot be cut there.
std::optional<Row> row_for(std::optional<Past> past,
                           const std::vector<int32_t>& prompt) {
  if (!past) return {};
  const auto [end, in_prompt] = std::mismatch(
      past->ids.begin(), past->ids.end(), prompt.begin(), prompt.end() - 1);
  const int common = int(end - past->ids.begin());
  if (!past->row.trim(past->row.length() - common)) return {};
  return std::move(past->row);
}

std::string_view trimmed(std::string_view text) {
  constexpr const char* kSpace = " \t\r\n";
  const size_t begin = std::min(text.find_first_not_of(kSpace), text.size());
  return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

// One word with a slash before it and none in it: a path is text.
bool is_command(std::string_view text) {
  return text.starts_with('/') &&
         text.find_first_of("/ \t\r\n", 1) == text.npos;
}

class Chat {
 public:
  explicit Chat(const ChatOptions& options)
      : options_(options),
        setup_(load_text_setup(options.run, options.chat_template)),
        sampling_(sampling_params(options.sampling, setup_.path,
                                  setup_.tokenizer,
                                  setup_.model->facts().vocabulary)) {
    if (setup_.templates.empty()) {
      fail(
          "{} has no chat template: give one with --chat-template, or "
          "continue text with 'quern generate --raw'",
          setup_.path.filename().string());
    }
    reset();
  }

  void run() {
    if (interactive_) greet();
    std::string message;
    while (true) {
      const auto read = next_message(message);
      if (read == LineReader::Read::end) break;
      if (read == LineReader::Read::interrupted) {
        interrupts_.forget();
        print("\n");
      } else if (!handle(message)) {
        return;
      }
    }
    if (interactive_) print("\n");
  }

 private:
  void greet() {
    print(fmt::format("{}, /help for help\n", setup_.path.filename().string()));
  }

  void reset() {
    messages_ = Json::array();
    past_.reset();
    if (options_.system) {
      messages_.push_back({{"role", "system"}, {"content", *options_.system}});
    }
  }

  // A line, with those that follow it while they end in a backslash.
  LineReader::Read next_message(std::string& message) {
    if (interactive_) print("> ");
    auto read = lines_.next(message);
    std::string line;
    while (read == LineReader::Read::line && message.ends_with('\\')) {
      if (interactive_) print(". ");
      message.back() = '\n';
      read = lines_.next(line);
      if (read == LineReader::Read::end) return LineReader::Read::line;
      message += line;
    }
    return read;
  }

  // A command or a message; false ends the conversation.
  bool handle(const std::string& message) {
    const std::string_view text = trimmed(message);
    if (text == "/exit") return false;
    if (text == "/help") {
      print(kHelp);
    } else if (text == "/reset") {
      reset();
    } else if (is_command(text)) {
      print(fmt::format("there is no command {}\n{}", in_quotes(text), kHelp));
    } else if (!text.empty()) {
      take_turn(message);
    }
    return true;
  }

  // In a terminal a message that fails is dropped and the conversation goes on.
  void take_turn(const std::string& line) {
    const Json before = messages_;
    try {
      messages_.push_back({{"role", "user"}, {"content", line}});
      messages_.push_back({{"role", "assistant"}, {"content", reply()}});
    } catch (const Error& e) {
      if (!interactive_) throw;
      messages_ = before;
      print_error(e.what());
    }
  }

  std::string reply() {
    const std::vector<int32_t> prompt =
        chat_ids(setup_.tokenizer, setup_.templates, {.messages = messages_})
            .or_throw();
    const int context = setup_.model->facts().context;
    if (context > 0 && prompt.size() > size_t(context)) {
      fail(
          "the conversation has {} tokens with this message, the model's "
          "context is {}; /reset forgets it",
          prompt.size(), context);
    }
    AnswerRequest request{
        .prompt = prompt,
        .options = {.precision = options_.run.precision(),
                    .kv = setup_.kv,
                    .prefill_chunk = options_.run.prefill_chunk,
                    .max_tokens = options_.max_tokens,
                    .sampling = sampling_},
        .stops = options_.stops,
        .past = row_for(std::exchange(past_, {}), prompt)};
    interrupts_.forget();
    Answer answer = run_answer(setup_, std::move(request), print,
                               [&] { return !interrupts_.seen(); });
    interrupts_.forget();
    print("\n");
    show_speed(answer);
    keep(prompt, answer);
    return std::move(answer.text);
  }

  // Keeps the row of an answer for the next turn. The row may lack the last
  // token drawn, or hold one that is not known here.
  void keep(std::vector<int32_t> ids, Answer& answer) {
    for (const Sampled& token : answer.tokens) ids.push_back(token.token);
    ids.resize(std::min(ids.size(), size_t(answer.row.length())));
    past_ = Past{std::move(answer.row), std::move(ids)};
  }

  void show_speed(const Answer& answer) const {
    if (!is_terminal(STDERR_FILENO) || !answer.decode_tps()) return;
    fmt::print(
        stderr,
        "\033[2m{} tokens, {:.1f} tokens/s, first after {:.2f} s\033[0m\n",
        answer.tokens.size(), *answer.decode_tps(), answer.first_s);
  }

  const ChatOptions& options_;
  const TextSetup setup_;
  const SamplingParams sampling_;
  const bool interactive_ =
      is_terminal(STDIN_FILENO) && is_terminal(STDOUT_FILENO);
  Interrupts interrupts_;
  LineReader lines_{interrupts_.descriptor()};
  Json messages_;
  std::optional<Past> past_;
};

}  // namespace

Action add_chat(CLI::App& app) {
  auto o = std::make_shared<ChatOptions>();
  add_run_options(app, o->run);
  add_text(app, "--system", o->system, "The system message");
  add_text(app, "--chat-template", o->chat_template,
           "A Jinja file to use in place of the model's template")
      ->type_name("FILE");
  add_number(app, "--max-tokens", o->max_tokens, 1, INT32_MAX,
             "An answer's longest length (default: what the context leaves)");
  add_stops(app, o->stops);
  add_sampling_options(app, o->sampling);
  return [o] { Chat(*o).run(); };
}

}  // namespace quern
