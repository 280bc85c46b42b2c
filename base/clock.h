// The clock of everything that waits.
#pragma once

#include <errno.h>
#include <stdint.h>
#include <time.h>

#define CLOCK_FOREVER UINT64_MAX

static inline uint64_t clock_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static inline uint64_t clock_ms(void)
{
    return clock_us() / 1000;
}

static inline void clock_sleep_until(uint64_t then_us)
{
    struct timespec t = {(time_t)(then_us / 1000000), (long)(then_us % 1000000) * 1000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
        continue;
}

/// Milliseconds for poll(): from `now` to `then`, -1 for CLOCK_FOREVER.
static inline int clock_poll_ms(uint64_t now, uint64_t then)
{
    if (then == CLOCK_FOREVER)
        return -1;
    if (then <= now)
        return 0;
    return then - now > INT32_MAX ? INT32_MAX : (int)(then - now);
}
