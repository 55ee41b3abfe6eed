// Every codec in both layouts, as the parameter of a test.
#pragma once

#include <gtest/gtest.h>

#include "kv/cache.h"
#include "kv/every_codec.h"
#include "kv/form.h"
#include "kv/naive_row.h"

namespace quern::test {

struct CacheCase {
  static constexpr Shape kShape{4, 2, 64};
  static constexpr int kWindow = 40;  // a ring has 64 + 256 slots of its own

  KvCodec codec;
  int window;  // 0 = append

  KvForm form() const { return {codec, kShape.kv_heads, kShape.head_dim}; }
  KvShape shape() const { return {codec, kShape.kv_heads, kShape.head_dim}; }
  Layout layout() const {
    return window > 0 ? Layout::ring(window) : Layout::append();
  }
  Cache cache() const { return Cache(shape(), layout()); }
};

inline std::vector<CacheCase> all_cases() {
  std::vector<CacheCase> cases;
  for (const KvCodec& codec : every_codec()) {
    for (int window : {0, CacheCase::kWindow}) cases.push_back({codec, window});
  }
  return cases;
}

inline std::string case_name(const testing::TestParamInfo<CacheCase>& info) {
  return as_name(info.param.cache().signature());
}

}  // namespace quern::test
