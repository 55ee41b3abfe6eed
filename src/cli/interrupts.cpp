#include "cli/interrupts.h"

#include <csignal>

namespace quern {
namespace {

volatile std::sig_atomic_t interrupted = 0;

// Without SA_RESTART, so that a read from the terminal ends as well.
void set_handler(void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  ::sigaction(SIGINT, &action, nullptr);
}

}  // namespace

Interrupts::Interrupts() {
  set_handler([](int) { interrupted = 1; });
}
Interrupts::~Interrupts() { set_handler(SIG_DFL); }

bool Interrupts::seen() const { return interrupted; }
void Interrupts::forget() { interrupted = 0; }

}  // namespace quern
