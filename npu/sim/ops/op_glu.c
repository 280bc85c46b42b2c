// Gated linear units: y[o, k, i] = x[o, k, i] * sigmoid(x[o, size / 2 + k, i]), k < size / 2.
//
//   x: [ a a a a | b b b b ][ a a a a | b b b b ] …     y: [ a*s(b) ][ a*s(b) ] …
//
// In floats, a chunk at a time, rounded as elements_store() does. Of images (channels last) only
// the channels can be halved, since only their halves are contiguous. Tested by
// test_sim_cases_activations.
#include <math.h>

#include "npu/sim/exec/ops.h"
#include "npu/sim/simd/elements.h"

// `rows` times: n contiguous elements of the first half, then n of the second.
struct glu {
    size_t n, rows;
};

static int glu_prepare(struct step *s, struct error *e)
{
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0);
    uint32_t axis = (uint32_t)s->node->axis;
    struct glu *p = s->state = step_alloc(s, 1, sizeof *p);
    if (!p)
        return error_no_memory(e, "a step", sizeof *p);
    bool fits = x->n_elems && x->n_dims == y->n_dims && x->n_elems == 2 * y->n_elems &&
                x->channels_last == y->channels_last;
    for (uint32_t i = 0; i < x->n_dims && fits; i++)
        fits = x->dims[i] == (i == axis ? 2 : 1) * (uint64_t)y->dims[i];
    if (!fits)
        return step_refuse(s, e, "its output is not half of its input");
    if (x->channels_last && axis != 1)
        return step_refuse(s, e, "of an image only the channels can be halved");
    if (!element_type_known(x->type) || !element_type_known(y->type))
        return step_refuse(s, e, "its types are not supported");
    p->n = y->dims[axis];
    for (uint32_t i = axis + 1; i < y->n_dims && !x->channels_last; i++)
        p->n *= y->dims[i];
    p->rows = y->n_elems / p->n;
    return 0;
}

static int glu_run(const struct step *s, struct run *r, struct error *e)
{
    (void)e;
    const struct glu *p = s->state;
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0);
    const struct graph_post gate = {.kind = POST_SIGMOID};
    struct element_form from = element_form(x), to = element_form(y);
    size_t x_size = tensor_type_size(x->type), y_size = tensor_type_size(y->type);
    const uint8_t *src = run_input(s, r, 0);
    uint8_t *dst = run_output(s, r, 0);
    float a[ELEMENTS_CHUNK], b[ELEMENTS_CHUNK];
    for (size_t row = 0; row < p->rows; row++)
        for (size_t done = 0; done < p->n; done += ELEMENTS_CHUNK) {
            size_t n = p->n - done < ELEMENTS_CHUNK ? p->n - done : ELEMENTS_CHUNK;
            size_t at = 2 * row * p->n + done;
            elements_load(&from, src + at * x_size, n, a);
            elements_load(&from, src + (at + p->n) * x_size, n, b);
            elements_post(&gate, b, n);
            for (size_t i = 0; i < n; i++)
                a[i] *= b[i];
            elements_store(&to, dst + (row * p->n + done) * y_size, n, a);
        }
    return 0;
}

const struct op op_glu = {.prepare = glu_prepare, .run = glu_run};
