// How vector kernels are compiled, and which of them may run: what the CPU has up to AVX512-VNNI,
// unless DNNL_MAX_CPU_ISA, oneDNN's own variable, allows less. So one variable chooses all kernels.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum kernel_level {
    KERNEL_UNKNOWN,
    KERNEL_BASE, // what the compiler takes for granted
    KERNEL_V3,   // x86-64-v3: AVX2, FMA, F16C
    KERNEL_V4,   // x86-64-v4: AVX512 F, BW, CD, DQ, VL
};

/// What kernel_level() gives, once it is known; its own.
extern enum kernel_level kernel_known;

/// Any thread. Reads environment variables, in the first call alone.
enum kernel_level kernel_find_level(void);

static inline enum kernel_level kernel_level(void)
{
    enum kernel_level level = __atomic_load_n(&kernel_known, __ATOMIC_RELAXED);
    return level != KERNEL_UNKNOWN ? level : kernel_find_level();
}

// Defines a static function that is compiled for each level, and called for the one there is:
//   KERNEL(void, NAME, (PARAMETERS), (THEIR NAMES))
//   {
//       …
//   }
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__clang__)
#define KERNEL_AVX2   __attribute__((target("arch=x86-64-v3")))
#define KERNEL_AVX512 __attribute__((target("arch=x86-64-v4")))
#define KERNEL(type, name, parameters, arguments)                                                  \
    static inline __attribute__((always_inline)) type name##_of parameters;                        \
    KERNEL_AVX512 static type name##_v4 parameters                                                 \
    {                                                                                              \
        return name##_of arguments;                                                                \
    }                                                                                              \
    KERNEL_AVX2 static type name##_v3 parameters                                                   \
    {                                                                                              \
        return name##_of arguments;                                                                \
    }                                                                                              \
    static type name##_base parameters                                                             \
    {                                                                                              \
        return name##_of arguments;                                                                \
    }                                                                                              \
    static inline type name parameters                                                             \
    {                                                                                              \
        enum kernel_level level = kernel_level();                                                  \
        return level == KERNEL_V4   ? name##_v4 arguments                                          \
               : level == KERNEL_V3 ? name##_v3 arguments                                          \
                                    : name##_base arguments;                                       \
    }                                                                                              \
    static inline __attribute__((always_inline)) type name##_of parameters
#else
#define KERNEL(type, name, parameters, arguments) static type name parameters
#endif

// Where a kernel is better written in another way for AVX512: KERNEL_AVX512 is defined, and it may
// run.
static inline bool kernel_has_avx512(void)
{
#ifdef KERNEL_AVX512
    return kernel_level() == KERNEL_V4;
#else
    return false;
#endif
}

// The same for AVX2, which every CPU with AVX512 has, too.
static inline bool kernel_has_avx2(void)
{
#ifdef KERNEL_AVX2
    return kernel_level() >= KERNEL_V3;
#else
    return false;
#endif
}

/// AVX512-VBMI, and all that KERNEL_V4 has.
bool kernel_has_vbmi(void);

// x86 takes a hundred times as long for a sum with a denormal float (below 2^-126), and weights
// that training has let die out are full of these. Between these two calls this thread takes them
// for 0, and makes none. Conversions from and to fp16 are not touched. Elsewhere nothing changes.
static inline uint32_t kernel_drop_denormals(void)
{
#ifdef __x86_64__
    const uint32_t flush_to_zero = 0x8000, denormals_are_zero = 0x40;
    uint32_t before = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(before | flush_to_zero | denormals_are_zero);
    return before;
#else
    return 0;
#endif
}

static inline void kernel_keep_denormals(uint32_t before)
{
#ifdef __x86_64__
    __builtin_ia32_ldmxcsr(before);
#else
    (void)before;
#endif
}
