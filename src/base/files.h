// The door to the file system.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "base/error.h"

namespace quern {

using Path = std::filesystem::path;
using Bytes = std::span<const std::byte>;

// A file mapped for reading; unmapped with the last owner. The bytes are
// read as they are on disk: validate before use.
class MappedFile {
 public:
  static Result<std::shared_ptr<const MappedFile>> open(const Path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const Path& path() const { return path_; }
  Bytes bytes() const { return bytes_; }

  // Tells the system that a range (a part of bytes()) was copied elsewhere, so
  // that its resident pages may go. The range stays readable.
  void forget(Bytes range) const;

 private:
  MappedFile(Path path, Bytes bytes) : path_(std::move(path)), bytes_(bytes) {}

  Path path_;
  Bytes bytes_;
};

inline constexpr size_t kTextLimit = 256u << 20;

// The whole of a regular file as text; refuses more than `limit` bytes.
Result<std::string> read_text(const Path& path, size_t limit = kTextLimit);

// The same for an input that a user names, which may be a pipe or a device as
// well; "-" is stdin.
Result<std::string> read_input(const Path& path, size_t limit = kTextLimit);

// Replaces the file in one step (temporary file beside it, then rename). Links
// are followed and an existing file's mode is kept; a pipe or a device stays
// what it is and is written to.
Status write_file(const Path& path, std::string_view bytes);

}  // namespace quern
