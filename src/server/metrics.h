// What the server counts, in the text format of Prometheus.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/engine.h"

namespace quern {

// How often values fell below each of some bounds.
class Histogram {
 public:
  explicit Histogram(std::span<const double> bounds);  // ascending, static

  void observe(double value);
  // The samples of one metric, without its # lines.
  void write(std::string& out, std::string_view name) const;

 private:
  std::span<const double> bounds_;
  std::vector<uint64_t> counts_;  // a bucket each, and those above all bounds
  double sum_ = 0;
};

// A request that has its answer.
struct Answered {
  std::string_view route;  // a pattern of the table, never what a client sent
  int status;
  double seconds;
  size_t bytes;  // of the answer
  std::span<const Ending> endings;
};

// Of the moment.
struct Gauges {
  int connections = 0;
  const EngineStats* engine = nullptr;  // null while the model is loading
};

// Thread-safe.
class Metrics {
 public:
  Metrics();

  void observe(const Answered& answered);
  std::string text(const Gauges& gauges) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, uint64_t> requests_;
  uint64_t bytes_ = 0;
  Histogram seconds_, queue_, first_token_, between_tokens_;
  const int64_t start_;  // seconds since 1970
};

}  // namespace quern
