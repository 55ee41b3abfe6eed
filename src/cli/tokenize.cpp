#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/model_source.h"
#include "cli/output.h"

namespace quern {
namespace {

struct TokenizeOptions {
  std::optional<std::string> model, text, file;
  bool json = false, no_special = false, parse_special = false;

  EncodeOptions encode() const {
    return {.add_special = !no_special, .parse_special = parse_special};
  }
};

// One token a line: its id and the bytes it stands for.
void print_tokens(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  std::string text;
  for (int32_t id : ids) {
    text += fmt::format("{:>8} {}\n", id, in_quotes(tokenizer.token_bytes(id)));
  }
  print(text);
}

// A list for each line of the file. Lines end at \n and at nothing else.
void tokenize_file(const Tokenizer& tokenizer, const Path& path,
                   const EncodeOptions& options) {
  const std::string bytes = read_input(path).or_throw();
  std::string_view rest = bytes;
  Progress progress("tokenizing", int(bytes.size()));
  for (int line = 1; !rest.empty(); line++) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    auto ids = tokenizer.encode(rest.substr(0, end), options);
    if (!ids) fail("{}, line {}: {}", path.string(), line, ids.reason());
    print_json(*ids);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    progress.update(int(bytes.size() - rest.size()));
  }
}

void tokenize(const TokenizeOptions& options) {
  if (options.text.has_value() == options.file.has_value()) {
    throw UsageError("expected one of --text and --file");
  }
  const Tokenizer tokenizer = ModelSource(options.model).load_tokenizer();
  if (options.file) {
    return tokenize_file(tokenizer, *options.file, options.encode());
  }
  const auto ids = tokenizer.encode(*options.text, options.encode()).or_throw();
  if (options.json) return print_json(ids);
  print_tokens(tokenizer, ids);
}

}  // namespace

Action add_tokenize(CLI::App& app) {
  auto options = std::make_shared<TokenizeOptions>();
  add_model(app, options->model);
  add_text(app, "--text", options->text, "The text");
  add_text(app, "--file", options->file,
           "A text file, - is stdin: a JSON list of ids for each of its lines");
  add_flag(app, "--json", options->json, "A list of ids");
  add_flag(app, "--no-special", options->no_special,
           "Leave out the tokens that the tokenizer puts around a text");
  add_flag(app, "--parse-special", options->parse_special,
           "Special tokens in the text are tokens (default: text)");
  return [options] { tokenize(*options); };
}

}  // namespace quern
