#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <future>

#include "base/log.h"
#include "cli/answer.h"
#include "cli/batch_options.h"
#include "cli/commands.h"
#include "cli/interrupts.h"
#include "cli/output.h"
#include "cli/sampling_options.h"
#include "hub/library.h"
#include "server/server.h"

namespace quern {
namespace {

struct ServeOptions {
  RunOptions run;
  SamplingOptions sampling;
  ServerOptions server;
  EngineOptions engine;
  ServeDefaults defaults;  // all but sampling
  std::optional<std::string> model, chat_template, model_name;
  double memory_budget_gb = 0;  // 0: the default
  double drain_s = 30;
  LogLevel log_level = LogLevel::info;
};

constexpr Word<bool> kBooleans[] = {{"true", true}, {"false", false}};
constexpr Word<LogLevel> kLogLevels[] = {{"debug", LogLevel::debug},
                                         {"info", LogLevel::info},
                                         {"warning", LogLevel::warning},
                                         {"error", LogLevel::error},
                                         {"off", LogLevel::off}};
constexpr Word<ReasoningField> kReasoningFields[] = {
    {"both", ReasoningField::both},
    {"reasoning_content", ReasoningField::reasoning_content},
    {"reasoning", ReasoningField::reasoning}};

// The id of the listed model, else the name of the file or directory.
std::string id_of(const Path& path) {
  for (const LocalModel& model : list_models(Places::from_environment())) {
    if (model.path == path) return model.id;
  }
  const Path name = path.filename();
  return (name.empty() ? path.parent_path().filename() : name).string();
}

std::shared_ptr<ServedModel> load(const ServeOptions& o) {
  TextSetup setup = load_text_setup(o.run, o.chat_template);
  const int context = setup.model->facts().context;
  if (context > 0 && o.engine.context > context) {
    fail("--context: the model's is {}, got {}", context, o.engine.context);
  }
  ServeDefaults defaults = o.defaults;
  defaults.sampling = sampling_params(o.sampling, setup.path, setup.tokenizer,
                                      setup.model->facts().vocabulary);
  EngineOptions engine = o.engine;
  engine.precision = o.run.precision();
  engine.kv = setup.kv;
  engine.prefill_chunk = o.run.prefill_chunk;
  engine.memory_budget = size_t(o.memory_budget_gb * 1e9);
  ReplyFormat format = ReplyFormat::of(setup.tokenizer, setup.templates);
  auto layers = setup.model->make_row(setup.kv).signatures();
  auto running = std::make_unique<Engine>(*setup.model, engine);
  return std::make_shared<ServedModel>(
      ServedModel{.id = o.model_name.value_or(id_of(setup.path)),
                  .created = std::time(nullptr),
                  .model = std::move(setup.model),
                  .tokenizer = std::move(setup.tokenizer),
                  .templates = std::move(setup.templates),
                  .format = std::move(format),
                  .defaults = std::move(defaults),
                  .kv_layers = std::move(layers),
                  .engine = std::move(running)});
}

void warn_if_open(const Server& server, const ServerOptions& o) {
  if (server.is_local() || !o.api_keys.empty()) return;
  log(LogLevel::warning,
      fmt::format("everyone who reaches {} can use this server: --api-key "
                  "asks for a key",
                  o.host));
}

// Ends the program where it is: loading cannot be interrupted.
[[noreturn]] void quit_loading(Server& server) {
  server.stop(0);
  std::_Exit(0);
}

void serve(const ServeOptions& o) {
  std::signal(SIGPIPE, SIG_IGN);  // of a log that nobody reads any more
  set_log_level(o.log_level);
  std::optional<Interrupts> signals(std::in_place,
                                    std::vector<int>{SIGINT, SIGTERM});
  Service service;
  Server server(service, o.server);
  log(LogLevel::info, fmt::format("{}: loading the model", server.url()));
  warn_if_open(server, o.server);
  auto loading =
      std::async(std::launch::async, [&] { service.serve(load(o)); });
  while (loading.wait_for(std::chrono::milliseconds(50)) !=
         std::future_status::ready) {
    if (signals->seen()) quit_loading(server);
  }
  loading.get();
  print(fmt::format("serving {} at {}\n", service.model()->id, server.url()));
  signals->wait();
  signals.reset();  // the next one ends the program at once
  log(LogLevel::info, "ending: answers under way may finish");
  server.stop(o.drain_s);
}

void add_address_options(CLI::App& app, ServeOptions& o) {
  ServerOptions& s = o.server;
  add_value(
      app, "--host", [&s](const std::string& text) { s.host = text; },
      "The address to listen on (default 127.0.0.1: this machine alone)")
      ->type_name("HOST");
  add_number(app, "--port", s.port, 0, 65535,
             "The port (default 8080); 0: any free one");
  const auto set_unix = [&s](const std::string& text) {
    if (text.empty()) throw UsageError("--unix: expected a path, got ''");
    s.unix_socket = text;
  };
  add_value(app, "--unix", set_unix,
            "Listen on this socket file in place of a port")
      ->type_name("PATH");
  const auto add_key = [&s](const std::string& key) {
    if (key.empty()) throw UsageError("--api-key: expected text, got ''");
    s.api_keys.push_back(key);
  };
  add_values(app, "--api-key", add_key,
             "A key that clients must give, also from QUERN_API_KEY; may be "
             "repeated")
      ->type_name("KEY");
  const auto set_origin = [&s](const std::string& text) {
    if (text.find_first_of("\r\n") != text.npos) {
      throw UsageError("--cors-origin: expected an origin, got " +
                       in_quotes(text));
    }
    s.cors_origin = text;
  };
  add_value(
      app, "--cors-origin", set_origin,
      "The web origin whose pages may use the server (default *: all); empty: "
      "none")
      ->type_name("ORIGIN");
  add_number(app, "--keepalive", s.keepalive_s, 0.001, 3600.0,
             "Seconds of silence after which a stream gets a comment that "
             "keeps it open (default 5)");
}

void add_engine_options(CLI::App& app, ServeOptions& o) {
  EngineOptions& e = o.engine;
  add_number(app, "--batch", e.batch, 1, 1024,
             "Requests answered at the same time (default 8)");
  add_batch_layout(app, e.layout);
  add_number(app, "--queue", e.queue, 0, 1 << 20,
             "Requests that may wait for that (default 64)");
  add_number(app, "--context,--context-length", e.context, 2, INT32_MAX,
             "The longest prompt and answer together, in tokens (default: the "
             "model's)");
  add_number(app, "--memory-budget", o.memory_budget_gb, 1e-3, 1e6,
             "Memory for the model and its rows, in GB of 10^9 bytes (default: "
             "3/4 of the machine's)");
}

void add_default_options(CLI::App& app, ServeOptions& o) {
  add_number(app, "--max-tokens", o.defaults.max_tokens, 1, INT32_MAX,
             "An answer's longest length where a request gives none (default: "
             "what the context leaves)");
  add_word(app, "--thinking", o.defaults.thinking, kBooleans,
           "Whether the model thinks first where a request does not say "
           "(default: the template's)");
  add_word(app, "--reasoning-field", o.defaults.reasoning_field,
           kReasoningFields,
           "Where answers have the reasoning: both (default), "
           "reasoning_content or reasoning");
  add_text(app, "--chat-template", o.chat_template,
           "A Jinja file to use in place of the model's template")
      ->type_name("FILE");
  const auto set_name = [&o](const std::string& text) {
    if (text.empty()) throw UsageError("--model-name: expected text, got ''");
    o.model_name = text;
  };
  add_value(app, "--model-name", set_name,
            "The id that clients see (default: the model's)")
      ->type_name("TEXT");
}

// QUERN_API_KEY counts as one more --api-key.
void add_key_from_environment(ServerOptions& o) {
  const char* key = std::getenv("QUERN_API_KEY");
  if (key && *key) o.api_keys.push_back(key);
}

}  // namespace

Action add_serve(CLI::App& app) {
  auto o = std::make_shared<ServeOptions>();
  add_run_options(app, o->run);
  add_text(app, "--model", o->model, "MODEL, as an option");
  add_address_options(app, *o);
  add_engine_options(app, *o);
  add_default_options(app, *o);
  add_sampling_options(app, o->sampling);
  add_number(app, "--drain", o->drain_s, 0.0, 86400.0,
             "Seconds that answers under way get after SIGTERM or Ctrl-C "
             "(default 30); a second signal ends at once");
  add_word(app, "--log-level", o->log_level, kLogLevels,
           "debug, info (default: a line a request, but for polls), warning, "
           "error or off");
  return [o] {
    if (o->model) o->run.model = o->model;
    add_key_from_environment(o->server);
    serve(*o);
  };
}

}  // namespace quern
