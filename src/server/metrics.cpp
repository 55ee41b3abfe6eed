#include "server/metrics.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>

namespace quern {
namespace {

constexpr double kSeconds[] = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
                               1,     2.5,  5,     10,   30,  60,   120};
constexpr double kTokenSeconds[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                    0.075, 0.1,    0.15,  0.2,  0.5,   1};

// 0 where the system has no /proc.
size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  size_t total = 0, resident = 0;
  statm >> total >> resident;
  return resident * size_t(::sysconf(_SC_PAGESIZE));
}

void describe(std::string& out, std::string_view name, std::string_view type,
              std::string_view help) {
  out += fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n", name, type, help);
}

template <class T>
void write(std::string& out, std::string_view name, std::string_view type,
           std::string_view help, T value) {
  describe(out, name, type, help);
  out += fmt::format("{} {}\n", name, value);
}

void write_engine(std::string& out, const EngineStats& s) {
  constexpr std::string_view kFinish[] = {"stop", "length", "cancelled",
                                          "failed"};
  describe(out, "quern_generations_total", "counter",
           "Requests of the engine by how they ended");
  for (size_t i = 0; i < std::size(kFinish); ++i) {
    out += fmt::format("quern_generations_total{{finish=\"{}\"}} {}\n",
                       kFinish[i], s.finished[i]);
  }
  write(out, "quern_generations_refused_total", "counter",
        "Requests that the engine did not take", s.refused);
  write(out, "quern_prompt_tokens_total", "counter",
        "Tokens of prompts that were read", s.prompt_tokens);
  write(out, "quern_generated_tokens_total", "counter",
        "Tokens that were generated", s.generated_tokens);
  write(out, "quern_steps_total", "counter", "Decode steps", s.steps);
  write(out, "quern_rows", "gauge", "Requests that are decoding", s.rows);
  write(out, "quern_rows_joining", "gauge",
        "Requests whose prompt is being read", s.joining);
  write(out, "quern_queue", "gauge", "Requests that wait for a place",
        s.queued);
  write(out, "quern_context_tokens", "gauge", "The longest row", s.context);
  write(out, "quern_weight_bytes", "gauge", "Memory of the weights",
        s.weight_bytes);
  write(out, "quern_kv_bytes", "gauge", "Keys and values that rows hold",
        s.kv_bytes);
  write(out, "quern_kv_reserved_bytes", "gauge",
        "Keys and values that rows may grow to", s.kv_reserved_bytes);
  write(out, "quern_memory_budget_bytes", "gauge",
        "The most memory for weights, rows and transients", s.budget_bytes);
  write(out, "quern_decode_tokens_per_second", "gauge",
        "Tokens generated a second, of the last seconds", s.decode_tps);
  write(out, "quern_prefill_tokens_per_second", "gauge",
        "Tokens of prompts read a second, of the last seconds", s.prefill_tps);
}

}  // namespace

Histogram::Histogram(std::span<const double> bounds)
    : bounds_(bounds), counts_(bounds.size() + 1) {}

void Histogram::observe(double value) {
  const auto bound = std::lower_bound(bounds_.begin(), bounds_.end(), value);
  ++counts_[size_t(bound - bounds_.begin())];
  sum_ += value;
}

void Histogram::write(std::string& out, std::string_view name) const {
  uint64_t count = 0;
  for (size_t i = 0; i < bounds_.size(); ++i) {
    count += counts_[i];
    out += fmt::format("{}_bucket{{le=\"{}\"}} {}\n", name, bounds_[i], count);
  }
  count += counts_.back();
  out += fmt::format(
      "{0}_bucket{{le=\"+Inf\"}} {1}\n{0}_sum {2}\n"
      "{0}_count {1}\n",
      name, count, sum_);
}

Metrics::Metrics()
    : seconds_(kSeconds),
      queue_(kSeconds),
      first_token_(kSeconds),
      between_tokens_(kTokenSeconds),
      start_(std::chrono::duration_cast<std::chrono::seconds>(
                 std::chrono::system_clock::now().time_since_epoch())
                 .count()) {}

void Metrics::observe(const Answered& answered) {
  const std::lock_guard lock(mutex_);
  ++requests_[{std::string(answered.route), answered.status}];
  bytes_ += answered.bytes;
  seconds_.observe(answered.seconds);
  for (const Ending& ending : answered.endings) {
    const Timings& t = ending.timings;
    if (t.admitted > 0) queue_.observe(t.admitted);
    if (t.first_token <= 0) continue;
    first_token_.observe(t.first_token);
    if (ending.tokens > 1) {
      between_tokens_.observe((t.ended - t.first_token) / (ending.tokens - 1));
    }
  }
}

std::string Metrics::text(const Gauges& gauges) const {
  std::string out;
  {
    const std::lock_guard lock(mutex_);
    describe(out, "quern_http_requests_total", "counter",
             "Answers by route and status");
    for (const auto& [key, count] : requests_) {
      out += fmt::format(
          "quern_http_requests_total{{route=\"{}\",status=\"{}\"}} {}\n",
          key.first, key.second, count);
    }
    write(out, "quern_http_answer_bytes_total", "counter", "Bytes of answers",
          bytes_);
    const auto histogram = [&](std::string_view name, const Histogram& of,
                               std::string_view help) {
      describe(out, name, "histogram", help);
      of.write(out, name);
    };
    histogram("quern_http_request_seconds", seconds_,
              "From a request's first byte to its answer's last");
    histogram("quern_queue_seconds", queue_,
              "From a request's submission to its admission");
    histogram("quern_time_to_first_token_seconds", first_token_,
              "From a request's submission to its first token");
    histogram("quern_time_between_tokens_seconds", between_tokens_,
              "The mean of each answer");
  }
  write(out, "quern_http_connections", "gauge", "Open connections",
        gauges.connections);
  write(out, "quern_ready", "gauge", "1 once the model is loaded",
        gauges.engine ? 1 : 0);
  if (gauges.engine) write_engine(out, *gauges.engine);
  write(out, "process_resident_memory_bytes", "gauge", "Resident memory",
        resident_bytes());
  write(out, "process_start_time_seconds", "gauge",
        "When the server started, in seconds since 1970", start_);
  return out;
}

}  // namespace quern
