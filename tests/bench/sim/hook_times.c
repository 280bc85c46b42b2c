// The cost of hooks that nobody uses.
#include "tests/bench/sim/hook_times.h"

#include <stdatomic.h>

#include "npu/sim/exec/run.h"
#include "tests/bench/samples.h"

#define N_STEPS 4096
#define ROUNDS  20

static int do_nothing(const struct step *s, struct run *r, struct error *e)
{
    (void)s, (void)r, (void)e;
    return 0;
}

static void run_all(void *run)
{
    run_steps(run, NULL);
}

static void call_all(void *arg)
{
    struct run *r = arg;
    for (uint32_t i = 0; i < r->plan->n_steps; i++)
        if (r->plan->steps[i].op->run(&r->plan->steps[i], r, NULL) < 0)
            return;
}

static double least(double before, double now)
{
    return before == 0 || now < before ? now : before;
}

// As the service runs a job: it may be stopped.
struct hook_times hook_times_measure(void)
{
    static const struct op op = {.run = do_nothing};
    static struct step steps[N_STEPS];
    const struct plan plan = {.n_steps = N_STEPS, .steps = steps};
    atomic_bool stop = false;
    struct run run = {.plan = &plan, .stop = &stop};
    double hooked = 0, bare = 0;
    for (uint32_t i = 0; i < N_STEPS; i++)
        steps[i].op = &op;
    for (int k = 0; k < ROUNDS; k++) {
        hooked = least(hooked, samples_best_ns(run_all, &run));
        bare = least(bare, samples_best_ns(call_all, &run));
    }
    return (struct hook_times){hooked / N_STEPS, bare / N_STEPS};
}
