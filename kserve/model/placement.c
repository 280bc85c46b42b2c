// The context is taken without waiting: a request that comes slowly, or while all are busy, is read
// to memory of its own and waits its turn with the others.
#include "kserve/model/placement.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "kserve/model/serve_group.h"

static struct group group_of(const struct placement *p)
{
    return (struct group){
        .model = p->model, .jobs = {p->job}, .n = 1, .samples = 1, .set = p->job->set};
}

void placement_end(struct placement *p)
{
    if (p->lane)
        lane_give(p->model, p->lane);
    if (p->job)
        job_done(p->job);
    free(p->job);
    memory_give(p->share, p->taken);
    served_model_unref(p->model);
    *p = (struct placement){0};
}

static bool prepare(struct placement *p, const struct request *r)
{
    struct error e; // who reads the request whole says it again
    struct job *j = malloc(sizeof *j);
    if (!j || job_prepare(j, r, p->model, &e) < 0) {
        free(j);
        return false;
    }
    p->job = j;
    p->size = j->inputs[0].size;
    return j->samples == 1;
}

static bool take_lane(struct placement *p)
{
    struct error e;
    p->lane = lane_take(p->model, false);
    if (!p->lane || lane_ready(p->model, p->lane, p->job->set, &e) < 0)
        return false;
    struct group g = group_of(p);
    p->to = group_place(&g, p->lane, 0);
    return p->to;
}

// A model of several inputs would need the place of each, and one that batches has its requests
// gathered by who leads the batch: both read bodies to memory of their own. So do BOOLs, whose
// bytes are looked at before they are the daemon's.
bool placement_find(struct placement *p, const struct request *r, struct served_model *m)
{
    if (m->per_run > 1 || m->n_inputs != 1 || r->n_inputs != 1 || r->raw || !m->shares_memory ||
        r->inputs[0].type->rknn == RKNN_TENSOR_BOOL)
        return false;
    *p = (struct placement){.model = served_model_ref(m)};
    if (prepare(p, r) && take_lane(p))
        return true;
    placement_end(p);
    return false;
}

bool placement_pay(struct placement *p, struct memory_share *share, uint64_t bytes)
{
    if (!memory_take(share, bytes, 0))
        return false;
    p->share = share;
    p->taken = bytes;
    return true;
}

uint64_t placement_paid(struct placement *p)
{
    uint64_t taken = p->taken;
    p->taken = 0;
    return taken;
}

// The memory goes with the context: its data have to be elsewhere before another one is opened.
static int run_again(struct placement *p, struct group *g, struct error *e)
{
    uint8_t *copy = malloc((size_t)p->size);
    if (!copy)
        return error_no_memory(e, "an input", p->size);
    memcpy(copy, p->to, (size_t)p->size);
    p->job->inputs[0].data = copy;
    lane_lost(p->model, p->lane);
    int r = group_run(g, p->lane, e);
    free(copy);
    return r;
}

// Nobody waited for this run's context but the peer's own bytes, which count as no queue.
int placement_run(struct placement *p, struct error *e)
{
    uint64_t begin = clock_ns();
    struct group g = group_of(p);
    uint8_t *room;
    p->job->inputs[0].data = p->to;
    int r = group_start(&g, p->lane, &room, false, e);
    if (r == 0)
        r = group_end(&g, p->lane, room, e);
    if (group_is_lost(r))
        r = run_again(p, &g, e);
    if (r < 0)
        return r;
    group_count(&g);
    job_count(p->model, p->job, 0, clock_ns() - begin);
    return 0;
}
