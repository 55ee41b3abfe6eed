// quern COMMAND [options]: reads the options of one command and runs it.
// Exit codes: 0 done, 1 failed, 2 a fault in what was typed.
#include <fmt/format.h>

#include <new>
#include <string_view>
#include <vector>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/process.h"

namespace quern {
namespace {

struct Command {
  std::string_view name;
  std::string_view summary;
  Action (*add)(CLI::App& app);
};

constexpr Command kCommands[] = {
    {"chat", "Talk with a model in the terminal", add_chat},
    {"serve", "Serve a model: OpenAI's API and a page to chat", add_serve},
    {"generate", "Continue a prompt", add_generate},
    {"tokenize", "Turn text into token ids", add_tokenize},
    {"logits", "Write a model's logits to a .npy file", add_logits},
    {"perplexity", "Measure how well a model predicts a text", add_perplexity},
    {"bench", "Measure speed and memory", add_bench},
    {"models", "List the models on this machine", add_models},
    {"version", "Show the version of quern and of what it runs on",
     add_version},
};

const Command* find_command(std::string_view name) {
  for (const Command& command : kCommands) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

const Command& get_command(std::string_view name) {
  if (const Command* command = find_command(name)) return *command;
  throw UsageError(fmt::format(
      "there is no command {} ('quern help' lists them)", in_quotes(name)));
}

std::string overview() {
  std::string text =
      "quern runs language models on this machine.\n\n"
      "usage: quern COMMAND [options]\n\n";
  for (const Command& command : kCommands) {
    text += fmt::format("  {:<12}{}\n", command.name, command.summary);
  }
  text += fmt::format("  {:<12}{}\n", "help", "Show the options of a command");
  text +=
      "\nMODEL is a directory, a .gguf file, or the id (or a part of it) of "
      "a model that\n'quern models' lists; without one it is the small "
      "default model.\n";
  return text;
}

// An option's value may be empty: CLI11 takes "--name=" for "--name" with its
// value to come, so it gets the empty value as an argument of its own.
std::vector<std::string> split_empty_values(std::vector<std::string> args) {
  std::vector<std::string> split;
  for (std::string& arg : args) {
    const bool empty_value = arg.size() > 3 && arg.starts_with("--") &&
                             arg.find('=') == arg.size() - 1;
    if (empty_value) arg.pop_back();
    split.push_back(std::move(arg));
    if (empty_value) split.emplace_back();
  }
  return split;
}

void refuse_extras(const CLI::App& app) {
  const std::vector<std::string> extras = app.remaining();
  if (extras.empty()) return;
  const std::string_view first = extras[0];
  if (first.starts_with("-")) {
    throw UsageError(fmt::format("there is no option {}",
                                 in_quotes(first.substr(0, first.find('=')))));
  }
  throw UsageError(fmt::format("{} is an argument too many", in_quotes(first)));
}

void run_command(const Command& command, std::vector<std::string> args) {
  CLI::App app(std::string(command.summary),
               fmt::format("quern {}", command.name));
  app.allow_extras();
  app.allow_windows_style_options(false);
  const Action action = command.add(app);
  args = split_empty_values(std::move(args));
  std::reverse(args.begin(), args.end());  // as parse() wants them
  try {
    app.parse(std::move(args));
  } catch (const CLI::CallForHelp&) {
    print(app.help());
    return;
  } catch (const CLI::ParseError& e) {
    throw UsageError(e.what());
  }
  refuse_extras(app);
  action();
}

void run_help(const std::vector<std::string>& args) {
  if (args.empty()) return print(overview());
  run_command(get_command(args[0]), {"--help"});
}

void run(std::vector<std::string> args) {
  const std::string name = args.empty() ? "help" : args[0];
  if (!args.empty()) args.erase(args.begin());
  if (name == "help" || name == "--help" || name == "-h") return run_help(args);
  run_command(
      get_command(name == "--version" || name == "-v" ? "version" : name),
      std::move(args));
}

}  // namespace
}  // namespace quern

int main(int argc, char** argv) {
  try {
    quern::prepare_process();
    quern::run({argv + 1, argv + argc});
    return 0;
  } catch (const quern::UsageError& e) {
    quern::print_error(e.what());
    return 2;
  } catch (const std::bad_alloc&) {
    quern::print_error("out of memory");
  } catch (const std::exception& e) {
    quern::print_error(e.what());
  }
  return 1;
}
