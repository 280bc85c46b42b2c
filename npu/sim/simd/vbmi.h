// Functions with AVX512-VBMI, which looks up 64 bytes in 64 or 128 by one instruction. VBMI is not
// defined where there is no such CPU; kernel_has_vbmi() says whether they may run.
#pragma once

#include "npu/sim/simd/kernel.h"

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#include <immintrin.h>

#define VBMI        __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")))
#define VBMI_INLINE VBMI static inline __attribute__((always_inline, no_sanitize("undefined")))
#endif
