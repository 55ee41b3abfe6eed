// The block types of GGUF (ggml's): their codes and scales, row by row.
#pragma once

#include <cstdint>

#include "files/tensor.h"
#include "ops/qmm/format.h"

namespace quern {

// The tile format that holds a block type without loss.
qmm::Format format_of(TensorType type);

// The k codes of one row of blocks, one byte each: 0 .. 2^bits - 1.
void block_codes(TensorType type, const uint8_t* blocks, int k, uint8_t* codes);

// Writes the row's scales into the scale part of a tile, at row `row` of 16.
void block_scales(TensorType type, const uint8_t* blocks, int k, int row,
                  uint8_t* scales);

}  // namespace quern
