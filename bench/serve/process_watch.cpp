#include "serve/process_watch.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>

namespace quern {
namespace {

using Field = double (*)(double resident, double anonymous);

std::string file_of(int pid, const char* name) {
  return fmt::format("/proc/{}/{}", pid, name);
}

// Seconds in user and kernel mode, all threads; less than 0 if not known.
double cpu_seconds(int pid) {
  std::ifstream file(file_of(pid, "stat"));
  std::string text;
  if (!std::getline(file, text, ')')) return -1;
  double user = -1, system = 0;
  for (int field = 3; field < 14; ++field) file >> text;
  file >> user >> system;
  return file ? (user + system) / double(sysconf(_SC_CLK_TCK)) : -1;
}

}  // namespace

ProcessWatch::ProcessWatch(int pid) : pid_(pid) {
  if (cpu_seconds(pid) < 0) fail("there is no process {} to watch", pid);
}

void ProcessWatch::look(double now) {
  std::ifstream file(file_of(pid_, "statm"));
  double size, resident, shared;
  const double cpu_s = cpu_seconds(pid_);
  if (cpu_s < 0 || !(file >> size >> resident >> shared)) return;
  const double mb = double(sysconf(_SC_PAGESIZE)) / 1e6;
  looks_.push_back({now, cpu_s, resident * mb, (resident - shared) * mb});
}

double ProcessWatch::cores() const {
  if (looks_.size() < 2) return 0;
  const double seconds = looks_.back().at - looks_.front().at;
  return (looks_.back().cpu_s - looks_.front().cpu_s) / seconds;
}

double ProcessWatch::growth() const {
  const Json anonymous = json()["anonymous_mb"];
  const double first = anonymous["first_third"];
  return first > 0 ? double(anonymous["last_third"]) / first : 0;
}

Json ProcessWatch::json() const {
  const size_t third = std::max<size_t>(looks_.size() / 3, 1);
  auto rounded = [](double value) { return std::round(value * 10) / 10; };
  auto summary = [&](double Look::* field) -> Json {
    if (looks_.empty()) return nullptr;
    double first = 0, last = 0, most = 0;
    for (size_t i = 0; i < third; ++i) {
      first += looks_[i].*field;
      last += looks_[looks_.size() - 1 - i].*field;
    }
    for (const Look& look : looks_) most = std::max(most, look.*field);
    return {{"first_third", rounded(first / double(third))},
            {"last_third", rounded(last / double(third))},
            {"most", rounded(most)}};
  };
  return {{"resident_mb", summary(&Look::resident_mb)},
          {"anonymous_mb", summary(&Look::anonymous_mb)},
          {"cores", std::round(cores() * 100) / 100}};
}

}  // namespace quern
