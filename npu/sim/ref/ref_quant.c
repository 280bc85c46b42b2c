// QuantizeLinear and DequantizeLinear, with one scale or one for each element of an axis:
//
//   q = saturate(rint(x / scale) + zp)      x = (q - zp) * scale
//
// rint() rounds to even, the quotient as a float, as ONNX Runtime does.
// Tests: test_onnx_nodes (ONNX's own cases), test_onnx_against.
#include <math.h>

#include "npu/sim/ref/ref.h"

static void range_of(enum tensor_type type, double *low, double *high)
{
    bool is_signed = type == TENSOR_INT8 || type == TENSOR_INT16 || type == TENSOR_INT32;
    double half = ldexp(1, (int)tensor_type_size(type) * 8 - 1);
    *low = is_signed ? -half : 0;
    *high = is_signed ? half - 1 : 2 * half - 1;
}

// One scale, or one for each element along the axis: ints[0].
static int check_scale(const struct ref_call *c, uint64_t *ret_extra, struct error *e)
{
    const struct graph_tensor *x = c->in[0].t, *scale = c->in[1].t, *zp = c->in[2].t;
    int64_t axis = c->node->ref.ints[0];
    (void)ret_extra;
    bool fits = x && scale && c->in[1].real && x->n_elems == c->out[0].t->n_elems &&
                (scale->n_elems == 1 || (axis < x->n_dims && scale->n_elems == x->dims[axis]));
    if (!fits || (zp && (zp->n_elems != scale->n_elems || c->in[2].real)))
        return ref_refuse(c, e, "its scale and zero point do not fit its input");
    return 0;
}

static uint64_t which_scale(const struct ref_call *c, uint64_t k)
{
    if (c->in[1].t->n_elems == 1)
        return 0;
    struct nd_axis a = nd_axis(c->in[0].t, (uint32_t)c->node->ref.ints[0]);
    return k / a.inner % a.size;
}

// As ONNX Runtime does it: the quotient of floats is rounded to even, then the zero point added.
static int64_t quant_quantized(double x, double scale, int64_t zp, enum tensor_type type)
{
    double low, high, v = (double)rintf((float)x / (float)scale) + (double)zp;
    range_of(type, &low, &high);
    return isnan(v) ? 0 : (int64_t)(v < low ? low : v > high ? high : v);
}

static int run_quantize(struct ref_call *c, struct error *e)
{
    (void)e;
    for (uint64_t k = 0; k < c->out[0].t->n_elems; k++) {
        uint64_t s = which_scale(c, k);
        double x = c->in[0].real ? c->in[0].v[k].r : (double)c->in[0].v[k].i;
        c->out[0].v[k].i = quant_quantized(x, c->in[1].v[s].r, c->in[2].t ? c->in[2].v[s].i : 0,
                                           c->out[0].t->type);
    }
    return 0;
}

static int run_dequantize(struct ref_call *c, struct error *e)
{
    (void)e;
    for (uint64_t k = 0; k < c->out[0].t->n_elems; k++) {
        uint64_t s = which_scale(c, k);
        int64_t zp = c->in[2].t ? c->in[2].v[s].i : 0;
        c->out[0].v[k].r = (double)(c->in[0].v[k].i - zp) * c->in[1].v[s].r;
    }
    return 0;
}

const struct ref_operator ref_quantize = {.check = check_scale, .run = run_quantize};
const struct ref_operator ref_dequantize = {.check = check_scale, .run = run_dequantize};
