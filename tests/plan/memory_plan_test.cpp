#include "plan/memory_plan.h"

#include <gtest/gtest.h>
#include <mlx/mlx.h>

#include "base/temp_dir.h"
#include "engine/tiny_model.h"

namespace quern::test {
namespace {

// Full layers of 100 bytes a token, rings of 50 for the last 512; in steps of
// 256 tokens.
MemoryNeeds needs() {
  return {.weights = 1'000'000,
          .transients = 30'000,
          .reserve = 20'000,
          .row = [](int tokens) {
            const size_t room = (size_t(tokens) + 255) / 256 * 256;
            return 100 * room + 50 * std::min<size_t>(room, 512);
          }};
}

TEST(MemoryPlan, AddsUp) {
  const MemoryPlan plan = plan_memory(needs(), 1'200'000, 1000, 8192);
  EXPECT_TRUE(plan.fits);
  EXPECT_EQ(plan.context_tokens, 1000);
  EXPECT_EQ(plan.kv_bytes, 100u * 1024 + 50 * 512);
  EXPECT_EQ(plan.total_bytes, 1'050'000u + 102'400 + 25'600);
  EXPECT_EQ(plan.total_bytes, plan.weights_bytes + plan.kv_bytes +
                                  plan.transient_bytes + plan.reserve_bytes);
  EXPECT_EQ(plan.reserve_bytes, 20'000u);
  EXPECT_EQ(plan.usable_bytes, 1'200'000u);
  // 150,000 bytes for rows: 1024 tokens take 128,000, 1280 take 153,600.
  EXPECT_EQ(plan.max_safe_context, 1024);
}

TEST(MemoryPlan, TellsWhatDoesNotFit) {
  const MemoryPlan plan = plan_memory(needs(), 1'200'000, 1025, 8192);
  EXPECT_FALSE(plan.fits);
  EXPECT_EQ(plan.max_safe_context, 1024);
  EXPECT_FALSE(plan_memory(needs(), 1'050'000, 1, 8192).fits);
  EXPECT_EQ(plan_memory(needs(), 1'050'000, 1, 8192).max_safe_context, 0);
  EXPECT_EQ(plan_memory(needs(), 1 << 30, 1, 8192).max_safe_context, 8192);
}

// What tests/engine/tiny_model.h has: 4 layers, 2 KV heads of 16 numbers in
// f16, so 128 bytes a token and layer.
TEST(MemoryNeeds, BillsTheTrueBytesOfRows) {
  const auto llama = tiny_model("llama");
  const StepSizes sizes{.chunk = 64, .batch = 2, .scored = 4};
  const auto row = [&](const TextModel& model, int tokens) {
    return memory_needs(model, qmm::Number::f16, sizes).row(tokens);
  };
  // 4 layers, and one that is copied while it grows.
  EXPECT_EQ(row(*llama, 1), 5u * 256 * 128);
  EXPECT_EQ(row(*llama, 256), 5u * 256 * 128);
  EXPECT_EQ(row(*llama, 257), 5u * 512 * 128);
  EXPECT_EQ(row(*llama, 5000), 5u * 5120 * 128);
  // Every second layer slides over 16 tokens: a ring of 64 + 256.
  const auto gemma = tiny_model("gemma3_text");
  EXPECT_EQ(row(*gemma, 5000), (3u * 5120 + 2 * 320) * 128);
}

TEST(MemoryNeeds, CodesAreBilledByTheirFormula) {
  const auto model = tiny_model("gemma3_text", "F32", 64);
  for (const KvCodec& codec : {turbo_kv(8, 3), turbo_kv(2, 2), affine_kv(4)}) {
    const size_t token = 2 * codec.bytes_per_token(64);
    const auto bytes = [&](const KvScheme& kv) {
      return memory_needs(*model, kv, {.chunk = 64, .batch = 2, .scored = 4})
          .row(5000);
    };
    EXPECT_EQ(bytes({codec, codec}), (3u * 5120 + 2 * 320) * token);
    // Raw rings: 2 heads of 64 keys and values of 2 bytes.
    EXPECT_EQ(bytes({codec, raw_kv()}), 3u * 5120 * token + 2 * 320 * 512);
  }
}

// Bytes of a token in 2 heads of 64 keys and values: raw 2 * 128 * 2 = 512;
// 8 bits in groups of 64, 2 * (128 + 4 * 2) = 272; 4 bits in groups of 32,
// 2 * (64 + 8 * 2) = 160; turbo k8v3, 2 * (88 + 6 * 2) = 200.
TEST(MemoryNeeds, LayersAreBilledByTheirOwnCodecs) {
  const auto row = [](const char* type, const KvScheme& kv) {
    const auto model = tiny_model(type, "F32", 64);
    return memory_needs(*model, kv, {.chunk = 64, .batch = 2, .scored = 4})
        .row(5000);
  };
  KvScheme kv;
  kv.layers = {{1, affine_kv(8)}, {2, turbo_kv()}, {3, affine_kv(4, 32)}};
  // The four layers, and the largest while it is copied.
  EXPECT_EQ(row("llama", kv), 5120u * (512 + 272 + 200 + 160 + 512));
  // Layers 0 and 2 are rings of 320 tokens.
  kv.layers = {{0, turbo_kv()}, {1, affine_kv(8)}};
  EXPECT_EQ(row("gemma3_text", kv),
            5120u * (272 + 512 + 512) + 320 * (200 + 512));
}

TEST(MemoryNeeds, ARowNeverHoldsMoreThanItsBill) {
  const KvScheme raw(kv_number(Precision::fast)), turbo(turbo_kv(), raw_kv());
  for (const auto& [type, kv] :
       {std::pair("llama", raw), std::pair("gemma3_text", raw),
        std::pair("gemma3_text", turbo)}) {
    const auto model = tiny_model(type, "F32", 64);
    const auto needs =
        memory_needs(*model, kv, {.chunk = 64, .batch = 2, .scored = 4});
    for (int most : {1, 300, 1300, 7001}) {
      Row row = model->make_row(kv);
      const size_t before = mx::get_active_memory();
      mx::reset_peak_memory();
      // As the engine feeds it: room first, then a step of some tokens.
      for (int tokens = 0; tokens < most;) {
        const int more = std::min(tokens < 700 ? 37 : 1, most - tokens);
        row.make_room(more, most);
        for (int i = 0; i < row.layers(); i++) {
          auto& cache = dynamic_cast<Cache&>(row.layer(i));
          cache.appended(more, cache.planes(), mx::array(true));
        }
        tokens += more;
      }
      EXPECT_LE(row.bytes(), needs.row(most)) << type << ' ' << most;
      EXPECT_LE(mx::get_peak_memory() - before, needs.row(most))
          << type << ' ' << most;
    }
  }
}

class Groups : public testing::Test {
 protected:
  void put(const char* file, const std::string& text) {
    const Path path = dir_.path() / file;
    std::filesystem::create_directories(path.parent_path());
    write_file(path, text).or_throw();
  }
  size_t limit() const { return memory_limit(dir_.path()); }

  TempDir dir_;
};

TEST_F(Groups, TheMachinesMemoryWithoutALimit) {
  put("proc/meminfo",
      "MemTotal:       24000000 kB\nMemFree:         1000000 kB\n");
  EXPECT_EQ(limit(), 24'576'000'000u);
  put("proc/self/cgroup", "0::/\n");
  put("sys/fs/cgroup/memory.max", "max\n");
  EXPECT_EQ(limit(), 24'576'000'000u);
}

TEST_F(Groups, TheLowestLimitOnTheWayUp) {
  put("proc/meminfo", "MemTotal:       24000000 kB\n");
  put("proc/self/cgroup", "1:name=x:/other\n0::/a/b\n");
  put("sys/fs/cgroup/a/memory.max", "3000000000\n");
  put("sys/fs/cgroup/a/b/memory.max", "max\n");
  EXPECT_EQ(limit(), 3'000'000'000u);
  put("sys/fs/cgroup/a/b/memory.max", "2000000000\n");
  EXPECT_EQ(limit(), 2'000'000'000u);
  put("sys/fs/cgroup/memory.max", "1000000000\n");
  EXPECT_EQ(limit(), 1'000'000'000u);
}

TEST_F(Groups, TheFirstVersionsLimit) {
  put("proc/meminfo", "MemTotal:       24000000 kB\n");
  put("proc/self/cgroup", "5:memory:/docker/x\n");
  put("sys/fs/cgroup/memory/memory.limit_in_bytes", "4000000000\n");
  EXPECT_EQ(limit(), 4'000'000'000u);
}

TEST(Budget, IsThreeQuartersOfTheMemory) {
  EXPECT_GT(memory_limit(), size_t(1) << 28);
  EXPECT_EQ(default_budget(), memory_limit() / 4 * 3);
}

}  // namespace
}  // namespace quern::test
