// Observe: what a tensor of floats holds, as words (tensor/observe/observation.h). The arithmetic
// is the observer's, whichever way the tensor lies; here its parts are compiled for the CPU's
// vectors. Without bins it costs about as much as reading the tensor. Tested by
// test_quantize_observed.
#include "npu/sim/exec/ops.h"
#include "npu/sim/ops/observe/observe_look.h"
#include "npu/sim/simd/elements.h"
#include "tensor/observe/observation.h"

struct observe {
    struct observation_form form;
    struct observe_shape shape;
    uint64_t sums, room, counting; // in scratch memory
};

// Elements between two of neighbouring channels.
static uint64_t observe_inner(const struct graph_tensor *x)
{
    uint64_t inner = 1;
    for (uint32_t i = 2; i < x->n_dims && !x->channels_last; i++)
        inner *= x->dims[i];
    return inner;
}

// The reader has worked out the same words from the same rule; what does not fit is a graph that is
// not its own.
static int observe_prepare(struct step *s, struct error *e)
{
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0);
    struct observe *p = s->state = step_alloc(s, 1, sizeof *p);
    uint32_t stride = s->node->observe.stride;
    if (!p)
        return error_no_memory(e, "a step", sizeof *p);
    p->form =
        observation_form_of(x->n_elems, s->node->observe.channels, stride, s->node->observe.tails);
    p->form.bins = s->node->observe.bins;
    if (x->type != TENSOR_FLOAT32 || y->type != TENSOR_INT32 || x->constant ||
        y->n_elems != observation_words(p->form) ||
        (p->form.n_channels && (x->n_dims < 2 || x->dims[1] != p->form.n_channels)))
        return step_refuse(s, e, "it looks at floats, and tells of these channels");
    p->shape = (struct observe_shape){.layout = {.n = x->n_elems, .stride = stride},
                                      .tails = p->form.n_tails > 0,
                                      .n_channels = p->form.n_channels,
                                      .inner = observe_inner(x)};
    if (p->form.n_channels && p->shape.inner == 1)
        p->shape.lanes = observe_lanes(p->form.n_channels, x->n_elems);
    if (x->n_dims > 2)
        sampling_lay(&p->shape.layout, x->dims[1], p->shape.inner);
    const struct step *before = step_before(s);
    int r = step_scratch(s, before ? before->scratch : 0, &p->sums, e); // it works while that does
    if (r == 0)
        r = step_scratch(s, (p->form.n_channels + 1) * sizeof(double), &p->sums, e);
    if (r == 0)
        r = step_scratch(s, observe_room(x->n_elems), &p->room, e);
    return r < 0 || !p->form.bins
               ? r
               : step_scratch(s, sizeof(struct observer_scratch), &p->counting, e);
}

KERNEL(struct observer_bounds, observe_bounds, (const float *v, size_t n), (v, n))
{
    return observer_bounds_of(v, n);
}

KERNEL(void, observe_index, (const float *v, size_t n, float factor, uint16_t *index),
       (v, n, factor, index))
{
    observer_index_of(v, n, factor, index);
}

KERNEL(void, observe_join, (uint32_t(*tables)[OBSERVER_BINS]), (tables))
{
    observer_join_of(tables);
}

// Every value, which takes several times as long.
static const uint32_t *observe_count(const struct observe *p, const float *x, struct run *r,
                                     struct observer *o)
{
    static const struct observer_parts parts = {observe_bounds, observe_index, observe_join};
    struct observer_scratch *room = run_scratch(r, p->counting);
    observer_look(x, p->shape.layout.n, true, room, &parts);
    o->exponent = room->exponent;
    return room->bins[0];
}

// Where what is seen goes to: what an observation is made of, and the output itself.
static void observe_start(const struct step *s, const struct run *r)
{
    const struct observe *p = s->state;
    int32_t *words = run_output(s, r, 0);
    const struct observed seen = {.sums = run_scratch(r, p->sums),
                                  .values = observation_values(p->form, words),
                                  .tails = {.values = observation_tail_values(p->form, words)}};
    observe_begin(&p->shape, run_input(s, r, 0), run_scratch(r, p->room), &seen);
}

static void observe_watch(const struct step *s, struct run *r, uint64_t n)
{
    const struct observe *p = s->state;
    if (r->watched != s)
        observe_start(s, r);
    r->watched = s;
    r->watched_next = observe_go_on(run_scratch(r, p->room), n);
}

static int observe_run(const struct step *s, struct run *r, struct error *e)
{
    (void)e;
    const struct observe *p = s->state;
    const float *x = run_input(s, r, 0);
    int32_t *words = run_output(s, r, 0);
    struct observed seen;
    if (r->watched != s)
        observe_start(s, r);
    observe_end(run_scratch(r, p->room), &seen);
    struct observer o = {.n = p->shape.layout.n,
                         .exponent = OBSERVER_FINEST,
                         .n_channels = p->form.n_channels,
                         .sums = seen.sums,
                         .min = seen.bounds.min,
                         .max = seen.bounds.max,
                         .n_bad = seen.bounds.n_bad};
    const uint32_t *counts = p->form.bins ? observe_count(p, x, r, &o) : NULL;
    observation_put(p->form, &o, counts, p->form.n_tails ? &seen.tails : NULL, words);
    return 0;
}

const struct op op_observe = {
    .prepare = observe_prepare, .run = observe_run, .watch = observe_watch};
