#include "server/page.h"

namespace quern {

const PageFile* find_page(std::string_view path) {
  if (path == "/") path = "/index.html";
  for (const PageFile& file : page_files()) {
    if (file.path == path) return &file;
  }
  return nullptr;
}

}  // namespace quern
