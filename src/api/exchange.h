// What the server carries: requests as bytes, answers as bytes. No sockets
// here, no JSON there.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engine/engine.h"

namespace quern {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct ApiRequest {
  std::string method;  // "POST"
  std::string path;    // without query; "/v1/models/org%2Fname" decoded
  std::string query;
  std::string content_type;
  std::string body;
  std::string id;  // of the request, for logs
};

// A whole answer.
struct ApiReply {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  Headers headers = {};
};

// An answer under way. Destroying it cancels what is not finished. Its owner
// calls it from one thread at a time.
class Exchange {
 public:
  virtual ~Exchange() = default;

  // Server-sent events, or one body when all is done.
  virtual bool streamed() const = 0;
  // Of an answer in one piece, after take() gave its last part; a stream's are
  // 200 and none.
  virtual int status() const = 0;
  virtual Headers headers() const = 0;

  struct Part {
    std::string bytes;
    bool last = false;
  };
  // What there is by now, perhaps nothing. Never blocks.
  virtual Part take() = 0;
  // Bytes that keep a silent stream open: a comment with the progress of the
  // prompt.
  virtual std::string keepalive() const = 0;
  // `ready` is called, from any thread, when take() has more to give. It must
  // not block and not call back. Set once, before the first take(). The last
  // call may still be under way when the exchange is gone.
  virtual void on_ready(std::function<void()> ready) = 0;
  // How each of its requests ended, after the last part.
  virtual std::vector<Ending> endings() const = 0;
};

using ApiOutcome = std::variant<ApiReply, std::unique_ptr<Exchange>>;

}  // namespace quern
