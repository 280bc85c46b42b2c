// Times of something that is done again and again.
#include "tests/bench/samples.h"

#include <stdlib.h>
#include <time.h>

#define WARM_UP   3
#define LEAST     5
#define MOST      200
#define ENOUGH_NS 5e8

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double samples_median_ns(void (*call)(void *arg), void *arg)
{
    double ns[MOST], start = now_ns();
    int n = 0;
    for (int i = 0; i < WARM_UP; i++)
        call(arg);
    while (n < LEAST || (n < MOST && now_ns() - start < ENOUGH_NS)) {
        double before = now_ns();
        call(arg);
        ns[n++] = now_ns() - before;
    }
    qsort(ns, (size_t)n, sizeof *ns, compare);
    return ns[n / 2];
}
