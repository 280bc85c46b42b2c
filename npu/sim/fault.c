// Injects faults into jobs of the software NPU, by the rules in sim_options.h: KIND@N strikes the
// N-th job that a rule sees, KIND%P each job with a chance of P percent. Counters are atomic, as
// contexts run on several threads.
#include "npu/sim/fault.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#define SLOW_US 100000 // added by FAULT_SLOW: long against a small model, short against a watchdog

void faults_init(struct faults *f, const struct sim_options *options)
{
    f->options = options;
    for (unsigned i = 0; i < SIM_MAX_FAULTS; i++)
        atomic_init(&f->n_jobs[i], 0);
}

// From the kernel's random numbers: a seeded generator would start alike in every worker, so that a
// worker that crashed would crash its successor at the same job. Compared with chance * 2^32.
static bool fault_happens(double chance)
{
    uint32_t n;
    if (chance <= 0 || getrandom(&n, sizeof n, 0) != sizeof n)
        return false;
    return n < chance * 4294967296.0;
}

// Counts the job for rule i, also where the outcome is chance.
static bool fault_applies(struct faults *f, unsigned i)
{
    const struct sim_fault_rule *rule = &f->options->faults[i];
    unsigned long long job = atomic_fetch_add(&f->n_jobs[i], 1) + 1;
    return rule->at_job ? job == rule->at_job : fault_happens(rule->chance);
}

// All rules see the job, so that each counts for itself; the first one that strikes wins.
enum sim_fault faults_next(struct faults *f, const char *model)
{
    enum sim_fault ret = FAULT_NONE;
    for (unsigned i = 0; i < f->options->n_faults; i++)
        if (fnmatch(f->options->faults[i].models, model, 0) == 0 && fault_applies(f, i) && !ret)
            ret = f->options->faults[i].kind;
    return ret;
}

// A hang never returns: it is for tests of the watchdog, which kills the worker.
int fault_before(enum sim_fault fault, struct error *e)
{
    if (fault == FAULT_CRASH)
        abort();
    if (fault == FAULT_HANG)
        for (;;)
            pause();
    if (fault == FAULT_SLOW)
        usleep(SLOW_US);
    if (fault == FAULT_MEMORY)
        return error_set(e, STATUS_MALLOC_FAIL, "no memory for the job (an injected fault)");
    return 0;
}

// Flips the lowest bit of the first output: the smallest error that a comparison has to notice.
void fault_after(enum sim_fault fault, const struct npu_output *outputs, uint32_t n_outputs)
{
    for (uint32_t i = 0; i < n_outputs && fault == FAULT_WRONG; i++)
        if (outputs[i].data && outputs[i].size) {
            *(uint8_t *)outputs[i].data ^= 1;
            return;
        }
}
