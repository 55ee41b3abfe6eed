#include "serve/caller.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/str.h"

namespace quern {
namespace {

// A slow reader takes so many bytes, each time after so many seconds.
constexpr size_t kSlowBytes = 1024;
constexpr double kSlowPause = 0.5;
constexpr size_t kReceiveBytes = 64 << 10;
constexpr double kPauseAfterFault = 0.5;
constexpr double kMostRetryAfter = 5;

// Whether the field is there with a text that is not empty. Quotes inside
// texts are escaped, so `name` is only found as a key.
bool has_text(std::string_view data, std::string_view name) {
  const size_t at = data.find(name);
  return at != data.npos && data.size() > at + name.size() + 1 &&
         data[at + name.size()] == '"' && data[at + name.size() + 1] != '"';
}

int number_after(std::string_view data, std::string_view name) {
  const size_t at = data.find(name);
  int value = 0;
  if (at != data.npos) {
    data.remove_prefix(at + name.size());
    std::from_chars(data.data(), data.data() + data.size(), value);
  }
  return value;
}

std::string system_error() { return std::strerror(errno); }

}  // namespace

Caller::Caller(const sockaddr_in& server, const LoadOptions& options,
               Figures& figures, int epoll, int index)
    : server_(server),
      options_(options),
      figures_(figures),
      epoll_(epoll),
      index_(index) {}

Caller::~Caller() { hang_up(); }

void Caller::begin(Call call, double now) {
  call_ = std::move(call);
  busy_ = true;
  begun_ = heard_ = read_at_ = now;
  reused_ = fd_ >= 0;
  open(now);
}

// Starts the call on the open connection, or on a new one.
void Caller::open(double now) {
  sent_ = 0;
  reply_ = {};
  lines_ = {};
  answer_ = {};
  if (fd_ >= 0) return wait_for(EPOLLIN | EPOLLOUT);
  fd_ = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd_ < 0) return end(Outcome::failed, now, "socket: " + system_error());
  if (call_.manner == Manner::reads_slowly) {
    const int size = kSlowBytes;
    setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
  }
  epoll_event event{.events = EPOLLIN | EPOLLOUT,
                    .data = {.u32 = uint32_t(index_)}};
  epoll_ctl(epoll_, EPOLL_CTL_ADD, fd_, &event);
  const auto* address = reinterpret_cast<const sockaddr*>(&server_);
  if (connect(fd_, address, sizeof(server_)) < 0 && errno != EINPROGRESS) {
    end(Outcome::failed, now, "connect: " + system_error());
  }
}

void Caller::hang_up() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

void Caller::wait_for(uint32_t events) {
  epoll_event event{.events = events, .data = {.u32 = uint32_t(index_)}};
  epoll_ctl(epoll_, EPOLL_CTL_MOD, fd_, &event);
}

void Caller::on_ready(uint32_t events, double now) {
  if (!busy_) return hang_up();  // the server closed an idle connection
  if ((events & EPOLLOUT) && sent_ < call_.bytes.size()) send(now);
  const bool readable = events & (EPOLLIN | EPOLLHUP | EPOLLERR);
  if (readable && busy_) receive(kReceiveBytes, now);
}

void Caller::on_tick(double now) {
  if (!busy_) return;
  if (call_.manner == Manner::reads_slowly && now - read_at_ >= kSlowPause) {
    read_at_ = now;
    receive(kSlowBytes, now);
  } else if (call_.manner == Manner::disconnects &&
             now - begun_ >= call_.hang_up_s) {
    end(Outcome::disconnected, now);
  } else if (now - heard_ >= options_.stuck_s) {
    end(Outcome::stuck, now,
        fmt::format("no token for {} s", options_.stuck_s));
  }
}

void Caller::send(double now) {
  const ssize_t count = ::send(fd_, call_.bytes.data() + sent_,
                               call_.bytes.size() - sent_, MSG_NOSIGNAL);
  if (count < 0) {
    if (errno == EAGAIN || errno == EINTR) return;
    // What the server said before it closed is still to be read.
    if (errno == EPIPE) return wait_for(EPOLLIN);
    return on_closed(system_error(), now);
  }
  sent_ += size_t(count);
  if (sent_ < call_.bytes.size()) return;
  const bool slow = call_.manner == Manner::reads_slowly;
  wait_for(slow ? 0u : EPOLLIN);
}

