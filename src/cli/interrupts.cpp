#include "cli/interrupts.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace quern {
namespace {

volatile std::sig_atomic_t interrupted = 0;
int wake[2] = {-1, -1};  // a pipe: the handler writes, a poll reads

void set_handler(const std::vector<int>& signals, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  for (int signal : signals) ::sigaction(signal, &action, nullptr);
}

void on_interrupt(int) {
  const int error = errno;
  interrupted = 1;
  // A full pipe is readable already.
  [[maybe_unused]] const auto written = ::write(wake[1], "", 1);
  errno = error;
}

}  // namespace

Interrupts::Interrupts(std::vector<int> signals)
    : signals_(std::move(signals)) {
  if (::pipe2(wake, O_CLOEXEC | O_NONBLOCK) != 0) {
    fail("cannot make a pipe: {}", std::strerror(errno));
  }
  set_handler(signals_, on_interrupt);
}

Interrupts::~Interrupts() {
  set_handler(signals_, SIG_DFL);
  ::close(wake[0]);
  ::close(wake[1]);
}

bool Interrupts::seen() const { return interrupted; }

void Interrupts::forget() {
  char bytes[64];
  while (::read(wake[0], bytes, sizeof bytes) > 0) {
  }
  interrupted = 0;
}

void Interrupts::wait() const {
  pollfd flag{.fd = wake[0], .events = POLLIN};
  while (!seen()) ::poll(&flag, 1, -1);
}

int Interrupts::descriptor() const { return wake[0]; }

}  // namespace quern
