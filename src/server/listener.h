// Addresses that the server listens on.
#pragma once

#include <sys/stat.h>

#include <string>
#include <utility>
#include <vector>

#include "base/files.h"

namespace quern {

// A listening socket; closed with its owner.
class ListeningSocket {
 public:
  ListeningSocket(int fd, int family) : fd_(fd), family_(family) {}
  ~ListeningSocket();
  ListeningSocket(ListeningSocket&& other) noexcept
      : fd_(other.release()), family_(other.family_) {}
  ListeningSocket& operator=(ListeningSocket&&) = delete;

  int family() const { return family_; }
  int port() const;       // of TCP
  bool is_local() const;  // only programs of this machine reach it
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_, family_;
};

// The file of a unix socket that listens: removed with its owner, unless
// another has taken its place.
class SocketFile {
 public:
  explicit SocketFile(Path path);
  ~SocketFile();
  SocketFile(const SocketFile&) = delete;
  SocketFile& operator=(const SocketFile&) = delete;

 private:
  const Path path_;
  struct stat found_ = {};
};

// Every address of `host` (a name or an address); at least one. Throws Error
// if none can be had: one that is in use says whether a quern answers there.
std::vector<ListeningSocket> listen_tcp(const std::string& host, int port);

// For this user only. A socket file that nobody listens on any more is
// replaced; throws Error if the path is anything else.
ListeningSocket listen_unix(const Path& path);

}  // namespace quern
