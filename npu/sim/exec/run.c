// Runs the steps of a plan, one after the other.
#include "npu/sim/exec/run.h"

#include <stdlib.h>

#include "base/clock.h"
#include "npu/sim/exec/dnn.h"
#include "npu/stop.h"

static void *memory_new(uint64_t size)
{
    uint64_t rounded = align_up(size + 1, STEP_ALIGNMENT);
    void *memory = aligned_alloc(STEP_ALIGNMENT, rounded);
    return memory ? memset(memory, 0, rounded) : NULL;
}

int run_init(struct run *r, const struct plan *p, struct error *e)
{
    *r = (struct run){
        .plan = p, .own = memory_new(p->arena_size), .scratch = memory_new(p->scratch_size)};
    r->arena = r->own;
    int status = 0;
    if (!r->arena || !r->scratch)
        status = error_no_memory(e, "a context", p->arena_size + p->scratch_size);
    if (status == 0)
        status = dnn_bind(r, &r->bound, e);
    if (status < 0)
        run_done(r);
    return status;
}

void run_done(struct run *r)
{
    dnn_bound_free(r->bound);
    free(r->own);
    free(r->scratch);
    *r = (struct run){0};
}

int run_place(struct run *r, void *memory, struct error *e)
{
    struct run placed = *r;
    if (memory ? r->arena == memory : r->own != NULL)
        return 0;
    placed.own = memory ? NULL : memory_new(r->plan->arena_size);
    placed.arena = memory ? memory : placed.own;
    if (!placed.arena)
        return error_no_memory(e, "a context", r->plan->arena_size);
    int status = dnn_bind(&placed, &placed.bound, e);
    if (status < 0) {
        free(placed.own);
        return status;
    }
    dnn_bound_free(r->bound);
    free(r->own);
    *r = placed;
    return 0;
}

static int run_step(struct run *r, const struct step *s, struct error *e)
{
    int status = r->before.call ? r->before.call(r->before.user, r, s, e) : 0;
    if (status == 0)
        status = s->op->run(s, r, e);
    if (status >= 0 && r->after.call)
        status = r->after.call(r->after.user, r, s, e);
    return status;
}

int run_steps(struct run *r, struct error *e)
{
    uint64_t before = r->step_us ? clock_us() : 0;
    for (uint32_t i = 0; i < r->plan->n_steps; i++) {
        int status = npu_stop_check(r->stop, e);
        if (status == 0)
            status = run_step(r, &r->plan->steps[i], e);
        if (status < 0)
            return status;
        if (r->step_us) {
            uint64_t now = clock_us();
            r->step_us[i] = now - before;
            before = now;
        }
    }
    return 0;
}
