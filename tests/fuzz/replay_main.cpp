// Runs a fuzz target once on each file of the given folders: its corpus as an
// ordinary test. A missing or empty folder is a failure.
#include <cstdint>
#include <cstdio>
#include <vector>

#include "base/files.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

int replay(const quern::Path& folder) {
  std::error_code error;
  int count = 0;
  for (std::filesystem::directory_iterator it(folder, error), end;
       !error && it != end; it.increment(error)) {
    const auto text = quern::read_text(it->path());
    if (!text) {
      fmt::print(stderr, "{}\n", text.reason());
      return 1;
    }
    // Exactly as many bytes as the input, so that a sanitizer sees the end.
    const std::vector<uint8_t> bytes(text->begin(), text->end());
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
    ++count;
  }
  if (error || count == 0) {
    fmt::print(stderr, "no input in {}\n", folder.string());
    return 1;
  }
  fmt::print("{}: {} inputs\n", folder.string(), count);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: {} FOLDER...\n", argv[0]);
    return 2;
  }
  for (int i = 1; i < argc; ++i) {
    if (replay(argv[i]) != 0) return 1;
  }
  return 0;
}
