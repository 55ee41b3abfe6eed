// All codecs that a cache may have, for tests of every one.
#pragma once

#include <cctype>
#include <string>
#include <vector>

#include "quant/kv_codec.h"

namespace quern::test {

inline std::vector<KvCodec> every_codec() {
  using qmm::Number;
  std::vector<KvCodec> codecs;
  for (Number number : {Number::f32, Number::f16, Number::bf16}) {
    codecs.push_back(raw_kv(number));
    for (int bits : {4, 8}) {
      for (int group : {32, 64}) {
        codecs.push_back(affine_kv(bits, group, number));
      }
    }
  }
  for (int keys : {2, 4, 5, 8}) {
    for (int values : {2, 3, 4, 5, 8}) {
      codecs.push_back(turbo_kv(keys, values));
    }
  }
  return codecs;
}

// A signature as a test's name.
inline std::string as_name(std::string signature) {
  for (char& c : signature) c = std::isalnum(c) ? c : '_';
  return signature;
}

}  // namespace quern::test
