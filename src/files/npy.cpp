#include "files/npy.h"

#include <fmt/ranges.h>

#include <bit>

#include "files/tensor.h"

namespace quern {
namespace {

// Magic, version, header length, and a Python dict padded so that the data
// starts at a multiple of 64 (numpy.lib.format).
std::string npy_header(const std::vector<int64_t>& shape) {
  std::string dict = fmt::format(
      "{{'descr': '<f4', 'fortran_order': False, 'shape': ({}{}), }}",
      fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  const size_t prefix = 10;
  dict.append(63 - (prefix + dict.size()) % 64, ' ');
  dict += '\n';
  std::string out("\x93NUMPY\x01\x00", 8);
  out += char(dict.size() & 0xFF);
  out += char(dict.size() >> 8);
  return out + dict;
}

}  // namespace

Status write_npy(const Path& path, std::span<const float> values,
                 const std::vector<int64_t>& shape) {
  static_assert(std::endian::native == std::endian::little);
  const auto bytes = tensor_bytes(TensorType::F32, shape);
  if (!bytes || *bytes != values.size_bytes()) {
    fail("[files.write_npy] {} values do not fill the shape {}", values.size(),
         shape);
  }
  std::string out = npy_header(shape);
  out.append(reinterpret_cast<const char*>(values.data()), *bytes);
  return write_file(path, out);
}

}  // namespace quern
