// The kernels on simd/avx2.h with AVX-VNNI. Compiled with that instruction
// set's flags: nothing from the standard library may be instantiated here.
#include "ops/affine/codec.h"
#include "ops/kernels.h"
#include "ops/simd/avx2.h"
#include "ops/turbo/format.h"

namespace quern::avx_vnni {

// clang-format off
#include "ops/kernels_tiles.inc"
#include "ops/kernels_matmul.inc"
#include "ops/kernels_rows.inc"
#include "ops/kernels_attention.inc"
#include "ops/kernels_kv.inc"
#include "ops/kernels_packed.inc"
#include "ops/kernels_table.inc"
// clang-format on

}  // namespace quern::avx_vnni
