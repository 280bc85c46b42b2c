// A slice is as many layers as fit into npu_slices.us of estimated time, or one that does not; of
// what has no layers, that time.
#include "npu/sim/cost/estimate_pace.h"

#include "npu/pace.h"
#include "npu/slices.h"

// To the end of a slice, when `share` of the job's time is over.
static int pace_slice(struct estimate_pace *p, double share, const struct npu_job *job,
                      struct error *e)
{
    uint64_t end = p->start_us + p->waited_us + (uint64_t)(p->us * share);
    int r = pace_until(job, end, e);
    return r < 0 ? r : npu_slices_pass(job->slices, &p->waited_us, e);
}

static int pace_slices(struct estimate_pace *p, const struct npu_job *job, struct error *e)
{
    double sum = 0, done = 0, begun = 0;
    int r = 0;
    for (size_t i = 0; i < p->n_layers; i++)
        sum += (double)p->layers[i].total_cycles;
    for (size_t i = 0; i < p->n_layers && sum > 0 && r == 0; i++) {
        double next = done + (double)p->layers[i].total_cycles / sum;
        if (done > begun && (next - begun) * p->us > job->slices->us) {
            r = pace_slice(p, done, job, e);
            begun = done;
        }
        done = next;
    }
    return r;
}

static int pace_parts(struct estimate_pace *p, const struct npu_job *job, struct error *e)
{
    int r = 0;
    uint64_t step = job->slices->us;
    for (uint64_t us = step; (double)us < p->us && r == 0; us += step)
        r = pace_slice(p, (double)us / p->us, job, e);
    return r;
}

int estimate_pace(struct estimate_pace *p, const struct npu_job *job, struct error *e)
{
    int r = 0;
    if (job->slices)
        r = p->divides ? pace_parts(p, job, e) : pace_slices(p, job, e);
    return r < 0 ? r : pace_until(job, p->start_us + p->waited_us + (uint64_t)p->us, e);
}
