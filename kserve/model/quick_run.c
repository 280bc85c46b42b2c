#include "kserve/model/quick_run.h"

#include <stdlib.h>

#include "base/clock.h"

#define QUICK_NS 2000000 // that a run takes

bool quick_run_suits(struct served_model *m)
{
    if (m->per_run > 1 || m->options->run_ms > 0) // a run's own limit is told from ours by nobody
        return false;
    pthread_mutex_lock(&m->lock);
    bool quick = m->run_ns > 0 && m->run_ns < QUICK_NS;
    pthread_mutex_unlock(&m->lock);
    return quick;
}

// The request is read again, and its error told, by who may wait for a context.
bool quick_run_start(struct quick_run *q, struct served_model *m, struct job *j)
{
    struct error e;
    uint8_t *room;
    struct lane *lane = lane_take(m, false);
    if (!lane)
        return false;
    q->begin_ns = clock_ns();
    q->group = (struct group){.model = m, .n = 1, .samples = 1, .set = j->set};
    q->group.jobs[0] = j;
    if (group_start(&q->group, lane, &room, true, &e) < 0) {
        lane_give(m, lane);
        return false;
    }
    q->model = served_model_ref(m);
    q->lane = lane;
    q->job = j;
    q->result = 0;
    return true;
}

bool quick_run_wait(struct quick_run *q, unsigned ms)
{
    int r = group_wait(&q->group, q->lane, ms, &q->error);
    q->result = q->group.under_way ? 0 : r;
    return !q->group.under_way;
}

int quick_run_end(struct quick_run *q, struct error *e)
{
    int r = q->result;
    if (r == 0)
        r = group_end(&q->group, q->lane, q->lane->room, e);
    else
        *e = q->error;
    if (group_is_lost(r)) {
        lane_lost(q->model, q->lane);
        r = group_run(&q->group, q->lane, e);
    }
    if (r == 0) {
        group_count(&q->group);
        job_count(q->model, q->job, 0, clock_ns() - q->begin_ns);
    }
    return r;
}

void quick_run_done(struct quick_run *q)
{
    lane_give(q->model, q->lane);
    job_done(q->job);
    free(q->job);
    served_model_unref(q->model);
    q->model = NULL;
}
