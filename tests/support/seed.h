// The seeds of a randomized test: some that are always the same, or the environment's RKNND_SEED
// alone. What a program that fails was trying is printed when it ends, with the command that
// repeats it.
#pragma once

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t seed_now; // 0: none is being tried

static inline void seed_report(void)
{
    if (seed_now)
        fprintf(stderr, "to repeat: RKNND_SEED=%llu %s\n", (unsigned long long)seed_now,
                program_invocation_name);
}

// Address sanitizers end a program without atexit().
extern void __sanitizer_set_death_callback(void (*)(void)) __attribute__((weak));

static inline uint64_t seed_first(void)
{
    static int registered;
    const char *only = getenv("RKNND_SEED");
    if (!registered++) {
        atexit(seed_report);
        if (__sanitizer_set_death_callback)
            __sanitizer_set_death_callback(seed_report);
    }
    seed_report(); // of an earlier test of this program, which failed
    return only ? strtoull(only, NULL, 10) : 1;
}

/// True if this one is to be tried; afterwards none is.
static inline int seed_try(uint64_t seed, uint64_t n)
{
    const char *only = getenv("RKNND_SEED");
    int go_on = only ? seed == strtoull(only, NULL, 10) : seed <= n;
    seed_now = go_on ? seed : 0;
    return go_on;
}

/// Tries the seeds 1 to n, or RKNND_SEED alone.
#define SEED_EACH(seed, n) for (uint64_t seed = seed_first(); seed_try(seed, n); seed++)

/// Whether all of these are tried: RKNND_SEED alone need not show what they show together.
static inline int seed_tries_all(void)
{
    return !getenv("RKNND_SEED");
}
