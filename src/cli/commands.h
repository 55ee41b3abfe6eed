// The commands; main.cpp has their table.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace quern {

// What a command does once its options are read.
using Action = std::function<void()>;

// Each declares its options on `app` and gives the action that uses them.
Action add_chat(CLI::App& app);
Action add_serve(CLI::App& app);
Action add_generate(CLI::App& app);
Action add_tokenize(CLI::App& app);
Action add_logits(CLI::App& app);
Action add_perplexity(CLI::App& app);
Action add_bench(CLI::App& app);
Action add_models(CLI::App& app);
Action add_version(CLI::App& app);

}  // namespace quern
