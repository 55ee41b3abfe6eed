#include "base/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include "base/temp_dir.h"

namespace quern::test {
namespace {

// stderr as a file, while it lives.
class StderrFile {
 public:
  StderrFile() {
    const int fd = ::open(file_.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(fd, STDERR_FILENO);
    ::close(fd);
  }
  ~StderrFile() {
    ::dup2(saved_, STDERR_FILENO);
    ::close(saved_);
  }

  // Its lines, once there are `count` of them.
  std::vector<std::string> lines(size_t count) const {
    for (int i = 0; i < 1000; ++i) {
      std::ifstream in(file_);
      std::vector<std::string> lines;
      for (std::string line; std::getline(in, line);) lines.push_back(line);
      if (lines.size() >= count) return lines;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return {};
  }

 private:
  TempDir dir_;
  Path file_ = dir_.path() / "stderr";
  int saved_ = ::dup(STDERR_FILENO);
};

TEST(Log, WritesLinesOfItsLevelAndAbove) {
  const StderrFile stderr_file;
  set_log_level(LogLevel::warning);
  log(LogLevel::info, "one");
  log(LogLevel::warning, "two {}");
  log(LogLevel::error, "a\nb\xff");
  const auto lines = stderr_file.lines(2);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_TRUE(lines[0].ends_with(" warning two {}")) << lines[0];
  EXPECT_TRUE(lines[1].ends_with(" error a\\x0Ab\\xFF")) << lines[1];
  set_log_level(LogLevel::off);
  log(LogLevel::error, "three");
  set_log_level(LogLevel::info);
  log(LogLevel::info, "four");
  EXPECT_TRUE(stderr_file.lines(3).back().ends_with(" info four"));
}

TEST(Log, TakesLinesFromManyThreads) {
  const StderrFile stderr_file;
  set_log_level(LogLevel::info);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (int line = 0; line < 100; ++line) log(LogLevel::info, "line");
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto lines = stderr_file.lines(400);
  EXPECT_EQ(lines.size(), 400u);
  for (const std::string& line : lines) {
    EXPECT_TRUE(line.ends_with(" info line")) << line;
  }
}

TEST(Log, TheProgramEndsThoughNobodyReadsIt) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto fill_and_exit = [] {
    int unread[2];
    if (::pipe(unread) != 0) std::abort();
    ::dup2(unread[1], STDERR_FILENO);
    ::alarm(20);
    for (int i = 0; i < 10'000; ++i) log(LogLevel::error, "a line");
    std::exit(0);
  };
  EXPECT_EXIT(fill_and_exit(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace quern::test
