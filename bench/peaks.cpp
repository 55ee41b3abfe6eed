#include "peaks.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string_view>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "ops/huge_pages.h"
#include "ops/kernels.h"
#include "ops/thread_pool.h"

namespace quern {
namespace {

constexpr int kPasses = 7;
constexpr int kSums = 12;         // in flight, to cover the latency
constexpr int kRounds = 200'000;  // of kSums operations

// The best of several passes of work(thread) on every thread, as `amount` of
// each a second.
template <class Work>
double rate(double amount, Work work) {
  double best = 0;
  const int threads = thread_pool().threads();
  for (int pass = 0; pass < kPasses; pass++) {
    const auto start = std::chrono::steady_clock::now();
    thread_pool().run(threads, work);
    const std::chrono::duration<double> time =
        std::chrono::steady_clock::now() - start;
    best = std::max(best, amount * threads / time.count());
  }
  return best;
}

#if defined(__x86_64__)
#define QUERN_ROUNDS(instruction)                                     \
  for (int i = 0; i < kRounds; i++) {                                 \
    _Pragma("GCC unroll 16") for (int j = 0; j < kSums; j++) {        \
      asm volatile(instruction : "+x"(sums[j]) : "x"(one), "x"(one)); \
    }                                                                 \
  }

__attribute__((target("avx512f"))) void f32_avx512(int) {
  __m512 sums[kSums] = {}, one = _mm512_set1_ps(1e-9f);
  QUERN_ROUNDS("vfmadd231ps %1, %2, %0")
}
__attribute__((target("avx2,fma"))) void f32_avx2(int) {
  __m256 sums[kSums] = {}, one = _mm256_set1_ps(1e-9f);
  QUERN_ROUNDS("vfmadd231ps %1, %2, %0")
}
__attribute__((target("avx512f,avx512vnni"))) void int8_avx512(int) {
  __m512i sums[kSums] = {}, one = _mm512_set1_epi8(1);
  QUERN_ROUNDS("vpdpbusd %1, %2, %0")
}
__attribute__((target("avx2,avxvnni"))) void int8_avx_vnni(int) {
  __m256i sums[kSums] = {}, one = _mm256_set1_epi8(1);
  QUERN_ROUNDS("%{vex%} vpdpbusd %1, %2, %0")
}
// Pairs of products and their sum, without what brings them to 32 bits.
__attribute__((target("avx2"))) void int8_avx2(int) {
  __m256i sums[kSums] = {}, one = _mm256_set1_epi8(1);
  for (int i = 0; i < kRounds; i++) {
    _Pragma("GCC unroll 16") for (int j = 0; j < kSums / 2; j++) {
      asm volatile("vpmaddubsw %1, %1, %0" : "=x"(sums[j]) : "x"(one));
      asm volatile("vpaddw %1, %2, %0"
                   : "=x"(sums[kSums / 2 + j])
                   : "x"(sums[j]), "x"(one));
    }
  }
}
// Full tiles: 16 rows, 16 columns, 64 k.
__attribute__((target("amx-tile,amx-int8"))) void int8_amx(int) {
  struct alignas(64) {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } c;
  asm volatile("ldtilecfg %0" ::"m"(c));
  for (int i = 0; i < kRounds; i++) {
    asm volatile(
        "tdpbssd %tmm4, %tmm5, %tmm0\n tdpbssd %tmm4, %tmm5, %tmm1\n"
        "tdpbssd %tmm4, %tmm5, %tmm2\n tdpbssd %tmm4, %tmm5, %tmm3");
  }
  asm volatile("tilerelease");
}
#endif

bool uses(Isa isa) { return std::string_view(kernels().name) == isa_name(isa); }

}  // namespace

double read_bandwidth() {
  constexpr size_t kBytes = size_t(256) << 20, kPart = size_t(1) << 20;
  mx::allocator::Data memory = weight_memory(kBytes);
  auto* bytes = static_cast<const char*>(memory.buffer().raw_ptr());
  std::memset(memory.buffer().raw_ptr(), 1, kBytes);
  double best = 0;
  for (int pass = 0; pass < kPasses; pass++) {
    const auto start = std::chrono::steady_clock::now();
    parallel_for(kBytes / kPart, 1, [&](int begin, int end) {
      uint64_t sums[8] = {};
      for (size_t i = begin * kPart; i < end * kPart; i += 64) {
        __builtin_prefetch(bytes + i + 4096);
        uint64_t words[8];
        std::memcpy(words, bytes + i, 64);
        for (int j = 0; j < 8; j++) sums[j] += words[j];
      }
      for (uint64_t& sum : sums) asm volatile("" : "+r"(sum));
    });
    const std::chrono::duration<double> time =
        std::chrono::steady_clock::now() - start;
    best = std::max(best, kBytes / time.count());
  }
  return best;
}

double f32_peak() {
#if defined(__x86_64__)
  constexpr double kEach = double(kRounds) * kSums;
  if (uses(Isa::amx) || uses(Isa::avx512)) return rate(32 * kEach, f32_avx512);
  if (uses(Isa::avx_vnni) || uses(Isa::avx2)) return rate(16 * kEach, f32_avx2);
#endif
  return 0;
}

double int8_peak() {
#if defined(__x86_64__)
  constexpr double kEach = double(kRounds) * kSums;
  if (uses(Isa::amx))
    return rate(4 * 2 * 16 * 16 * 64 * double(kRounds), int8_amx);
  if (uses(Isa::avx512)) return rate(128 * kEach, int8_avx512);
  if (uses(Isa::avx_vnni)) return rate(64 * kEach, int8_avx_vnni);
  if (uses(Isa::avx2)) return rate(32 * kEach, int8_avx2);
#endif
  return 0;
}

}  // namespace quern
