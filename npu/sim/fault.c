// Injects faults.
#include "npu/sim/fault.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#define SLOW_US 100000

void faults_init(struct faults *f, const struct sim_options *options)
{
    f->options = options;
    for (unsigned i = 0; i < SIM_MAX_FAULTS; i++)
        atomic_init(&f->n_jobs[i], 0);
}

// Each worker draws its own numbers, or one that crashed would crash its successor.
static bool fault_happens(double chance)
{
    uint32_t n;
    if (chance <= 0 || getrandom(&n, sizeof n, 0) != sizeof n)
        return false;
    return n < chance * 4294967296.0;
}

static bool fault_applies(struct faults *f, unsigned i)
{
    const struct sim_fault_rule *rule = &f->options->faults[i];
    unsigned long long job = atomic_fetch_add(&f->n_jobs[i], 1) + 1;
    return rule->at_job ? job == rule->at_job : fault_happens(rule->chance);
}

enum sim_fault faults_next(struct faults *f, const char *model)
{
    enum sim_fault ret = FAULT_NONE;
    for (unsigned i = 0; i < f->options->n_faults; i++)
        if (fnmatch(f->options->faults[i].models, model, 0) == 0 && fault_applies(f, i) && !ret)
            ret = f->options->faults[i].kind;
    return ret;
}

int fault_before(enum sim_fault fault, struct error *e)
{
    if (fault == FAULT_CRASH)
        abort();
    while (fault == FAULT_HANG)
        pause();
    if (fault == FAULT_SLOW)
        usleep(SLOW_US);
    if (fault == FAULT_MEMORY)
        return error_set(e, STATUS_MALLOC_FAIL, "no memory for the job (an injected fault)");
    return 0;
}

void fault_after(enum sim_fault fault, const struct npu_output *outputs, uint32_t n_outputs)
{
    for (uint32_t i = 0; i < n_outputs && fault == FAULT_WRONG; i++)
        if (outputs[i].data && outputs[i].size) {
            *(uint8_t *)outputs[i].data ^= 1;
            return;
        }
}
