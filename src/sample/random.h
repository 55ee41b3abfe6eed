// Counter-based random numbers: a draw is a pure function of seed, position
// and draw index, so a seed gives the same text in any company.
// Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
#pragma once

#include <array>
#include <cstdint>

namespace quern {

// Philox4x32-10: one block of 128 random bits.
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter,
                               std::array<uint32_t, 2> key);

// Uniform in [0, 1) with 53 bits. Draws of one position differ by `index`.
double uniform(uint64_t seed, uint64_t position, uint32_t index);

// A seed for a request that names none: the clock XOR a Weyl counter, so no
// two calls of a process agree. Thread-safe.
uint64_t fresh_seed();

}  // namespace quern
