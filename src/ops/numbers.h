// Single numbers of the stored types.
#pragma once

#include "ops/qmm/format.h"

namespace quern {

const char* number_name(qmm::Number number);  // f32, f16, bf16
float number_at(const void* data, qmm::Number number, int64_t i);
// Rounded to nearest even; NaN of f16 is 0x7e00 and of bf16 0x7fc0 (their sign
// aside).
void set_number(void* data, qmm::Number number, int64_t i, float x);

}  // namespace quern
