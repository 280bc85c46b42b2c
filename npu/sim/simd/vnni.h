// The multiplication of bytes that AVX512-VNNI has, for functions that run where dnn_has_vnni().
#pragma once

#ifdef __x86_64__
#include <immintrin.h>

#define VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))

// UBSan's checks of all that is unrolled take compilers minutes; ASan's are there.
#define VNNI_INLINE VNNI static inline __attribute__((always_inline, no_sanitize("undefined")))

/// Adds to each of 16 sums four products, of bytes without and with sign. (The compiler's own
/// function for it makes gcc copy sums to memory and back each time.)
VNNI_INLINE void vnni_add_products(__m512i *sums, __m512i positive, __m512i any)
{
    __asm__("vpdpbusd %2, %1, %0" : "+v"(*sums) : "v"(positive), "v"(any));
}
#endif
