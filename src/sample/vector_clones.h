// QUERN_VECTOR_CLONES before a function compiles its loops once for each x86
// vector width; the program picks one when it is loaded. Contraction is off, so
// each gives the same bits. Elsewhere, and under sanitizers (which start after
// the pick), it is the compiler's baseline.
#pragma once

#if defined(__x86_64__) && defined(__linux__) && defined(__OPTIMIZE__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) &&    \
    !defined(__clang__)
#define QUERN_VECTOR_CLONES \
  __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define QUERN_VECTOR_CLONES
#endif
