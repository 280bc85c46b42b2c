// The clock of everything that waits or measures.
#pragma once

#include <errno.h>
#include <stdint.h>
#include <time.h>

#define CLOCK_FOREVER  UINT64_MAX
#define CLOCK_AWAKE_US 50 // a sleep seldom ends later than that after its time

static inline uint64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static inline uint64_t clock_us(void)
{
    return clock_ns() / 1000;
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

/// Sleeps for most of the time and stays awake for the last moment, to end on time.
static inline void clock_wait_until(uint64_t then_us)
{
    if (clock_us() + CLOCK_AWAKE_US < then_us)
        clock_sleep_until(then_us - CLOCK_AWAKE_US);
    while (clock_us() < then_us)
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
