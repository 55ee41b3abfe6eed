// The files of web/, which the build puts into the program.
#pragma once

#include <span>
#include <string_view>

namespace quern {

struct PageFile {
  std::string_view path;  // "/index.html"
  std::string_view content_type;
  std::string_view etag;  // of the bytes, in quotes
  std::string_view bytes;
};

std::span<const PageFile> page_files();

// Null if there is no such file; "/" is index.html.
const PageFile* find_page(std::string_view path);

}  // namespace quern
