#include "ops/numbers.h"

#include "ops/simd/portable.h"

namespace quern {

const char* number_name(qmm::Number number) {
  constexpr const char* kNames[] = {"f32", "f16", "bf16"};
  return kNames[int(number)];
}

float number_at(const void* data, qmm::Number number, int64_t i) {
  if (number == qmm::Number::f32) return static_cast<const float*>(data)[i];
  const uint16_t bits = static_cast<const uint16_t*>(data)[i];
  if (number == qmm::Number::f16) return portable::half_to_float(bits);
  return portable::from_bits(uint32_t(bits) << 16);
}

void set_number(void* data, qmm::Number number, int64_t i, float x) {
  if (number == qmm::Number::f32) {
    static_cast<float*>(data)[i] = x;
  } else {
    static_cast<uint16_t*>(data)[i] = number == qmm::Number::f16
                                          ? portable::float_to_half(x)
                                          : portable::float_to_bfloat(x);
  }
}

}  // namespace quern
