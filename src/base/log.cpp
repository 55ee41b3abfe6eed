#include "base/log.h"

#include <spdlog/async.h>
#include <spdlog/sinks/stdout_sinks.h>

#include "base/str.h"

namespace quern {
namespace {

constexpr size_t kWaitingLines = 8192;

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

// Writes from a thread of its own, which ends with the program.
class Log {
 public:
  Log()
      : thread_(
            std::make_shared<spdlog::details::thread_pool>(kWaitingLines, 1)),
        logger_(std::make_shared<spdlog::async_logger>(
            "quern", std::make_shared<spdlog::sinks::stderr_sink_mt>(), thread_,
            spdlog::async_overflow_policy::overrun_oldest)) {
    logger_->set_pattern("%Y-%m-%d %H:%M:%S.%e %l %v");
    logger_->flush_on(spdlog::level::debug);
  }

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
