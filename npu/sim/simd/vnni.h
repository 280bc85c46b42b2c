// AVX512-VNNI's multiplication of bytes, for functions that run where dnn_has_vnni().
//
//   vpdpbusd   sums[lane] += Σ over 4 bytes of the lane: unsigned[byte] * signed[byte]
#pragma once

#ifdef __x86_64__
#include <immintrin.h>

#define VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))

// UBSan's checks of all that is unrolled take compilers minutes; ASan's are there.
#define VNNI_INLINE VNNI static inline __attribute__((always_inline, no_sanitize("undefined")))

/// vpdpbusd: exact, wrapping at 32 bits. In assembly, since gcc copies the sums of the intrinsic to
/// memory and back each time.
VNNI_INLINE void vnni_add_products(__m512i *sums, __m512i positive, __m512i any)
{
    __asm__("vpdpbusd %2, %1, %0" : "+v"(*sums) : "v"(positive), "v"(any));
}
#endif
