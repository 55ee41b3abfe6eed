#include "base/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace quern {
namespace {

Failure system_failure(const char* verb, const Path& path, int error) {
  return failure("cannot {} {}: {}", verb, path.string(), std::strerror(error));
}

// Closes a descriptor at the end of its scope.
struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

// The rest of what a descriptor gives; `name` is for the reasons.
Result<std::string> read_all(int fd, const Path& name, size_t limit) {
  struct stat info;
  if (::fstat(fd, &info) != 0) return system_failure("read", name, errno);
  if (S_ISDIR(info.st_mode)) {
    return failure("cannot read {}: it is a directory", name.string());
  }
  const size_t size = S_ISREG(info.st_mode) ? info.st_size : 0;
  if (size > limit) {
    return failure("{} has {} bytes, the limit is {}", name.string(), size,
                   limit);
  }
  std::string text;
  text.reserve(size);
  char bytes[1 << 16];
  while (true) {
    const ssize_t count = ::read(fd, bytes, sizeof bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_failure("read", name, errno);
    if (count == 0) return text;
    text.append(bytes, count);
    if (text.size() > limit) {
      return failure("{} has more than {} bytes, the limit", name.string(),
                     limit);
    }
  }
}

Status write_all(int fd, const Path& path, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_failure("write", path, errno);
    bytes.remove_prefix(count);
  }
  return {};
}

// Makes the file `part`, with the mode of the one it is to replace if there is
// one; `name` is for the reasons.
Status write_new(const Path& part, const Path& name, std::string_view bytes,
                 const struct stat* replaced) {
  const Descriptor file{::open(part.c_str(),
                               O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
                               replaced ? 0600 : 0666)};
  if (file.fd < 0) return system_failure("write", name, errno);
  if (replaced && ::fchmod(file.fd, replaced->st_mode & 07777) != 0) {
    return system_failure("write", name, errno);
  }
  return write_all(file.fd, name, bytes);
}

// Where a chain of links leads, whether or not that exists.
Path end_of_links(Path path) {
  std::error_code error;
  while (std::filesystem::is_symlink(path, error)) {
    path = path.parent_path() / std::filesystem::read_symlink(path, error);
  }
  return path;
}

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const Path& path) {
  // O_NONBLOCK: a pipe without a writer opens at once, to be refused.
  const Descriptor file{
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) return system_failure("open", path, errno);
  struct stat info;
  if (::fstat(file.fd, &info) != 0) return system_failure("stat", path, errno);
  if (!S_ISREG(info.st_mode)) {
    return failure("cannot map {}: not a regular file", path.string());
  }
  Bytes bytes;
  if (info.st_size > 0) {
    void* at =
        ::mmap(nullptr, info.st_size, PROT_READ, MAP_PRIVATE, file.fd, 0);
    if (at == MAP_FAILED) return system_failure("map", path, errno);
    bytes = {static_cast<const std::byte*>(at), size_t(info.st_size)};
  }
  return std::shared_ptr<const MappedFile>(new MappedFile(path, bytes));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) {
    ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }
}

void MappedFile::forget(Bytes range) const {
  const auto page = uintptr_t(::sysconf(_SC_PAGESIZE));
  auto begin = (uintptr_t(range.data()) + page - 1) / page * page;
  auto end = (uintptr_t(range.data()) + range.size()) / page * page;
  if (begin < end) {
    ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  }
}

Result<std::string> read_text(const Path& path, size_t limit) {
  // O_NONBLOCK: a pipe without a writer opens at once, to be refused.
  const Descriptor file{
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) return system_failure("open", path, errno);
  struct stat info;
  if (::fstat(file.fd, &info) != 0) return system_failure("stat", path, errno);
  if (!S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) {
    return failure("cannot read {}: not a regular file", path.string());
  }
  return read_all(file.fd, path, limit);
}

Result<std::string> read_input(const Path& path, size_t limit) {
  if (path == "-") return read_all(STDIN_FILENO, "stdin", limit);
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) return system_failure("open", path, errno);
  return read_all(file.fd, path, limit);
}

Status write_file(const Path& path, std::string_view bytes) {
  struct stat info;
  const bool exists = ::stat(path.c_str(), &info) == 0;
  if (!exists && errno != ENOENT) return system_failure("write", path, errno);
  if (exists && !S_ISREG(info.st_mode)) {
    const Descriptor file{::open(path.c_str(), O_WRONLY | O_CLOEXEC)};
    if (file.fd < 0) return system_failure("write", path, errno);
    return write_all(file.fd, path, bytes);
  }
  if (exists && ::access(path.c_str(), W_OK) != 0) {
    return system_failure("write", path, errno);
  }
  const Path target = end_of_links(path);
  Path part = target;
  part += fmt::format(".{}.part", ::getpid());
  Status status = write_new(part, path, bytes, exists ? &info : nullptr);
  if (status && ::rename(part.c_str(), target.c_str()) != 0) {
    status = system_failure("write", path, errno);
  }
  if (!status) ::unlink(part.c_str());
  return status;
}

}  // namespace quern
