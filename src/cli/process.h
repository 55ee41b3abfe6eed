// The program's own process.
#pragma once

#include <cstddef>

namespace quern {

// To be called first in main.
void prepare_process();

// The most memory that was resident at once, in bytes; 0 = not known.
size_t peak_resident_bytes();

// Seconds that the calling thread has computed.
double thread_seconds();

}  // namespace quern
