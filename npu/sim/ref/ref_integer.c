// MatMulInteger: y[i, j] = Σ_k (a[i, k] - za[i]) * (b[k, j] - zb[j]), exact in 64 bits.
// DynamicQuantizeLinear: y = saturate(rint(x / scale) + zp), with scale and zero point from the
// range of x, in float32 as ONNX says, ties to even. Tests: test_onnx_nodes (ONNX's own cases).
#include <math.h>

#include "npu/sim/ref/ref.h"

// ---- MatMulInteger: A, B, zero points of A (one, or one for each line) and B (… column) ----

// B is one matrix, or has as many as A.
static int check_product(const struct ref_call *c, uint64_t *ret_extra, struct error *e)
{
    (void)ret_extra;
    const struct graph_tensor *a = c->in[0].t, *b = c->in[1].t, *y = c->out[0].t;
    const struct graph_tensor *za = c->in[2].t, *zb = c->in[3].t;
    bool fits = a && b && y && a->n_dims >= 2 && b->n_dims >= 2 && a->n_dims == y->n_dims;
    for (uint32_t i = 0; i < 4 && fits; i++)
        fits = !c->in[i].t || !c->in[i].real;
    if (!fits)
        return ref_refuse(c, e, "its inputs and output do not fit together");
    uint32_t lines = a->dims[a->n_dims - 2], inner = a->dims[a->n_dims - 1];
    uint32_t columns = b->dims[b->n_dims - 1];
    fits = b->dims[b->n_dims - 2] == inner && y->dims[y->n_dims - 2] == lines &&
           y->dims[y->n_dims - 1] == columns &&
           (b->n_dims == 2 || b->n_elems * lines == a->n_elems * columns) &&
           (!za || za->n_elems == 1 || za->n_elems == lines) &&
           (!zb || zb->n_elems == 1 || zb->n_elems == columns);
    return fits ? 0 : ref_refuse(c, e, "its inputs and output do not fit together");
}

static int64_t zero_of(const struct ref_tensor *z, uint64_t i)
{
    return !z->t ? 0 : z->v[z->t->n_elems == 1 ? 0 : i].i;
}

static int run_product(struct ref_call *c, struct error *e)
{
    (void)e;
    const struct graph_tensor *a = c->in[0].t, *b = c->in[1].t;
    uint64_t lines = a->dims[a->n_dims - 2], inner = a->dims[a->n_dims - 1];
    uint64_t columns = b->dims[b->n_dims - 1];
    for (uint64_t k = 0; k < c->out[0].t->n_elems; k++) {
        uint64_t line = k / columns, column = k % columns, matrix = line / lines;
        const union ref_value *from = c->in[0].v + line * inner;
        const union ref_value *to = c->in[1].v + (b->n_dims == 2 ? 0 : matrix * inner * columns);
        int64_t za = zero_of(&c->in[2], line % lines), zb = zero_of(&c->in[3], column), sum = 0;
        for (uint64_t i = 0; i < inner; i++)
            sum += (from[i].i - za) * (to[i * columns + column].i - zb);
        c->out[0].v[k].i = sum;
    }
    return 0;
}

// ---- DynamicQuantizeLinear ----

static int check_dynamic(const struct ref_call *c, uint64_t *ret_extra, struct error *e)
{
    (void)ret_extra;
    bool fits = c->in[0].t && c->in[0].real && c->out[0].t && !c->out[0].real &&
                c->out[0].t->n_elems == c->in[0].t->n_elems;
    return fits ? 0 : ref_refuse(c, e, "its input does not fit its output");
}

// Range of x with 0 in it; scale = (max - min) / 255, zp = rint(-min / scale), in float32 as ONNX
// defines it. All zeros have scale 1, as in ONNX Runtime; NaN becomes zero.
static int run_dynamic(struct ref_call *c, struct error *e)
{
    (void)e;
    float low = 0, high = 0;
    uint64_t n = c->in[0].t->n_elems;
    for (uint64_t k = 0; k < n; k++) {
        low = fminf(low, (float)c->in[0].v[k].r);
        high = fmaxf(high, (float)c->in[0].v[k].r);
    }
    float scale = high > low ? (high - low) / 255 : 1,
          zero = scale > 0 ? rintf(0 - low / scale) : 0;
    zero = fminf(fmaxf(zero, 0), 255);
    for (uint64_t k = 0; k < n; k++) {
        float v = scale > 0 ? rintf((float)c->in[0].v[k].r / scale) + zero : 0;
        c->out[0].v[k].i = isnan(v) ? 0 : (int64_t)fminf(fmaxf(v, 0), 255);
    }
    if (c->out[1].t)
        c->out[1].v[0].r = (double)scale;
    if (c->out[2].t)
        c->out[2].v[0].i = (int64_t)zero;
    return 0;
}

const struct ref_operator ref_mat_mul_integer = {.check = check_product, .run = run_product};
const struct ref_operator ref_dynamic_quantize = {.check = check_dynamic, .run = run_dynamic};
