// Loads a server of OpenAI's API with streamed calls and prints what its
// callers saw as one JSON object.
#include <sys/resource.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>

#include "base/json.h"
#include "cli/options.h"
#include "serve/load.h"

namespace quern {
namespace {

constexpr int kMost = 1 << 24;

struct Options {
  LoadOptions load;
  double wait_s = 0;
  int pid = 0;
  std::optional<std::string> csv, label;
};

void read_url(std::string url, LoadOptions& load) {
  if (url.starts_with("http://")) url.erase(0, 7);
  const size_t colon = url.find(':');
  load.host = url.substr(0, colon);
  if (colon == url.npos || load.host.empty()) {
    throw UsageError("--url: expected host:port, got " + in_quotes(url));
  }
  load.port = parse_number("--url", url.substr(colon + 1), 1, 65535);
}

Range read_range(const std::string& name, std::string_view text) {
  const size_t dash = text.find('-');
  Range range;
  range.low = range.high = parse_number(name, text.substr(0, dash), 1, kMost);
  if (dash != text.npos) {
    range.high = parse_number(name, text.substr(dash + 1), range.low, kMost);
  }
  return range;
}

void add_range(CLI::App& app, const std::string& name, Range& range,
               const std::string& help) {
  auto read = [name, &range](const std::string& text) {
    range = read_range(name, text);
  };
  add_value(app, name, read, help)->type_name("N or N-N");
}

void add_load_options(CLI::App& app, LoadOptions& load) {
  add_value(
      app, "--url", [&load](const auto& text) { read_url(text, load); },
      "Address of the server, host:port (default 127.0.0.1:8080)");
  add_number(app, "--streams", load.streams, 1, 10000,
             "Callers, each with one call at a time (default 1)");
  add_number(app, "--seconds", load.seconds, 0.1, 1e6,
             "Make calls for so long (default 10); those begun are waited for");
  add_number(app, "--requests", load.requests, 1, kMost,
             "Make so many calls instead");
  add_number(app, "--warmup", load.warmup_s, 0.0, 1e6,
             "Seconds before them that the figures leave out (default 0)");
  add_number(app, "--stuck-after", load.stuck_s, 1.0, 1e6,
             "A call is stuck after so many seconds without a token "
             "(default 120)");
  add_number(app, "--seed", load.seed, uint64_t(0), ~uint64_t(0),
             "Draws the calls (default 1)");
  add_flag(app, "--chat", load.chat, "Chat, not plain completions");
  add_range(app, "--prompt-tokens", load.prompt_tokens,
            "Words of a prompt, each a token (default 64)");
  add_range(app, "--max-tokens", load.max_tokens,
            "Tokens of an answer (default 64)");
  add_number(app, "--temperature", load.temperature, 0.0, 2.0,
             "Above 0: drawn with a seed for each call (default 0)");
  add_numbers(app, "--ban", load.banned, 0, kMost,
              "Ids of end tokens, banned by logit_bias so that each answer "
              "has all its tokens; shorter ones are failures then");
  for (const auto& [name, share, what] :
       {std::tuple{"--disconnect-share", &load.disconnect_share,
                   "hang up before the end"},
        {"--malformed-share", &load.malformed_share, "are malformed"},
        {"--slow-reader-share", &load.slow_reader_share,
         "are read at 2 KiB/s; latencies leave them out"}}) {
    add_number(app, name, *share, 0.0, 1.0,
               fmt::format("Share of the calls that {} (default 0)", what));
  }
}

double own_cpu_seconds() {
  rusage use;
  getrusage(RUSAGE_SELF, &use);
  auto seconds = [](timeval t) { return double(t.tv_sec) + t.tv_usec / 1e6; };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

// Appends a row to a table, and its head to a new one.
void write_csv(const std::string& path, const std::string& label,
               const LoadOptions& load, const Figures& figures,
               const ProcessWatch* server) {
  const bool is_new = !std::filesystem::exists(path);
  std::ofstream file(path, std::ios::app);
  if (is_new) {
    file << "label,streams,tokens_per_s,stream_tokens_per_s,first_ms_p50,"
            "first_ms_p99,between_ms_p50,between_ms_p99,done,refused,failed,"
            "stuck,server_cores,server_growth\n";
  }
  file << fmt::format(
      "{},{},{:.2f},{:.2f},{:.2f},{:.2f},{:.2f},{:.2f},{},{},{},{},{:.2f},"
      "{:.3f}\n",
      label, load.streams, figures.tokens_per_s(), figures.pace(),
      figures.first_ms(0.5), figures.first_ms(0.99), figures.gap_ms(0.5),
      figures.gap_ms(0.99), figures.count(Outcome::done),
      figures.count(Outcome::refused), figures.count(Outcome::failed),
      figures.count(Outcome::stuck), server ? server->cores() : 0,
      server ? server->growth() : 0);
  if (!file.flush()) fail("cannot write to {}", path);
}

void run(const Options& o) {
  const LoadOptions& load = o.load;
  if (o.wait_s > 0 && !wait_ready(load, o.wait_s)) {
    fail("{}:{} was not ready within {} s", load.host, load.port, o.wait_s);
  }
  std::optional<ProcessWatch> server;
  if (o.pid > 0) server.emplace(o.pid);
  const Figures figures = run_load(load, server ? &*server : nullptr);

  Json json = {{"label", o.label.value_or("")},
               {"endpoint", load.chat ? "chat" : "completions"},
               {"streams", load.streams}};
  json.update(figures.json());
  if (server) json["server"] = server->json();
  json["client_cpu_s"] = std::round(own_cpu_seconds() * 100) / 100;
  std::puts(json.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
  if (o.csv) {
    write_csv(*o.csv, o.label.value_or(""), load, figures,
              server ? &*server : nullptr);
  }
}

void parse(CLI::App& app, int argc, char** argv, Options& o) {
  add_load_options(app, o.load);
  add_number(app, "--wait", o.wait_s, 0.0, 1e6,
             "Wait so many seconds for the server to be ready (default 0)");
  add_number(app, "--pid", o.pid, 1, 1 << 30,
             "Process of the server, whose memory is watched");
  add_text(app, "--csv", o.csv, "File that a row of the figures is added to");
  add_text(app, "--label", o.label, "Names the row and the JSON object");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    throw;
  } catch (const CLI::ParseError& e) {
    throw UsageError(e.what());
  }
  if (o.load.requests > 0 && o.load.seconds > 0) {
    throw UsageError("--requests and --seconds exclude each other");
  }
  if (o.load.requests == 0 && o.load.seconds == 0) o.load.seconds = 10;
}

}  // namespace
}  // namespace quern

int main(int argc, char** argv) {
  quern::Options options;
  CLI::App app("Loads a server of OpenAI's API with streamed calls");
  try {
    quern::parse(app, argc, argv, options);
    quern::run(options);
    return 0;
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return 0;
  } catch (const quern::UsageError& e) {
    std::fprintf(stderr, "serve_load: %s\n", e.what());
    return 2;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "serve_load: %s\n", e.what());
    return 1;
  }
}
