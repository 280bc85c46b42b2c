// A function that is compiled for wider vectors, too. The processor's own is chosen when the
// program is loaded, which is before sanitizers can look on: with these there is the plain one
// alone.
#pragma once

#if defined(__x86_64__) && defined(__OPTIMIZE__) && !defined(__clang__) &&                         \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define FOR_EACH_CPU __attribute__((target_clones("arch=skylake-avx512", "avx2", "default")))
#else
#define FOR_EACH_CPU
#endif
