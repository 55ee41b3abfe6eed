#include "base/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

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

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const Path& path) {
  Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
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
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return failure("cannot read {}: it is a directory", path.string());
  }
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) return system_failure("open", path, errno);
  const auto size = in.tellg();
  if (size < 0) return failure("cannot read {}: not seekable", path.string());
  if (size_t(size) > limit) {
    return failure("{} has {} bytes, the limit is {}", path.string(),
                   size_t(size), limit);
  }
  std::string text(size_t(size), '\0');
  in.seekg(0);
  if (!in.read(text.data(), size)) return system_failure("read", path, errno);
  return text;
}

Status write_file(const Path& path, std::string_view bytes) {
  Path part = path;
  part += fmt::format(".{}.part", ::getpid());
  {
    std::ofstream out(part, std::ios::binary | std::ios::trunc);
    out.write(bytes.data(), std::streamsize(bytes.size()));
    out.flush();
    if (!out) {
      const int error = errno;
      ::unlink(part.c_str());
      return system_failure("write", path, error);
    }
  }
  if (::rename(part.c_str(), path.c_str()) != 0) {
    const int error = errno;
    ::unlink(part.c_str());
    return system_failure("write", path, error);
  }
  return {};
}

}  // namespace quern
