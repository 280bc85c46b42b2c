// How vector kernels are compiled.
#pragma once

#include <stdbool.h>

// A function compiled for several instruction sets, the best of which is chosen at load.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__clang__)
#define KERNEL        __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#define KERNEL_AVX512 __attribute__((target("arch=x86-64-v4")))
#else
#define KERNEL
#endif

// Where a kernel is better written in another way for AVX512: KERNEL_AVX512 is defined, and it may
// run.
static inline bool kernel_has_avx512(void)
{
#ifdef KERNEL_AVX512
    return __builtin_cpu_supports("x86-64-v4");
#else
    return false;
#endif
}
