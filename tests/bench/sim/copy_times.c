// memcpy's times, from sizes that stay in the first cache to those that stay in none.
#include "tests/bench/sim/copy_times.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/samples.h"

#define LEAST     10 // powers of two
#define MOST      26
#define ONE_BATCH ((size_t)1 << 20) // bytes between two looks at the clock

struct batch {
    uint8_t *memory;
    size_t size, times;
};

static void copy(void *arg)
{
    const struct batch *b = arg;
    for (size_t i = 0; i < b->times; i++) {
        memcpy(b->memory, b->memory + b->size, b->size);
        __asm__ volatile("" ::: "memory");
    }
}

// For a byte that is read or written.
static double measure(unsigned power)
{
    struct batch b = {.size = (size_t)1 << power};
    b.times = b.size < ONE_BATCH ? ONE_BATCH / b.size : 1;
    b.memory = malloc(2 * b.size);
    if (!b.memory)
        abort();
    memset(b.memory, 1, 2 * b.size);
    double ns = samples_best_ns(copy, &b);
    free(b.memory);
    return ns / (double)(2 * b.size * b.times);
}

double copy_time_ns(double bytes)
{
    static double known[MOST + 1];
    unsigned power = LEAST;
    while (power < MOST && (double)((size_t)2 << power) < bytes)
        power++;
    if (known[power] == 0)
        known[power] = measure(power);
    return bytes * known[power];
}
