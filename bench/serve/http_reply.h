// The answers of an HTTP/1.1 server, read as their bytes come.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace quern {

// One answer: head, then a body by Content-Length, in chunks, or up to the
// connection's end.
class HttpReply {
 public:
  // Takes what was received and appends what it holds of the body to `body`.
  // Fails if the bytes are not an answer, or go on after its end.
  Status feed(std::string_view bytes, std::string& body);
  // The server closed the connection: fails if more should have come.
  Status close();

  bool started() const { return started_; }  // a byte has come
  bool done() const { return state_ == State::done; }
  int status() const { return status_; }  // 0 before the status line
  bool keeps_alive() const { return keeps_alive_; }
  int retry_after_s() const { return retry_after_s_; }  // 0: not said

 private:
  enum class State {
    status_line,
    headers,
    counted,  // body by Content-Length
    chunk_size,
    chunk,
    chunk_end,
    trailers,
    unbounded,  // body up to the end of the connection
    done
  };

  bool in_line() const;
  Status take_line(std::string_view line);
  Status take_status(std::string_view line);
  Status take_header(std::string_view line);
  void end_headers();
  Status take_chunk_size(std::string_view line);

  State state_ = State::status_line;
  std::string line_;   // begun, its end has not come
  uint64_t left_ = 0;  // bytes of the body or of the chunk
  bool started_ = false, chunked_ = false, counted_ = false;
  bool keeps_alive_ = true;
  int status_ = 0;
  int retry_after_s_ = 0;
};

// The `data:` lines of a stream of server-sent events.
class EventLines {
 public:
  // Calls `on_data` with the rest of each `data:` line that `bytes` end.
  void feed(std::string_view bytes,
            const std::function<void(std::string_view)>& on_data);

 private:
  std::string line_;  // begun
};

}  // namespace quern
