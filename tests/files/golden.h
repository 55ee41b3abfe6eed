// Compares what our readers give with what the reference libraries gave.
#pragma once

#include "base/json.h"
#include "files/gguf.h"
#include "files/tensor.h"

namespace quern::test {

Path golden_path(const std::string& name);
Json golden_json(const std::string& name);

// Each list entry has name, type, shape, bytes, and head and tail: the first
// and last 8 bytes in hexadecimal.
void expect_tensors(const TensorSet& tensors, const Json& golden);

// Each entry is [type, value], or for an array
// ["ARRAY", element type, count, first three, last].
void expect_metadata(const Gguf& file, const Json& golden);

}  // namespace quern::test
