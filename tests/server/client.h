// A client that sends and reads raw bytes, one at a time where a test wants
// that. Everything that waits gives up after kPatience and throws.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/files.h"

namespace quern::test {

// An answer, taken apart by hand: what the server means to have sent.
struct HttpAnswer {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // without its chunks' frames
  int chunks = 0;
};

class Client {
 public:
  explicit Client(int port);  // of 127.0.0.1
  explicit Client(const Path& socket);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void send(std::string_view bytes);
  // Whether the server took all of it: it may close before that.
  bool try_send(std::string_view bytes);
  void end_sending();
  void close();
  void reset();  // closes with a RST

  // The next answer; `has_body`: not of a HEAD.
  HttpAnswer read(bool has_body = true);
  // The next `count` bytes.
  std::string take(size_t count);
  // What comes up to `mark` and with it.
  std::string read_until(std::string_view mark);
  std::string read_to_end();
  bool is_closed_within(double seconds);  // nothing may come before that

  static constexpr double kPatience = 30;

 private:
  bool fill();  // false: the end

  int fd_ = -1;
  std::string read_;
};

// "METHOD path HTTP/1.1" with headers ("A: b\r\n...") and a JSON body.
std::string request(std::string_view method, std::string_view path,
                    std::string_view body = {}, std::string_view headers = {});

}  // namespace quern::test
