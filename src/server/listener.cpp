#include "server/listener.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "base/str.h"
#include "server/probe.h"

namespace quern {
namespace {

constexpr int kBacklog = 4096;

// Null, with errno, if it cannot listen there.
std::unique_ptr<ListeningSocket> listen_on(const sockaddr* address,
                                           socklen_t size) {
  const int fd = ::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return nullptr;
  auto listener = std::make_unique<ListeningSocket>(fd, address->sa_family);
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(fd, address, size) != 0 || ::listen(fd, kBacklog) != 0) {
    return nullptr;
  }
  return listener;
}

void set_port(sockaddr* address, int port) {
  if (address->sa_family == AF_INET) {
    reinterpret_cast<sockaddr_in*>(address)->sin_port = htons(uint16_t(port));
  } else {
    reinterpret_cast<sockaddr_in6*>(address)->sin6_port = htons(uint16_t(port));
  }
}

[[noreturn]] void refuse_in_use(const std::string& host, int port) {
  fail("port {} of {} is in use{}", port, host,
       quern_answers(host, port) ? ": a quern answers there" : "");
}

// Also if it is too busy to take a connection.
bool someone_listens(const sockaddr_un& address) {
  const int fd =
      ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const bool refused =
      ::connect(fd, reinterpret_cast<const sockaddr*>(&address),
                sizeof address) != 0 &&
      errno == ECONNREFUSED;
  ::close(fd);
  return !refused;
}

sockaddr_storage address_of(int fd) {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  return address;
}

void remove_stale(const Path& path, const sockaddr_un& address) {
  struct stat found;
  if (::lstat(path.c_str(), &found) != 0) return;
  if (!S_ISSOCK(found.st_mode)) {
    fail("{}: expected a socket or nothing, found a file", path.string());
  }
  if (someone_listens(address)) {
    fail("{} is in use: another program listens there", path.string());
  }
  ::unlink(path.c_str());
}

}  // namespace

ListeningSocket::~ListeningSocket() {
  if (fd_ >= 0) ::close(fd_);
}

int ListeningSocket::port() const {
  const sockaddr_storage address = address_of(fd_);
  return ntohs(address.ss_family == AF_INET
                   ? reinterpret_cast<const sockaddr_in&>(address).sin_port
                   : reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
}

bool ListeningSocket::is_local() const {
  const sockaddr_storage address = address_of(fd_);
  if (family_ == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    return ntohl(v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
  }
  if (family_ == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
  }
  return true;
}

SocketFile::SocketFile(Path path) : path_(std::move(path)) {
  ::lstat(path_.c_str(), &found_);
}

SocketFile::~SocketFile() {
  struct stat now;
  if (::lstat(path_.c_str(), &now) == 0 && now.st_dev == found_.st_dev &&
      now.st_ino == found_.st_ino) {
    ::unlink(path_.c_str());
  }
}

std::vector<ListeningSocket> listen_tcp(const std::string& host, int port) {
  const addrinfo hints{.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM};
  addrinfo* found = nullptr;
  const int fault = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (fault != 0) {
    fail("cannot listen on {}: {}", in_quotes(host), ::gai_strerror(fault));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found,
                                                             ::freeaddrinfo);
  std::vector<ListeningSocket> listeners;
  int error = 0;
  for (; found; found = found->ai_next) {
    set_port(found->ai_addr, port);
    auto listener = listen_on(found->ai_addr, found->ai_addrlen);
    if (listener) {
      port = listener->port();  // the others take the same one
      listeners.push_back(std::move(*listener));
    } else {
      error = errno;
      if (error == EADDRINUSE) refuse_in_use(host, port);
    }
  }
  if (listeners.empty()) {
    fail("cannot listen on {} port {}: {}", in_quotes(host), port,
         std::strerror(error));
  }
  return listeners;
}

ListeningSocket listen_unix(const Path& path) {
  sockaddr_un address = {.sun_family = AF_UNIX};
  const std::string text = path.string();
  if (text.size() >= sizeof address.sun_path) {
    fail("{}: a socket's path has at most {} bytes", text,
         sizeof address.sun_path - 1);
  }
  std::memcpy(address.sun_path, text.data(), text.size());
  remove_stale(path, address);
  const mode_t mask = ::umask(0177);
  auto listener =
      listen_on(reinterpret_cast<sockaddr*>(&address), sizeof address);
  const int error = errno;
  ::umask(mask);
  if (!listener) fail("cannot listen on {}: {}", text, std::strerror(error));
  return std::move(*listener);
}

}  // namespace quern
