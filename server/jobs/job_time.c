// How long runs of a model take: what was seen of the last ones, and what is expected of the next.
#include "server/jobs/job.h"
#include "server/metrics/metrics.h"
#include "server/scheduler/scheduler_ahead.h"

#define MODEL_CORES (MODEL_MAX_CORES + 1)
#define SAMPLES_US  20000 // of a request; others of no higher priority wait for its end

_Static_assert(SCHEDULER_MAX_CORES <= MODEL_MAX_CORES, "an entry for each number of cores");

// What a run of the model takes changes with what else the machine does: the last runs count most.
void job_learn(const struct job *j)
{
    uint64_t *us =
        &j->context->model->expected_us[__builtin_popcount(j->run.core_mask) % MODEL_CORES];
    uint64_t took = j->run.run_us / (j->run.samples ? j->run.samples : 1);
    *us = *us ? (7 * *us + took + 4) / 8 : took;
}

void job_observe(const struct job *j)
{
    struct metrics_series *series = j->context->series;
    if (!series)
        return;
    metrics_observe(&series->queue, j->queued_us);
    metrics_observe(&series->run, j->run.run_us);
}

// A worker that a model has broken says what it likes; what it says is the series' of its model,
// and what others are told that they will wait. It is as true as the time for which it had the run.
void job_check_time(struct job *j)
{
    uint64_t most = now_us() - j->begun_us;
    if (j->run.run_us > most)
        j->run.run_us = most;
}

// What it takes on the device; 0: not known.
static uint64_t job_expected_us(const struct job *j)
{
    unsigned n = j->cores.mask ? (unsigned)__builtin_popcount(j->cores.mask) : j->cores.any;
    return j->context && n < MODEL_CORES ? j->context->model->expected_us[n] : 0;
}

static uint64_t expected_us_of(const struct scheduler_job *j)
{
    return job_expected_us(container_of(j, struct job, scheduling));
}

int job_check_samples(const struct model *m, uint32_t samples, struct error *e)
{
    uint64_t us = 0;
    for (unsigned n = 0; n < MODEL_CORES; n++)
        us = m->expected_us[n] > us ? m->expected_us[n] : us;
    if (samples <= 1 || (us && us <= SAMPLES_US / samples))
        return 0;
    if (!us)
        return error_set(e, STATUS_PARAM_INVALID,
                         "%u samples in a run: how long the model takes is not known before it has "
                         "run once",
                         samples);
    return error_set(e, STATUS_PARAM_INVALID,
                     "%u samples in a run: each takes about %.1f ms, and all may take %u ms",
                     samples, 1e-3 * (double)us, SAMPLES_US / 1000);
}

// STATUS_TIMEOUT if it would not be done within its limit, as far as is known.
int job_admit(struct job *j, struct error *e)
{
    const struct scheduler_ahead now = {.now_us = now_us(),
                                        .gives_way = j->all->slices && j->all->slice_us,
                                        .expected_us = expected_us_of};
    uint64_t own = job_expected_us(j);
    uint64_t ahead = own ? scheduler_ahead_us(&j->all->scheduler, job_queue(j), &now) : 0;
    if (!own || ahead + own <= 1000ull * j->limit_ms)
        return 0;
    return error_set(
        e, STATUS_TIMEOUT,
        "refused: the run would be done in about %.1f ms (%.1f ms of runs ahead, %.1f ms "
        "of its own), its limit is %u ms",
        1e-3 * (double)(ahead + own), 1e-3 * (double)ahead, 1e-3 * (double)own, j->limit_ms);
}
