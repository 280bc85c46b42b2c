// Measures the machine without the service.
#include "tests/bench/service/sharing_base.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/bench/load.h"
#include "tests/bench/samples.h"
#include "tests/support/sim_run.h"

#define NULL_CALLS 1000000
#define MAX_RUNS   200000u

struct sleeper {
    pthread_t thread;
    uint64_t sleep_us, end_us, n;
};

static void *sleep_again_and_again(void *argument)
{
    struct sleeper *s = argument;
    prctl(PR_SET_TIMERSLACK, 1);
    for (uint64_t now = clock_us(); now < s->end_us; s->n++, now = clock_us())
        clock_wait_until(now + s->sleep_us);
    return NULL;
}

double sharing_sleepers_rate(unsigned n, double us, double seconds)
{
    struct sleeper *all = calloc(n, sizeof *all);
    uint64_t start = clock_us(), total = 0;
    if (!all)
        load_fail("out of memory");
    for (unsigned i = 0; i < n; i++) {
        all[i] =
            (struct sleeper){.sleep_us = (uint64_t)us, .end_us = start + (uint64_t)(seconds * 1e6)};
        if (pthread_create(&all[i].thread, NULL, sleep_again_and_again, &all[i]))
            load_fail("cannot start a thread");
    }
    for (unsigned i = 0; i < n; i++) {
        pthread_join(all[i].thread, NULL);
        total += all[i].n;
    }
    free(all);
    return (double)total * 1e6 / (double)(clock_us() - start);
}

double sharing_null_call_us(void)
{
    uint64_t start = clock_us();
    for (int i = 0; i < NULL_CALLS; i++)
        syscall(SYS_getppid);
    return (double)(clock_us() - start) / NULL_CALLS;
}

static double cpu_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

// Of models with one input and one output.
struct sharing_run sharing_direct_run(const char *model, double seconds)
{
    struct sim_run s;
    struct error e;
    if (sim_run_init(&s, model, &e) < 0)
        load_fail("%s", e.text);
    double *us = malloc(MAX_RUNS * sizeof *us);
    struct npu_input in = {.size = s.info->inputs[0].logical.size, .converted = true};
    struct npu_output out = {.size = s.info->outputs[0].logical.size};
    in.data = calloc(1, in.size);
    out.data = malloc(out.size);
    if (!us || !in.data || !out.data || sim_run_once(&s, &in, &out, &e) < 0)
        load_fail("%s: the model does not run", model);
    unsigned n = 0;
    double cpu = cpu_us();
    for (uint64_t now = clock_us(), end = now + (uint64_t)(seconds * 1e6);
         now < end && n < MAX_RUNS;) {
        sim_run_once(&s, &in, &out, &e);
        uint64_t after = clock_us();
        us[n++] = (double)(after - now);
        now = after;
    }
    struct sharing_run r = {.us = samples_median(us, n), .cpu_us = (cpu_us() - cpu) / n};
    free((void *)(uintptr_t)in.data);
    free(out.data);
    free(us);
    sim_run_done(&s);
    return r;
}
