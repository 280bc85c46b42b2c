// Regions of images (RoiAlign), and images made of what a MaxPool left of them (MaxUnpool).
// Tests: test_onnx_nodes (ONNX's own cases), test_onnx_against.
#include <math.h>

#include "npu/sim/ref/ref.h"

// ---- RoiAlign: ints: samples of a bin in each direction (0: one for each pixel), half pixels;
// ---- reals: scale of regions ----

#define ROI_SAMPLES 4096 // of a bin in one direction, which data say

static int check_roi_align(const struct ref_call *c, uint64_t *ret_extra, struct error *e)
{
    (void)ret_extra;
    const struct graph_tensor *x = c->in[0].t, *y = c->out[0].t;
    bool fits = x && c->in[0].real && c->in[1].t && c->in[1].real && c->in[2].t && !c->in[2].real &&
                c->out[0].real && x->n_dims == 4 && y->n_dims == 4 && x->n_elems &&
                c->in[1].t->n_elems == 4 * (uint64_t)y->dims[0] &&
                c->in[2].t->n_elems == y->dims[0] && y->dims[1] == x->dims[1];
    return fits ? 0 : ref_refuse(c, e, "its inputs do not fit together");
}

// Where a sample lies between two lines or columns: the first of them, and the second's part.
struct between {
    uint64_t low, high;
    double part;
    bool inside;
};

static struct between roi_between(double at, uint32_t size)
{
    struct between b = {.inside = at >= -1 && at <= size};
    at = at > 0 ? at : 0;
    b.low = b.inside ? (uint64_t)at : 0;
    b.high = b.low + 1;
    b.part = at - (double)b.low;
    if (b.low >= size - 1) {
        b.low = b.high = size - 1;
        b.part = 0;
    }
    return b;
}

// A region along one direction: its begin, and the size of a bin, of `bins`.
struct side {
    double begin, bin;
    int64_t samples;
};

static int roi_side(const struct ref_call *c, double from, double to, uint32_t bins,
                    struct side *ret, struct error *e)
{
    bool half = c->node->ref.ints[1] != 0;
    double scale = (double)c->node->ref.reals[0], shift = half ? 0.5 : 0;
    double size = (to * scale - shift) - (from * scale - shift);
    if (!half && size < 1)
        size = 1;
    *ret = (struct side){from * scale - shift, size / bins, c->node->ref.ints[0]};
    if (!ret->samples && size > 0 && size / bins <= ROI_SAMPLES)
        ret->samples = (int64_t)ceil(size / bins);
    if (!isfinite(ret->begin) || !(size / bins <= ROI_SAMPLES))
        return ref_fail(c, e, "a region from %g to %g", from, to);
    return 0;
}

static double roi_bin(const union ref_value *x, const uint32_t *dims, const struct side s[2],
                      const uint64_t bin[2])
{
    double sum = 0;
    int64_t count = s[0].samples * s[1].samples;
    for (int64_t k = 0; k < count; k++) {
        int64_t row = k / s[1].samples;
        double iy = (double)row + 0.5, ix = (double)(k % s[1].samples) + 0.5;
        struct between v = roi_between(
            s[0].begin + s[0].bin * ((double)bin[0] + iy / (double)s[0].samples), dims[2]);
        struct between h = roi_between(
            s[1].begin + s[1].bin * ((double)bin[1] + ix / (double)s[1].samples), dims[3]);
        const union ref_value *low = x + v.low * dims[3], *high = x + v.high * dims[3];
        if (v.inside && h.inside)
            sum += (1 - v.part) * ((1 - h.part) * low[h.low].r + h.part * low[h.high].r) +
                   v.part * ((1 - h.part) * high[h.low].r + h.part * high[h.high].r);
    }
    return count > 0 ? sum / (double)count : 0;
}

// y[n, c, bin] = the mean of samples of x[batch[n], c] in a bin of region n.
static int run_roi_align(struct ref_call *c, struct error *e)
{
    const uint32_t *dims = c->in[0].t->dims, *out = c->out[0].t->dims;
    union ref_value *y = c->out[0].v;
    for (uint32_t n = 0; n < out[0]; n++) {
        const union ref_value *roi = c->in[1].v + (size_t)n * 4;
        struct side s[2];
        uint64_t batch;
        if (roi_side(c, roi[1].r, roi[3].r, out[2], &s[0], e) < 0 ||
            roi_side(c, roi[0].r, roi[2].r, out[3], &s[1], e) < 0 ||
            ref_resolve(c, c->in[2].v[n].i, dims[0], &batch, e) < 0)
            return STATUS_FAIL;
        for (uint64_t k = 0; k < (uint64_t)out[1] * out[2] * out[3]; k++) {
            const uint64_t bin[2] = {k / out[3] % out[2], k % out[3]};
            uint64_t channel = batch * dims[1] + k / out[3] / out[2];
            (y++)->r = roi_bin(c->in[0].v + channel * dims[2] * dims[3], dims, s, bin);
        }
    }
    return 0;
}

// ---- MaxUnpool: ints: the shape in which places count ----

static int check_max_unpool(const struct ref_call *c, uint64_t *ret_extra, struct error *e)
{
    (void)ret_extra;
    const struct graph_tensor *x = c->in[0].t, *y = c->out[0].t;
    bool fits = x && c->in[1].t && !c->in[1].real && c->in[1].t->n_elems == x->n_elems &&
                c->in[0].real == c->out[0].real && c->node->ref.n_ints == y->n_dims;
    for (uint32_t i = 0; fits && i < y->n_dims; i++)
        fits = c->node->ref.ints[i] >= 0 && c->node->ref.ints[i] <= y->dims[i];
    return fits ? 0 : ref_refuse(c, e, "its inputs do not fit its output");
}

static int run_max_unpool(struct ref_call *c, struct error *e)
{
    const struct graph_tensor *y = c->out[0].t;
    uint64_t all = 1;
    memset(c->out[0].v, 0, y->n_elems * sizeof *c->out[0].v);
    for (uint32_t i = 0; i < y->n_dims; i++)
        all *= (uint64_t)c->node->ref.ints[i];
    for (uint64_t k = 0; k < c->in[0].t->n_elems; k++) {
        int64_t place = c->in[1].v[k].i;
        uint64_t at = 0, step = 1;
        if (place < 0 || (uint64_t)place >= all)
            return ref_fail(c, e, "place %lld of %llu", (long long)place, (unsigned long long)all);
        for (uint32_t i = y->n_dims; i-- > 0; step *= y->dims[i]) {
            at += (uint64_t)(place % c->node->ref.ints[i]) * step;
            place /= c->node->ref.ints[i];
        }
        c->out[0].v[at] = c->in[0].v[k];
    }
    return 0;
}

const struct ref_operator ref_roi_align = {.check = check_roi_align, .run = run_roi_align};
const struct ref_operator ref_max_unpool = {.check = check_max_unpool, .run = run_max_unpool};
