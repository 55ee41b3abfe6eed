#include "quant/kv_codec.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error_of.h"

namespace quern {
namespace {

using qmm::Number;
using test::error_of;

TEST(KvCodec, Schemes) {
  EXPECT_EQ(parse_kv_codec("raw"), raw_kv());
  EXPECT_EQ(parse_kv_codec("off"), raw_kv());
  EXPECT_EQ(parse_kv_codec("4"), affine_kv(4));
  EXPECT_EQ(parse_kv_codec("8"), affine_kv(8, 64, Number::f16));
  EXPECT_EQ(parse_kv_codec("turbo"), turbo_kv(8, 3));
  EXPECT_EQ(parse_kv_codec("turbo:k5v4"), turbo_kv(5, 4));
}

TEST(KvCodec, NamesAndSignaturesTellThemApart) {
  EXPECT_EQ(raw_kv().name(), "raw");
  EXPECT_EQ(affine_kv(4, 32).name(), "4");
  EXPECT_EQ(turbo_kv().name(), "turbo-k8v3");
  EXPECT_EQ(raw_kv(Number::bf16).signature(), "plain/bf16");
  EXPECT_EQ(affine_kv(8, 32).signature(), "quant:8:32/f16");
  EXPECT_EQ(turbo_kv(4, 2).signature(), "turboquant:4:2");
  std::set<std::string> signatures;
  size_t count = 0;
  auto add = [&](const KvCodec& codec) {
    signatures.insert(codec.signature());
    count++;
  };
  for (Number number : {Number::f32, Number::f16, Number::bf16}) {
    add(raw_kv(number));
    for (int bits : {4, 8}) {
      for (int group : {32, 64}) add(affine_kv(bits, group, number));
    }
  }
  for (int k : {2, 4, 5, 8}) {
    for (int v : {2, 3, 4, 5, 8}) {
      add(turbo_kv(k, v));
      EXPECT_EQ(parse_kv_codec(turbo_kv(k, v).name()), turbo_kv(k, v));
    }
  }
  EXPECT_EQ(signatures.size(), count);
}

TEST(KvCodec, BytesPerToken) {
  const std::pair<KvCodec, size_t> at_128[] = {
      {raw_kv(), 512},       {raw_kv(Number::f32), 1024},
      {turbo_kv(8, 3), 200}, {turbo_kv(8, 4), 216},
      {turbo_kv(5, 3), 152}, {turbo_kv(4, 3), 136},
      {turbo_kv(2, 3), 104}, {turbo_kv(8, 8), 280},
      {turbo_kv(4, 4), 152}, {affine_kv(8), 272},
      {affine_kv(4), 144},   {affine_kv(4, 32), 160},
  };
  for (const auto& [codec, bytes] : at_128) {
    EXPECT_EQ(codec.bytes_per_token(128), bytes) << codec.signature();
    for (int D : {64, 256, 512}) {
      EXPECT_EQ(codec.bytes_per_token(D), bytes * D / 128);
    }
  }
}

TEST(KvCodec, HeadDims) {
  for (int D : {64, 128, 256, 512}) {
    for (const KvCodec& codec : {raw_kv(), affine_kv(8), turbo_kv()}) {
      EXPECT_TRUE(codec.supports(D));
    }
  }
  EXPECT_TRUE(raw_kv().supports(80));
  EXPECT_FALSE(raw_kv().supports(0));
  EXPECT_TRUE(affine_kv(4, 32).supports(96));
  EXPECT_FALSE(affine_kv(4, 64).supports(96));
  EXPECT_FALSE(turbo_kv().supports(96));
  EXPECT_EQ(error_of([] { turbo_kv().require(96); }),
            "[kv_codec] turbo-k8v3 takes head dims 64, 128, 256 and 512, not "
            "96");
  EXPECT_EQ(error_of([] { affine_kv(8).require(80); }),
            "[kv_codec] 8 takes head dims up to 512 that are multiples of its "
            "group, not "
            "80");
  EXPECT_EQ(error_of([] { turbo_kv().require(64); }), "");
}

TEST(KvScheme, ALayersOwnCodecComesFirst) {
  KvScheme kv(turbo_kv(), raw_kv());
  EXPECT_EQ(kv.name(), "turbo-k8v3");
  kv.layers = {{1, affine_kv(4)}, {2, raw_kv()}};
  EXPECT_EQ(kv.name(), "config");
  EXPECT_EQ(kv.codec(0, false), turbo_kv());
  EXPECT_EQ(kv.codec(0, true), raw_kv());
  for (bool is_ring : {false, true}) {
    EXPECT_EQ(kv.codec(1, is_ring), affine_kv(4));
    EXPECT_EQ(kv.codec(2, is_ring), raw_kv());
  }
  const KvScheme exact = kv.with(Number::f32);
  EXPECT_EQ(exact.codec(0, false), turbo_kv());
  EXPECT_EQ(exact.codec(0, true), raw_kv(Number::f32));
  EXPECT_EQ(exact.codec(1, false), affine_kv(4));
  EXPECT_EQ(exact.codec(2, false), raw_kv(Number::f32));
}

TEST(KvCodec, ErrorsSayWhatIsAllowed) {
  for (const char* scheme :
       {"", "16", "RAW", "turbo:", "turbo:k8", "turbo:v3k8", "turbo:k8v3x",
        "turbo:k08v3", "turbo:k8v33", "turbo k8v3", "turbo-", "kv8"}) {
    EXPECT_EQ(error_of([&] { parse_kv_codec(scheme); }),
              "[kv_codec] no KV scheme '" + std::string(scheme) +
                  "': expected one of raw, 4, 8, turbo[:k#v#]");
  }
  EXPECT_EQ(error_of([] { parse_kv_codec("turbo:k3v3"); }),
            "[kv_codec] turbo keys have 2, 4, 5 or 8 bits, not 3");
  EXPECT_EQ(error_of([] { parse_kv_codec("turbo:k8v6"); }),
            "[kv_codec] turbo values have 2, 3, 4, 5 or 8 bits, not 6");
  EXPECT_EQ(error_of([] { affine_kv(5, 64); }),
            "[kv_codec] affine codes have 4 or 8 bits in groups of 32 or 64, "
            "not 5 in groups of 64");
  EXPECT_EQ(error_of([] { affine_kv(4, 128); }),
            "[kv_codec] affine codes have 4 or 8 bits in groups of 32 or 64, "
            "not 4 in groups of 128");
}

}  // namespace
}  // namespace quern