void Caller::receive(size_t most, double now) {
  char bytes[kReceiveBytes];
  const ssize_t count = recv(fd_, bytes, std::min(most, sizeof(bytes)), 0);
  if (count < 0) {
    if (errno == EAGAIN || errno == EINTR) return;
    return on_closed(system_error(), now);
  }
  if (count == 0) return on_closed("", now);
  const Status fed = reply_.feed({bytes, size_t(count)}, body_);
  if (!fed) return end(Outcome::failed, now, fed.reason());
  on_body(now);
  if (busy_ && reply_.done()) on_reply(now);
}

void Caller::on_body(double now) {
  if (reply_.status() != 200) return;  // kept whole: it says what is wrong
  lines_.feed(body_, [&](std::string_view data) { on_data(data, now); });
  body_.clear();
}

void Caller::on_data(std::string_view data, double now) {
  if (!busy_) return;  // hung up at an earlier line
  if (data == "[DONE]") {
    answer_.done = true;
    return;
  }
  if (data.starts_with("{\"error\"")) answer_.error = data.substr(0, 200);
  if (data.find("\"finish_reason\":\"") != data.npos) answer_.finish = true;
  if (data.find("\"usage\":{") != data.npos) {
    answer_.tokens = number_after(data, "\"completion_tokens\":");
    answer_.prompt_tokens = number_after(data, "\"prompt_tokens\":");
  }
  const char* name = options_.chat ? "\"content\":" : "\"text\":";
  if (has_text(data, name)) on_delta(now);
}

void Caller::on_delta(double now) {
  const bool prompt_reader = call_.manner == Manner::reads;
  figures_.add_delta(now);
  if (answer_.deltas++ == 0) {
    answer_.first = now;
    if (prompt_reader) figures_.add_first(begun_, now);
  } else if (prompt_reader) {
    figures_.add_gap(answer_.last, now);
  }
  answer_.last = heard_ = now;
  if (call_.manner == Manner::disconnects &&
      answer_.deltas >= call_.hang_up_tokens) {
    end(Outcome::disconnected, now);
  }
}

void Caller::on_closed(const std::string& error, double now) {
  if (reused_ && !reply_.started()) {  // closed between the calls: once more
    reused_ = false;
    hang_up();
    return open(now);
  }
  const Status closed = reply_.close();
  if (closed) return on_reply(now);
  end(Outcome::failed, now,
      error.empty() ? closed.reason()
                    : fmt::format("{}: {}", closed.reason(), error));
}

void Caller::on_reply(double now) {
  const int status = reply_.status();
  if (call_.manner == Manner::malformed) {
    if (status / 100 == 4) return end(Outcome::rejected, now);
    return end(Outcome::failed, now,
               fmt::format("status {} for {}", status, call_.flaw));
  }
  if (status == 429 || status == 503) return end(Outcome::refused, now);
  const std::string fault = this->fault();
  if (!fault.empty()) return end(Outcome::failed, now, fault);
  figures_.add_answer(answer_.deltas, answer_.prompt_tokens, answer_.tokens);
  if (call_.manner == Manner::reads) {
    figures_.add_pace(answer_.first, answer_.last, answer_.tokens);
  }
  end(Outcome::done, now);
}

std::string Caller::fault() const {
  if (reply_.status() != 200) {
    return fmt::format("status {}: {}", reply_.status(), in_quotes(body_, 200));
  }
  if (!answer_.error.empty()) return answer_.error;
  if (!answer_.finish) return "no finish reason";
  if (!answer_.done) return "no [DONE]";
  if (answer_.deltas == 0) return "no text";
  const int least = options_.banned.empty() ? 1 : call_.max_tokens;
  if (answer_.tokens < least || answer_.tokens > call_.max_tokens) {
    return fmt::format("usage of {} tokens where {} were asked for",
                       answer_.tokens, call_.max_tokens);
  }
  return "";
}

void Caller::end(Outcome outcome, double now, const std::string& reason) {
  figures_.add_outcome(outcome, reason);
  busy_ = false;
  free_from_ = now;
  if (outcome == Outcome::refused) {
    free_from_ += std::clamp<double>(reply_.retry_after_s(), kPauseAfterFault,
                                     kMostRetryAfter);
  } else if (outcome == Outcome::failed) {
    free_from_ += kPauseAfterFault;
  }
  const bool keep = outcome == Outcome::done && reply_.keeps_alive() &&
                    call_.manner == Manner::reads;
  if (keep) {
    wait_for(EPOLLIN);  // it may be closed
  } else {
    hang_up();
  }
  body_.clear();
}

}  // namespace quern
