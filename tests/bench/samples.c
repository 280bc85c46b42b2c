// Times of something that is done again and again by one thread: of its processor, so that others
// who want it too do not count.
#include "tests/bench/samples.h"

#include <stdlib.h>
#include <time.h>

#define WARM_UP   3
#define LEAST     5
#define MOST      500
#define ENOUGH_NS 1e9
#define IN_VAIN   60    // calls without a shorter time that say that there is none
#define SHORTER   0.998 // times the best one

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

double samples_best_ns(void (*call)(void *arg), void *arg)
{
    double best = 0, start = now_ns();
    int found = 0;
    for (int i = 0; i < WARM_UP; i++)
        call(arg);
    for (int n = 0; n < LEAST || (n < MOST && n - found < IN_VAIN && now_ns() - start < ENOUGH_NS);
         n++) {
        double before = now_ns();
        call(arg);
        double ns = now_ns() - before;
        found = n == 0 || ns < SHORTER * best ? n : found;
        best = n == 0 || ns < best ? ns : best;
    }
    return best;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double samples_median(double *values, unsigned n)
{
    qsort(values, n, sizeof *values, compare);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}
