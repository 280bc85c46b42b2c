// Gated linear units: y[o, k, i] = x[o, k, i] * sigmoid(x[o, size / 2 + k, i]), k < size / 2.
//
//   x: [ a a a a | b b b b ][ a a a a | b b b b ] …     y: [ a*s(b) ][ a*s(b) ] …
//
// In floats, a chunk at a time, rounded as elements_store() does. Of images (channels last) only
// the channels can be halved, since only their halves are contiguous. Tested by
// test_sim_cases_activations.
#include <string.h>

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

static const struct graph_post gate = {.kind = POST_SIGMOID};

// Rows that are longer than a chunk.
static void glu_long_rows(const struct glu *p, const struct element_form forms[2],
                          const uint8_t *src, uint8_t *dst)
{
    size_t x_size = tensor_type_size(forms[0].type), y_size = tensor_type_size(forms[1].type);
    float a[ELEMENTS_CHUNK], b[ELEMENTS_CHUNK];
    for (size_t row = 0; row < p->rows; row++)
        for (size_t done = 0; done < p->n; done += ELEMENTS_CHUNK) {
            size_t n = p->n - done < ELEMENTS_CHUNK ? p->n - done : ELEMENTS_CHUNK;
            size_t at = 2 * row * p->n + done;
            elements_load(&forms[0], src + at * x_size, n, a);
            elements_load(&forms[0], src + (at + p->n) * x_size, n, b);
            elements_post(&gate, b, n);
            for (size_t i = 0; i < n; i++)
                a[i] *= b[i];
            elements_store(&forms[1], dst + (row * p->n + done) * y_size, n, a);
        }
}

// y = a * b, rows of n; those of a are followed by n others. y may be b.
KERNEL(void, glu_multiply, (const float *a, const float *b, size_t rows, size_t n, float *y),
       (a, b, rows, n, y))
{
    for (; rows; rows--, a += 2 * n, b += n, y += n)
        for (size_t i = 0; i < n; i++)
            y[i] = a[i] * b[i];
}

// As many short ones together as fit a chunk: calls would take longer than what they do.
static void glu_short_rows(const struct glu *p, const struct element_form forms[2],
                           const uint8_t *src, uint8_t *dst)
{
    size_t x_size = tensor_type_size(forms[0].type), y_size = tensor_type_size(forms[1].type);
    float x[2 * ELEMENTS_CHUNK], b[ELEMENTS_CHUNK];
    const size_t n = p->n, together = ELEMENTS_CHUNK / n;
    for (size_t row = 0, rows; row < p->rows; row += rows) {
        rows = p->rows - row < together ? p->rows - row : together;
        elements_load(&forms[0], src + 2 * row * n * x_size, 2 * rows * n, x);
        for (size_t i = 0; i < rows; i++)
            memcpy(b + i * n, x + (2 * i + 1) * n, n * sizeof *b);
        elements_post(&gate, b, rows * n);
        glu_multiply(x, b, rows, n, b);
        elements_store(&forms[1], dst + row * n * y_size, rows * n, b);
    }
}

static int glu_run(const struct step *s, struct run *r, struct error *e)
{
    (void)e;
    const struct glu *p = s->state;
    const struct element_form forms[2] = {element_form(step_input(s, 0)),
                                          element_form(step_output(s, 0))};
    (p->n > ELEMENTS_CHUNK ? glu_long_rows : glu_short_rows)(p, forms, run_input(s, r, 0),
                                                             run_output(s, r, 0));
    return 0;
}

const struct op op_glu = {.prepare = glu_prepare, .run = glu_run};
