#include "ops/kernels.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <iterator>
#include <string_view>

#include "base/error.h"

namespace quern {

#if defined(__x86_64__)
namespace amx {
const Kernels& table();
}
namespace avx512 {
const Kernels& table();
}
namespace avx_vnni {
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

#if defined(__x86_64__)
bool has_avx_vnni() {
  unsigned a, b, c, d;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1);
}
bool has_amx_int8() {
  unsigned a, b, c, d;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 24 & 3) == 3;
}

// The kernel keeps tile registers only for a process that asked it to.
bool ask_for_tiles() {
  constexpr int kAsk = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM
  return ::syscall(SYS_arch_prctl, kAsk, kTileData) == 0;
}
#endif

const Kernels& table_of(Isa isa) {
  switch (isa) {
#if defined(__x86_64__)
    case Isa::amx: return amx::table();
    case Isa::avx512: return avx512::table();
    case Isa::avx_vnni: return avx_vnni::table();
    case Isa::avx2: return avx2::table();
#elif defined(__aarch64__)
    case Isa::neon: return neon::table();
#endif
    default: return portable::table();
  }
}

Isa wanted_isa() {
  if (const char* name = std::getenv("QUERN_ISA"); name && *name) {
    for (Isa isa : kIsas) {
      if (std::string_view(isa_name(isa)) != name) continue;
      if (isa_available(isa)) return isa;
      fail("QUERN_ISA={}: it is not available here", name);
    }
    fail("QUERN_ISA={}: expected amx, avx512, avx_vnni, avx2, neon or portable",
         name);
  }
  return *std::find_if(std::begin(kIsas), std::end(kIsas), isa_available);
}

std::atomic<const Kernels*>& in_use() {
  static std::atomic<const Kernels*> table{&table_of(wanted_isa())};
  return table;
}

}  // namespace

const char* isa_name(Isa isa) {
  switch (isa) {
    case Isa::portable: return "portable";
    case Isa::neon: return "neon";
    case Isa::avx2: return "avx2";
    case Isa::avx_vnni: return "avx_vnni";
    case Isa::avx512: return "avx512";
    case Isa::amx: return "amx";
  }
  fail("[ops.isa_name] no instruction set {}", int(isa));
}

bool isa_available(Isa isa) {
  switch (isa) {
    case Isa::portable: return true;
#if defined(__x86_64__)
    case Isa::avx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
             __builtin_cpu_supports("f16c");
    case Isa::avx_vnni: return isa_available(Isa::avx2) && has_avx_vnni();
    case Isa::avx512:
      return isa_available(Isa::avx2) && __builtin_cpu_supports("avx512f") &&
             __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512vl") &&
             __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512vnni");
    case Isa::amx: {
      static const bool granted =
          isa_available(Isa::avx512) && has_amx_int8() && ask_for_tiles();
      return granted;
    }
#elif defined(__aarch64__)
    case Isa::neon: return true;
#endif
    default: return false;
  }
}

void use_isa(Isa isa) {
  if (!isa_available(isa)) {
    fail("[ops.use_isa] this CPU lacks {}", isa_name(isa));
  }
  in_use() = &table_of(isa);
}

const Kernels& kernels() { return *in_use().load(std::memory_order_relaxed); }

}  // namespace quern
