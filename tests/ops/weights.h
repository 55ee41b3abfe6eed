// Random weights in every tile format, and f64 models of products with them.
#pragma once

#include <vector>

#include "ops/qmm/qmm.h"

namespace quern::test {

// Every format the loaders make: dense, MLX's pairs, GGUF's types.
std::vector<qmm::Format> all_formats();
// Smaller than that: each kernel once.
std::vector<qmm::Format> main_formats();

// Of random codes and scales, with whatever in the padding.
Weight random_weight(const qmm::Format& format, int n, int k, int seed);

// k that suit a format: the least, and a larger one.
std::vector<int> sizes_of_k(const qmm::Format& format);

// x . w^T of one row in f64, for w [n, k] as dequantised.
std::vector<double> product(const float* x, const std::vector<float>& w, int n,
                            int k);

// x as fast mode sees it: int8 in groups of 32 with scale max / 127, rounded
// to nearest even.
std::vector<float> rounded_to_int8(const float* x, int k);

// sum |x| max |w| of each column: what errors are measured against.
std::vector<double> magnitudes(const float* x, const std::vector<float>& w,
                               int n, int k);

}  // namespace quern::test
