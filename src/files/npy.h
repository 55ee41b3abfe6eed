// NumPy's array file.
#pragma once

#include <span>
#include <vector>

#include "base/files.h"

namespace quern {

// Writes row-major float32 values as a version 1.0 .npy file, replacing it in
// one step. Throws if the shape does not have as many elements as `values`.
Status write_npy(const Path& path, std::span<const float> values,
                 const std::vector<int64_t>& shape);

}  // namespace quern
