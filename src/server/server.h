// The HTTP server: sockets, HTTP/1.1 and routes. Any request may come, none
// stops it.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "api/service.h"
#include "base/files.h"
#include "server/routes.h"

namespace quern {

struct ServerOptions {
  std::string host = "127.0.0.1";  // a name or an address
  int port = 8080;                 // 0: any free one
  Path unix_socket = {};           // if not empty, in place of host and port
  std::vector<std::string> api_keys = {};  // none: open to all
  std::string cors_origin = "*";           // empty: no CORS headers
  int threads = 2;                         // that read and write
  size_t max_body_bytes = 64u << 20;
  size_t max_header_bytes = 64u << 10;
  int max_connections = 1024;
  double header_timeout_s = 30;  // for a request's head, and for each part of
                                 // a body
  double idle_timeout_s = 120;   // between requests of one connection
  double write_timeout_s = 60;   // a reader that takes next to nothing so long
  double keepalive_s = 5;        // silence of a stream before a comment
};

class Server {
 public:
  // Binds and listens; answers at once. Throws Error if the address cannot be
  // had (in use, not ours). `service` and `routes` must outlive it.
  Server(Service& service, ServerOptions options,
         std::span<const Route> routes = all_routes());
  ~Server();  // as stop(0)

  int port() const;         // bound
  std::string url() const;  // "http://127.0.0.1:8080"
  // Whether only programs of this machine reach it.
  bool is_local() const;

  // Graceful: accepts no connection, closes idle ones, lets answers end for at
  // most `seconds`, then ends them with an error. Returns when all is closed.
  void stop(double seconds);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quern
