// Observe: what a tensor of floats holds, as words (tensor/observe/observation.h). The arithmetic
// is the observer's, whichever way the tensor lies; here its parts are compiled for the CPU's
// vectors. Without bins it costs about as much as reading the tensor. Tested by
// test_quantize_observed.
#include "npu/sim/exec/ops.h"
#include "npu/sim/simd/elements.h"
#include "tensor/observe/observation.h"

struct observe {
    uint32_t channels;
    bool bins;
    uint64_t inner;              // elements between two of neighbouring channels
    uint64_t sums, counts, room; // in scratch memory
};

static int observe_prepare(struct step *s, struct error *e)
{
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0);
    struct observe *p = s->state = step_alloc(s, 1, sizeof *p);
    if (!p)
        return error_no_memory(e, "a step", sizeof *p);
    *p = (struct observe){.channels = s->node->observe.channels, .bins = s->node->observe.bins};
    if (x->type != TENSOR_FLOAT32 || y->type != TENSOR_INT32 || x->constant ||
        y->n_elems != observation_words(p->channels, p->bins) ||
        (p->channels && (x->n_dims < 2 || x->dims[1] != p->channels)))
        return step_refuse(s, e, "it looks at floats, and tells of these channels");
    p->inner = 1;
    for (uint32_t i = 2; i < x->n_dims && !x->channels_last; i++)
        p->inner *= x->dims[i];
    int r = step_scratch(s, (p->channels + 1) * sizeof(double), &p->sums, e);
    if (r == 0)
        r = step_scratch(s, OBSERVER_BINS * sizeof(uint64_t), &p->counts, e);
    return r < 0 ? r : step_scratch(s, sizeof(struct observer_scratch), &p->room, e);
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

KERNEL(void, observe_sum,
       (const float *v, uint64_t n, uint64_t inner, uint32_t n_channels, double *sums),
       (v, n, inner, n_channels, sums))
{
    observer_sum_of(v, n, inner, n_channels, sums);
}

static int observe_run(const struct step *s, struct run *r, struct error *e)
{
    (void)e;
    static const struct observer_parts parts = {observe_bounds, observe_index, observe_sum};
    const struct observe *p = s->state;
    struct observer o = observer_empty();
    o.n_channels = p->channels;
    o.sums = run_scratch(r, p->sums);
    memset(o.sums, 0, p->channels * sizeof *o.sums);
    if (p->bins) {
        o.bins = run_scratch(r, p->counts);
        memset(o.bins, 0, OBSERVER_BINS * sizeof *o.bins);
    }
    observer_add(&o, run_input(s, r, 0), step_input(s, 0)->n_elems, p->inner,
                 run_scratch(r, p->room), &parts);
    observation_put(&o, run_output(s, r, 0));
    return 0;
}

const struct op op_observe = {.prepare = observe_prepare, .run = observe_run};
