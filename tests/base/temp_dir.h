// A place for the files of a test.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include "base/files.h"

namespace quern::test {

// A fresh directory, removed with all that is in it.
class TempDir {
 public:
  TempDir() {
    std::string name =
        (std::filesystem::temp_directory_path() / "quern-XXXXXX").string();
    if (!::mkdtemp(name.data())) fail("[tests.TempDir] cannot make {}", name);
    path_ = name;
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const Path& path() const { return path_; }

  // Writes a file, with its folders.
  Path write(const Path& name, std::string_view bytes) const {
    const Path file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << bytes;
    return file;
  }

 private:
  Path path_;
};

}  // namespace quern::test
