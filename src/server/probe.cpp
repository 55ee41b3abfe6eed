#include "server/probe.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <memory>
#include <string_view>

namespace quern {
namespace {

constexpr std::string_view kQuestion =
    "GET /v1 HTTP/1.1\r\nHost: quern\r\nConnection: close\r\n\r\n";

// The first bytes of the answer, perhaps none.
std::string ask(const addrinfo& address) {
  const int fd = ::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return {};
  const timeval wait{.tv_sec = 2};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
  std::string answer;
  if (::connect(fd, address.ai_addr, address.ai_addrlen) == 0 &&
      ::send(fd, kQuestion.data(), kQuestion.size(), MSG_NOSIGNAL) > 0) {
    answer.resize(4096);
    const ssize_t count = ::recv(fd, answer.data(), answer.size(), 0);
    answer.resize(size_t(count < 0 ? 0 : count));
  }
  ::close(fd);
  return answer;
}

}  // namespace

bool quern_answers(const std::string& host, int port) {
  const addrinfo hints{.ai_socktype = SOCK_STREAM};
  addrinfo* found = nullptr;
  const std::string service = std::to_string(port);
  if (::getaddrinfo(host.c_str(), service.c_str(), &hints, &found) != 0) {
    return false;
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found,
                                                             ::freeaddrinfo);
  return ask(*found).find("\r\nServer: quern\r\n") != std::string::npos;
}

}  // namespace quern
