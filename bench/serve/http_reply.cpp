#include "serve/http_reply.h"

#include <strings.h>

#include <algorithm>
#include <charconv>

#include "base/str.h"

namespace quern {
namespace {

constexpr size_t kMostLine = 64 << 10;

std::string_view trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") + 1 - first);
}

bool same_word(std::string_view a, std::string_view b) {
  return a.size() == b.size() && !strncasecmp(a.data(), b.data(), a.size());
}

template <class T>
bool read_number(std::string_view text, T& value, int base = 10) {
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value, base);
  return error == std::errc() && at == end;
}

}  // namespace

bool HttpReply::in_line() const {
  return state_ == State::status_line || state_ == State::headers ||
         state_ == State::chunk_size || state_ == State::chunk_end ||
         state_ == State::trailers;
}

Status HttpReply::feed(std::string_view bytes, std::string& body) {
  started_ = started_ || !bytes.empty();
  while (!bytes.empty()) {
    if (done()) return failure("{} bytes after the answer", bytes.size());
    if (!in_line()) {
      const size_t count = state_ == State::unbounded
                               ? bytes.size()
                               : std::min<uint64_t>(left_, bytes.size());
      body.append(bytes.substr(0, count));
      bytes.remove_prefix(count);
      left_ -= state_ == State::unbounded ? 0 : count;
      if (left_ > 0 || state_ == State::unbounded) continue;
      state_ = state_ == State::chunk ? State::chunk_end : State::done;
      continue;
    }
    const size_t end = bytes.find('\n');
    line_.append(bytes.substr(0, end));
    if (line_.size() > kMostLine) return failure("a line without an end");
    if (end == bytes.npos) return {};
    bytes.remove_prefix(end + 1);
    if (Status taken = take_line(trim(line_)); !taken) return taken;
    line_.clear();
  }
  return {};
}

Status HttpReply::close() {
  if (state_ == State::unbounded) state_ = State::done;
  if (done()) return {};
  if (!started_) return failure("closed without an answer");
  return failure("closed in the middle of the answer");
}

Status HttpReply::take_line(std::string_view line) {
  switch (state_) {
    case State::status_line: return take_status(line);
    case State::headers:
      if (!line.empty()) return take_header(line);
      end_headers();
      return {};
    case State::chunk_size: return take_chunk_size(line);
    case State::chunk_end:
      if (!line.empty()) return failure("a chunk is longer than its size");
      state_ = State::chunk_size;
      return {};
    default:  // trailers
      if (line.empty()) state_ = State::done;
      return {};
  }
}

Status HttpReply::take_status(std::string_view line) {
  if (!line.starts_with("HTTP/1.") || line.size() < 12 ||
      !read_number(line.substr(9, 3), status_)) {
    return failure("not the status line of an answer: {}", in_quotes(line));
  }
  keeps_alive_ = !line.starts_with("HTTP/1.0");
  state_ = State::headers;
  return {};
}

Status HttpReply::take_header(std::string_view line) {
  const size_t colon = line.find(':');
  if (colon == line.npos) return failure("not a header: {}", in_quotes(line));
  const std::string_view name = line.substr(0, colon);
  const std::string_view value = trim(line.substr(colon + 1));
  if (same_word(name, "content-length")) {
    counted_ = true;
    if (!read_number(value, left_)) {
      return failure("not a length: {}", in_quotes(line));
    }
  } else if (same_word(name, "transfer-encoding")) {
    chunked_ = same_word(value, "chunked");
  } else if (same_word(name, "connection")) {
    keeps_alive_ = !same_word(value, "close");
  } else if (same_word(name, "retry-after")) {
    read_number(value, retry_after_s_);
  }
  return {};
}

void HttpReply::end_headers() {
  if (status_ / 100 == 1) {  // 100 Continue: the answer follows
    state_ = State::status_line;
  } else if (chunked_) {
    state_ = State::chunk_size;
  } else if (counted_) {
    state_ = left_ > 0 ? State::counted : State::done;
  } else {
    keeps_alive_ = false;
    state_ = State::unbounded;
  }
}

Status HttpReply::take_chunk_size(std::string_view line) {
  if (!read_number(line.substr(0, line.find(';')), left_, 16)) {
    return failure("not the size of a chunk: {}", in_quotes(line));
  }
  state_ = left_ > 0 ? State::chunk : State::trailers;
  return {};
}

void EventLines::feed(std::string_view bytes,
                      const std::function<void(std::string_view)>& on_data) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    line_.append(bytes.substr(0, end));
    if (end == bytes.npos) return;
    bytes.remove_prefix(end + 1);
    const std::string_view line = line_;
    if (line.starts_with("data:")) on_data(trim(line.substr(5)));
    line_.clear();
  }
}

}  // namespace quern
