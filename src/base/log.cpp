#include "base/log.h"

#include <spdlog/async.h>
#include <spdlog/details/null_mutex.h>
#include <spdlog/sinks/base_sink.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <thread>

#include "base/str.h"

namespace quern {
namespace {

constexpr size_t kWaitingLines = 8192;
// How long the program's end waits for lines to be read.
constexpr std::chrono::seconds kLastWords{1};

constexpr spdlog::level::level_enum spd_level(LogLevel level) {
  switch (level) {
    case LogLevel::debug: return spdlog::level::debug;
    case LogLevel::info: return spdlog::level::info;
    case LogLevel::warning: return spdlog::level::warn;
    case LogLevel::error: return spdlog::level::err;
    case LogLevel::off: break;
  }
  return spdlog::level::off;
}

// Without stdio, whose locks a blocked write would hold while the program ends.
class Stderr : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t text;
    formatter_->format(message, text);
    size_t sent = 0;
    while (sent < text.size()) {
      const ssize_t count =
          ::write(STDERR_FILENO, text.data() + sent, text.size() - sent);
      if (count <= 0) return;
      sent += size_t(count);
    }
  }
  void flush_() override {}
};

// Writes from a thread of its own, which ends with the program.
class Log {
 public:
  Log()
      : thread_(
            std::make_shared<spdlog::details::thread_pool>(kWaitingLines, 1)),
        logger_(std::make_shared<spdlog::async_logger>(
            "quern", std::make_shared<Stderr>(), thread_,
            spdlog::async_overflow_policy::overrun_oldest)) {
    logger_->set_pattern("%Y-%m-%d %H:%M:%S.%e %l %v");
  }
  // A write that nobody reads is left behind.
  ~Log() {
    std::promise<void> promise;
    const auto written = promise.get_future();
    std::thread([thread = std::move(thread_),
                 promise = std::move(promise)]() mutable {
      thread.reset();
      promise.set_value();
    }).detach();
    written.wait_for(kLastWords);
  }
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  spdlog::async_logger& logger() { return *logger_; }

 private:
  std::shared_ptr<spdlog::details::thread_pool> thread_;
  std::shared_ptr<spdlog::async_logger> logger_;
};

spdlog::async_logger& logger() {
  static Log log;
  return log.logger();
}

}  // namespace

void set_log_level(LogLevel level) { logger().set_level(spd_level(level)); }

void log(LogLevel level, std::string_view line) {
  spdlog::async_logger& to = logger();
  if (to.should_log(spd_level(level))) {
    to.log(spd_level(level), "{}", on_one_line(line));
  }
}

}  // namespace quern
