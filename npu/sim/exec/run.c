// Runs the steps of a plan, one after the other, on the calling thread.
//
// A run is what one context needs beside the shared plan: the arena (all intermediate tensors, at
// the plan's offsets), scratch memory (one step's at a time) and oneDNN's memory objects bound to
// both.
#include "npu/sim/exec/run.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/process/large_pages.h"
#include "npu/sim/exec/dnn.h"
#include "npu/slices.h"
#include "npu/stop.h"

// Never NULL for size 0. Zeroed, so that a result never depends on what a former job or process
// left; pages are touched here and not in the first run.
static void *memory_new(uint64_t size)
{
    size_t alignment = size >= LARGE_PAGE ? LARGE_PAGE : STEP_ALIGNMENT;
    uint64_t rounded = align_up(size + 1, STEP_ALIGNMENT);
    void *memory;
    if (posix_memalign(&memory, alignment, rounded) != 0)
        return NULL;
    large_pages_ask(memory, rounded);
    return memset(memory, 0, rounded);
}

uint64_t run_size(const struct plan *p)
{
    return p->arena_size + p->scratch_size;
}

// `p` must outlive the run. On failure the run is empty.
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

// Moves the arena to the caller's `memory`, or back to memory of its own (NULL). oneDNN's objects
// hold addresses, so new ones are bound first and the run is unchanged on failure. Contents are not
// copied: every job writes its inputs anew.
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

// before() may compute the step in place of the kernel (returns 1); after() sees the outputs either
// way, and may change them, so nobody looks at them before.
static int run_step(struct run *r, const struct step *s, struct error *e)
{
    r->watcher = r->after.call ? NULL : s->watcher;
    r->watched_next = 0;
    int status = r->before.call ? r->before.call(r->before.user, r, s, e) : 0;
    if (status == 0)
        status = s->op->run(s, r, e);
    if (status >= 0 && r->after.call)
        status = r->after.call(r->after.user, r, s, e);
    return status;
}

// Others who wait for the device have it behind whatever step runs, however short that was.
static int run_pass(struct run *r, uint64_t *before, struct error *e)
{
    uint64_t waited = r->waited_us;
    int status = npu_slices_pass(r->slices, &r->waited_us, e);
    *before += r->waited_us - waited;
    return status < 0 ? status : npu_stop_check(r->stop, e);
}

// Times are of each step with its hooks, one reading of the clock per step. A stop ends the run
// between steps; the arena is then half written, which the next run does not mind.
int run_steps(struct run *r, struct error *e)
{
    uint64_t before = r->step_us ? clock_us() : 0;
    r->waited_us = 0;
    r->watched = NULL;
    for (uint32_t i = 0; i < r->plan->n_steps; i++) {
        int status = run_pass(r, &before, e);
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
