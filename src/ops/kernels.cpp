#include "ops/kernels.h"

#include <atomic>
#include <cstdlib>
#include <string_view>

#include "base/error.h"

namespace quern {

#if defined(__x86_64__)
namespace avx512 {
const Kernels& table();
}
namespace avx2 {
const Kernels& table();
}
#elif defined(__aarch64__)
namespace neon {
const Kernels& table();
}
#endif
namespace portable {
const Kernels& table();
}

namespace {

constexpr std::string_view kNames[] = {"portable", "neon", "avx2", "avx512"};

const Kernels& table_of(Isa isa) {
  switch (isa) {
#if defined(__x86_64__)
    case Isa::avx512: return avx512::table();
    case Isa::avx2: return avx2::table();
#elif defined(__aarch64__)
    case Isa::neon: return neon::table();
#endif
    default: return portable::table();
  }
}

Isa wanted_isa() {
  if (const char* name = std::getenv("QUERN_ISA"); name && *name) {
    for (int i = 0; i < 4; i++) {
      if (kNames[i] != name) continue;
      if (isa_available(Isa(i))) return Isa(i);
      fail("QUERN_ISA={}: this CPU does not have it", name);
    }
    fail("QUERN_ISA={}: expected avx512, avx2, neon or portable", name);
  }
  for (Isa isa : {Isa::avx512, Isa::avx2, Isa::neon}) {
    if (isa_available(isa)) return isa;
  }
  return Isa::portable;
}

std::atomic<const Kernels*>& in_use() {
  static std::atomic<const Kernels*> table{&table_of(wanted_isa())};
  return table;
}

}  // namespace

bool isa_available(Isa isa) {
  switch (isa) {
    case Isa::portable: return true;
#if defined(__x86_64__)
    case Isa::avx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
             __builtin_cpu_supports("f16c");
    case Isa::avx512:
      return isa_available(Isa::avx2) && __builtin_cpu_supports("avx512f") &&
             __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512vl") &&
             __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512vnni");
#elif defined(__aarch64__)
    case Isa::neon: return true;
#endif
    default: return false;
  }
}

void use_isa(Isa isa) {
  if (!isa_available(isa)) {
    fail("[ops.use_isa] this CPU lacks {}", kNames[int(isa)]);
  }
  in_use() = &table_of(isa);
}

const Kernels& kernels() { return *in_use().load(std::memory_order_relaxed); }

}  // namespace quern
