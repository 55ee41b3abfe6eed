#include "sample/random.h"

#include <atomic>
#include <chrono>

namespace quern {

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter,
                               std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t a = uint64_t{0xD2511F53} * counter[0];
    uint64_t b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

double uniform(uint64_t seed, uint64_t position, uint32_t index) {
  auto bits =
      philox({static_cast<uint32_t>(position),
              static_cast<uint32_t>(position >> 32), index, 0},
             {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  uint64_t word = uint64_t{bits[1]} << 32 | bits[0];
  return static_cast<double>(word >> 11) * 0x1p-53;
}

uint64_t fresh_seed() {
  static std::atomic<uint64_t> weyl = 0;
  constexpr uint64_t kStep = 0x9E3779B97F4A7C15;
  auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(now.count()) ^
         weyl.fetch_add(kStep, std::memory_order_relaxed);
}

}  // namespace quern
