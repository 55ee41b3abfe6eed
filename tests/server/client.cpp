#include "server/client.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace quern::test {
namespace {

int connect_to(const sockaddr* address, socklen_t size) {
  const int fd = ::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::connect(fd, address, size) != 0) {
    ::close(fd);
    fail("[tests.Client] cannot connect: {}", std::strerror(errno));
  }
  return fd;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), ::tolower);
  return text;
}

}  // namespace

Client::Client(int port) {
  sockaddr_in address = {.sin_family = AF_INET,
                         .sin_port = htons(uint16_t(port)),
                         .sin_addr = {htonl(INADDR_LOOPBACK)}};
  fd_ = connect_to(reinterpret_cast<sockaddr*>(&address), sizeof address);
}

Client::Client(const Path& socket) {
  sockaddr_un address = {.sun_family = AF_UNIX};
  socket.string().copy(address.sun_path, sizeof address.sun_path - 1);
  fd_ = connect_to(reinterpret_cast<sockaddr*>(&address), sizeof address);
}

Client::~Client() { close(); }

void Client::send(std::string_view bytes) {
  if (!try_send(bytes)) fail("[tests.Client] cannot send");
}

bool Client::try_send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count <= 0) return false;
    bytes.remove_prefix(size_t(count));
  }
  return true;
}

void Client::end_sending() { ::shutdown(fd_, SHUT_WR); }

void Client::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

void Client::reset() {
  const linger now{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  close();
}

bool Client::fill() {
  pollfd server{.fd = fd_, .events = POLLIN};
  if (::poll(&server, 1, int(kPatience * 1e3)) != 1) {
    fail("[tests.Client] nothing came; so far: {}", read_);
  }
  char bytes[65536];
  const ssize_t count = ::recv(fd_, bytes, sizeof bytes, 0);
  if (count <= 0) return false;
  read_.append(bytes, size_t(count));
  return true;
}

std::string Client::take(size_t count) {
  while (read_.size() < count) {
    if (!fill()) fail("[tests.Client] the server closed after: {}", read_);
  }
  std::string out = read_.substr(0, count);
  read_.erase(0, count);
  return out;
}

std::string Client::read_until(std::string_view mark) {
  while (true) {
    const size_t at = read_.find(mark);
    if (at != read_.npos) return take(at + mark.size());
    if (!fill()) fail("[tests.Client] the server closed after: {}", read_);
  }
}

std::string Client::read_to_end() {
  while (fill()) {
  }
  return std::exchange(read_, {});
}

bool Client::is_closed_within(double seconds) {
  pollfd server{.fd = fd_, .events = POLLIN};
  if (::poll(&server, 1, int(seconds * 1e3)) != 1) return false;
  char byte;
  return ::recv(fd_, &byte, 1, 0) <= 0;
}

HttpAnswer Client::read(bool has_body) {
  const std::string head = read_until("\r\n\r\n");
  HttpAnswer answer;
  answer.status = std::stoi(head.substr(head.find(' ') + 1, 3));
  size_t at = head.find("\r\n") + 2;
  while (at + 2 < head.size()) {
    const size_t end = head.find("\r\n", at), colon = head.find(": ", at);
    answer.headers[lower(head.substr(at, colon - at))] =
        head.substr(colon + 2, end - colon - 2);
    at = end + 2;
  }
  if (!has_body) return answer;
  if (answer.headers.contains("content-length")) {
    answer.body = take(std::stoul(answer.headers["content-length"]));
  } else if (answer.headers.contains("transfer-encoding")) {
    while (true) {
      const size_t size = std::stoul(read_until("\r\n"), nullptr, 16);
      answer.body += take(size);
      if (take(2) != "\r\n") fail("[tests.Client] a chunk without an end");
      if (size == 0) break;
      ++answer.chunks;
    }
  } else if (answer.status >= 200 && answer.status != 204 &&
             answer.status != 304) {
    answer.body = read_to_end();
  }
  return answer;
}

std::string request(std::string_view method, std::string_view path,
                    std::string_view body, std::string_view headers) {
  std::string out =
      fmt::format("{} {} HTTP/1.1\r\nHost: here\r\n{}", method, path, headers);
  if (!body.empty()) {
    out +=
        fmt::format("Content-Type: application/json\r\nContent-Length: {}\r\n",
                    body.size());
  }
  return out + "\r\n" + std::string(body);
}

}  // namespace quern::test
