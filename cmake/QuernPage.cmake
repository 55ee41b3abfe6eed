# Writes a C++ file that holds the files of the page (server/page.h).
# cmake -DOUTPUT=page_files.cpp "-DFILES=a.html;b.js" -P QuernPage.cmake

function(content_type file out)
  set(html "text/html; charset=utf-8")
  set(js "text/javascript; charset=utf-8")
  set(css "text/css; charset=utf-8")
  set(svg "image/svg+xml")
  cmake_path(GET file EXTENSION LAST_ONLY extension)
  string(SUBSTRING ${extension} 1 -1 extension)
  if(NOT DEFINED ${extension})
    message(FATAL_ERROR "${file}: its content type is not in QuernPage.cmake")
  endif()
  set(${out} ${${extension}} PARENT_SCOPE)
endfunction()

set(arrays "")
set(rows "")
foreach(file ${FILES})
  cmake_path(GET file FILENAME name)
  string(MAKE_C_IDENTIFIER ${name} symbol)
  content_type(${file} type)
  file(SHA256 ${file} hash)
  string(SUBSTRING ${hash} 0 16 hash)
  file(READ ${file} hex HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
  string(APPEND arrays
         "constexpr unsigned char k_${symbol}[] = {${bytes}0};\n")
  string(APPEND rows "    {\"/${name}\", \"${type}\", \"\\\"${hash}\\\"\",\n"
                     "     text(k_${symbol}, sizeof k_${symbol} - 1)},\n")
endforeach()

file(WRITE ${OUTPUT} "#include \"server/page.h\"

namespace quern {
namespace {

${arrays}
std::string_view text(const unsigned char* bytes, size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

}  // namespace

std::span<const PageFile> page_files() {
  static const PageFile files[] = {
${rows}  };
  return files;
}

}  // namespace quern
")
