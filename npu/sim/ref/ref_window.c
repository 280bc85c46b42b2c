// Convolutions and pools of any number of dimensions, also of integers with zero points
// (ConvInteger), and MaxPool with the indices of the maxima. The formula, tap by tap:
//
//   at = p * stride + k * dilation - pad
//   y[n, o, p] = bias[o] + Σ_c Σ_k (x[n, c, at] - zx) * (w[o, c, k] - zw)
//
// ConvTranspose adds each x times the kernel into y instead. Integers are exact in 64 bits.
// Tests: test_onnx_nodes (ONNX's own cases), test_onnx_against.
#include <math.h>

#include "npu/sim/ref/ref.h"

#define MAX_POOL_TAPS 512       // of windows that are looked up together
#define MAX_TAPS      (1 << 24) // of one window of a MaxPool

// The node's ints, as in ref.h.
struct window {
    int64_t n, groups, flags;
    const int64_t *kernel, *stride, *dilation, *begin, *end;
};

// ints: dimensions, groups, flags, then per dimension kernel, stride, dilation, padding in front
// and behind.
static struct window window_of(const struct ref_call *c)
{
    const int64_t *v = c->node->ref.ints, n = v[0];
    const int64_t *of = v + 3;
    return (struct window){n, v[1], v[2], of, of + n, of + 2 * n, of + 3 * n, of + 4 * n};
}

static uint64_t window_product(const int64_t *v, int64_t n)
{
    uint64_t p = 1;
    for (int64_t i = 0; i < n; i++)
        p *= (uint64_t)v[i];
    return p;
}

// Where tap `tap` of the window at `index` (both counted in plain order, the index in a space of
// `over`) is in an image of `dims`: an offset, or -1 outside. *padded: not beyond the padding.
static int64_t window_place(const struct window *w, uint64_t index, const uint32_t *over,
                            uint64_t tap, const uint32_t *dims, bool *padded)
{
    int64_t at = 0, step = 1;
    bool inside = true;
    *padded = true;
    for (int64_t i = w->n; i-- > 0;) {
        int64_t own = (int64_t)(index % over[i]), k = (int64_t)(tap % (uint64_t)w->kernel[i]);
        int64_t p = own * w->stride[i] + k * w->dilation[i] - w->begin[i];
        inside = inside && p >= 0 && p < dims[i];
        *padded = *padded && p < dims[i] + w->end[i];
        at += p * step;
        step *= dims[i];
        index /= over[i];
        tap /= (uint64_t)w->kernel[i];
    }
    return inside ? at : -1;
}

// Elements of one channel.
static uint64_t image_size(const struct graph_tensor *t)
{
    return nd_axis(t, 1).inner;
}

static union ref_value window_times(union ref_value a, union ref_value b, bool real,
                                    union ref_value sum)
{
    return real
               ? (union ref_value){.r = sum.r + a.r * b.r}
               : (union ref_value){.i = (int64_t)((uint64_t)sum.i + (uint64_t)a.i * (uint64_t)b.i)};
}

// ---- Conv, ConvInteger, ConvTranspose ----

static bool same_kind(const struct ref_call *c, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++)
        if (c->in[i].t && c->in[i].real != c->in[0].real)
            return false;
    return c->in[0].real == c->out[0].real;
}

// A zero point: none, one, or one for each output channel.
static bool fits_zero(const struct ref_tensor *zero, uint64_t channels)
{
    return !zero->t || zero->t->n_elems == 1 || zero->t->n_elems == channels;
}

// Weights are [o][c / groups][kernel], of a transposed convolution [c][o / groups][kernel]: `own`
// is the tensor whose channels are the first dimension.
static int check_conv(const struct ref_call *c, uint64_t *ret_extra, struct error *e)
{
    (void)ret_extra;
    const struct graph_tensor *x = c->in[0].t, *w = c->in[1].t, *y = c->out[0].t;
    struct window s = window_of(c);
    bool integer = s.flags & REF_ZERO_POINTS, transposed = s.flags & REF_TRANSPOSED;
    bool fits = x && w && y && same_kind(c, integer ? 4 : 3) && x->n_dims == s.n + 2 &&
                w->n_dims == s.n + 2 && y->n_dims == s.n + 2 && x->dims[0] == y->dims[0];
    for (int64_t i = 0; i < s.n && fits; i++)
        fits = w->dims[2 + i] == s.kernel[i];
    uint32_t more = transposed ? 0 : 1; // which of x and y has a weight's own channels
    const struct graph_tensor *own = more ? y : x, *other = more ? x : y;
    fits = fits && own->dims[1] == w->dims[0] && other->dims[1] == w->dims[1] * s.groups &&
           w->dims[0] % s.groups == 0;
    if (integer)
        fits =
            fits && (!c->in[2].t || c->in[2].t->n_elems == 1) && fits_zero(&c->in[3], y->dims[1]);
    else
        fits = fits && (!c->in[2].t || c->in[2].t->n_elems == y->dims[1]);
    return fits ? 0 : ref_refuse(c, e, "its inputs and outputs do not fit together");
}

// In place, in scratch memory, so that the loops need no zero points. Padding is 0 then, as it
// should be: it stands for the zero point.
static void subtract_zero(const struct ref_tensor *x, const struct ref_tensor *zero)
{
    uint64_t each = zero->t && zero->t->n_elems ? x->t->n_elems / zero->t->n_elems : 0;
    for (uint64_t k = 0; each && k < x->t->n_elems; k++)
        x->v[k].i -= zero->v[k / each].i;
}

// One element of the output.
static union ref_value window_convolve(const struct ref_call *c, const struct window *s,
                                       uint64_t image, uint64_t channel, uint64_t index)
{
    const struct graph_tensor *x = c->in[0].t, *w = c->in[1].t, *y = c->out[0].t;
    uint64_t taps = window_product(s->kernel, s->n), pixels = image_size(x), inputs = w->dims[1];
    uint64_t group = channel / (y->dims[1] / (uint64_t)s->groups);
    const union ref_value *from = c->in[0].v + (image * x->dims[1] + group * inputs) * pixels;
    const union ref_value *weight = c->in[1].v + channel * inputs * taps;
    bool bias = c->in[2].t && !(s->flags & REF_ZERO_POINTS), padded;
    union ref_value sum = bias ? c->in[2].v[channel] : (union ref_value){0};
    for (uint64_t tap = 0; tap < taps; tap++) {
        int64_t at = window_place(s, index, y->dims + 2, tap, x->dims + 2, &padded);
        for (uint64_t i = 0; i < inputs && at >= 0; i++)
            sum = window_times(from[i * pixels + (uint64_t)at], weight[i * taps + tap],
                               c->in[0].real, sum);
    }
    return sum;
}

static int run_conv(struct ref_call *c, struct error *e)
{
    (void)e;
    struct window s = window_of(c);
    const struct graph_tensor *y = c->out[0].t;
    uint64_t pixels = image_size(y);
    if (s.flags & REF_ZERO_POINTS) {
        subtract_zero(&c->in[0], &c->in[2]);
        subtract_zero(&c->in[1], &c->in[3]);
    }
    for (uint64_t k = 0; k < y->n_elems; k++)
        c->out[0].v[k] =
            window_convolve(c, &s, k / pixels / y->dims[1], k / pixels % y->dims[1], k % pixels);
    return 0;
}

// Adds what one element of x gives to an output channel.
static void window_spread(const struct ref_call *c, const struct window *s, uint64_t k,
                          uint64_t output, union ref_value *to)
{
    const struct graph_tensor *x = c->in[0].t, *w = c->in[1].t, *y = c->out[0].t;
    uint64_t taps = window_product(s->kernel, s->n), pixels = image_size(x);
    uint64_t channel = k / pixels % x->dims[1];
    const union ref_value *weight = c->in[1].v + (channel * w->dims[1] + output) * taps;
    bool padded;
    for (uint64_t tap = 0; tap < taps; tap++) {
        int64_t at = window_place(s, k % pixels, x->dims + 2, tap, y->dims + 2, &padded);
        if (at >= 0)
            to[at] = window_times(c->in[0].v[k], weight[tap], c->in[0].real, to[at]);
    }
}

static int run_conv_transpose(struct ref_call *c, struct error *e)
{
    (void)e;
    struct window s = window_of(c);
    const struct graph_tensor *x = c->in[0].t, *y = c->out[0].t;
    uint64_t pixels = image_size(x), size = image_size(y), outputs = c->in[1].t->dims[1];
    uint64_t inputs = x->dims[1] / (uint64_t)s.groups;
    for (uint64_t k = 0; k < y->n_elems; k++)
        c->out[0].v[k] = c->in[2].t ? c->in[2].v[k / size % y->dims[1]] : (union ref_value){0};
    for (uint64_t k = 0; k < x->n_elems; k++) {
        uint64_t image = k / pixels / x->dims[1], group = k / pixels % x->dims[1] / inputs;
        union ref_value *to = c->out[0].v + (image * y->dims[1] + group * outputs) * size;
        for (uint64_t o = 0; o < outputs; o++)
            window_spread(c, &s, k, o, to + o * size);
    }
    return 0;
}

// ---- MaxPool, AveragePool ----

static int check_pool(const struct ref_call *c, uint64_t *ret_extra, struct error *e)
{
    (void)ret_extra;
    const struct graph_tensor *x = c->in[0].t, *y = c->out[0].t, *at = c->out[1].t;
    bool fits = x && y && same_kind(c, 1) && x->n_dims == y->n_dims &&
                x->n_dims == c->node->ref.ints[0] + 2 && x->dims[0] == y->dims[0] &&
                x->dims[1] == y->dims[1] && (!at || at->n_elems == y->n_elems);
    return fits ? 0 : ref_refuse(c, e, "its input and output do not fit together");
}

// The index of a maximum as the node counts it: in the whole tensor, with storage_order 1 counting
// the first spatial dimension fastest.
static int64_t index_of(const struct window *s, const struct graph_tensor *x, uint64_t plane,
                        int64_t at)
{
    int64_t columns_first = 0, step = 1, left = at, size = (int64_t)image_size(x);
    int64_t index[GRAPH_MAX_DIMS];
    if (!(s->flags & REF_COLUMNS_FIRST))
        return (int64_t)plane * size + at;
    for (int64_t i = s->n; i-- > 0;) {
        index[i] = left % x->dims[2 + i];
        left /= x->dims[2 + i];
    }
    for (int64_t i = 0; i < s->n; i++) {
        columns_first += index[i] * step;
        step *= x->dims[2 + i];
    }
    return (int64_t)plane * size + columns_first;
}

static bool is_more(union ref_value a, union ref_value b, bool real)
{
    return real ? a.r > b.r : a.i > b.i;
}

// The first maximum wins. Padding never does: a window of padding only is an error. Where the taps
// of some windows are is looked up once for all planes, in `extra`.
static int max_pool_windows(struct ref_call *c, const struct window *s, uint64_t first, uint64_t n,
                            struct error *e)
{
    const struct graph_tensor *x = c->in[0].t, *y = c->out[0].t;
    const uint64_t pixels = image_size(x), size = image_size(y),
                   taps = window_product(s->kernel, s->n), planes = y->n_elems / size;
    bool padded;
    for (uint64_t k = 0; k < n * taps; k++)
        c->extra[k].i =
            window_place(s, first + k / taps, y->dims + 2, k % taps, x->dims + 2, &padded);
    for (uint64_t k = 0; k < planes * n; k++) {
        const uint64_t plane = k / n, to = plane * size + first + k % n;
        const union ref_value *from = c->in[0].v + plane * pixels, *at = c->extra + k % n * taps;
        int64_t best = -1;
        for (uint64_t tap = 0; tap < taps; tap++)
            if (at[tap].i >= 0 && (best < 0 || is_more(from[at[tap].i], from[best], c->in[0].real)))
                best = at[tap].i;
        if (best < 0)
            return ref_fail(c, e, "a window lies outside its image");
        c->out[0].v[to] = from[best];
        if (c->out[1].t)
            c->out[1].v[to].i = index_of(s, x, plane, best);
    }
    return 0;
}

static uint64_t max_pool_together(const struct window *s)
{
    const uint64_t taps = window_product(s->kernel, s->n);
    return taps < MAX_POOL_TAPS ? MAX_POOL_TAPS / taps : 1;
}

static int check_max_pool(const struct ref_call *c, uint64_t *ret_extra, struct error *e)
{
    int r = check_pool(c, ret_extra, e);
    if (r < 0)
        return r;
    const struct window s = window_of(c);
    uint64_t taps = 1;
    for (int64_t i = 0; i < s.n && taps <= MAX_TAPS; i++)
        taps *= (uint64_t)s.kernel[i];
    if (taps > MAX_TAPS)
        return ref_refuse(c, e, "its window has more than %d taps", MAX_TAPS);
    *ret_extra = max_pool_together(&s) * taps;
    return 0;
}

static int run_max_pool(struct ref_call *c, struct error *e)
{
    const struct window s = window_of(c);
    const uint64_t size = image_size(c->out[0].t), together = max_pool_together(&s);
    int r = 0;
    for (uint64_t k = 0; k < size && r == 0; k += together)
        r = max_pool_windows(c, &s, k, size - k < together ? size - k : together, e);
    return r;
}

// The divisor is the number of taps inside, with count_include_pad also those in the padding, but
// not those that only ceil_mode adds behind it.
static int run_average_pool(struct ref_call *c, struct error *e)
{
    struct window s = window_of(c);
    const struct graph_tensor *x = c->in[0].t, *y = c->out[0].t;
    uint64_t pixels = image_size(x), size = image_size(y), taps = window_product(s.kernel, s.n);
    for (uint64_t k = 0; k < y->n_elems; k++) {
        const union ref_value *from = c->in[0].v + k / size * pixels;
        double sum = 0, count = 0;
        for (uint64_t tap = 0; tap < taps; tap++) {
            bool padded;
            int64_t at = window_place(&s, k % size, y->dims + 2, tap, x->dims + 2, &padded);
            sum += at >= 0 ? from[at].r : 0;
            count += s.flags & REF_COUNT_PAD ? padded : at >= 0;
        }
        if (count == 0)
            return ref_fail(c, e, "a window lies outside its image");
        c->out[0].v[k].r = sum / count;
    }
    return 0;
}

const struct ref_operator ref_conv = {.check = check_conv, .run = run_conv};
const struct ref_operator ref_conv_transpose = {.check = check_conv, .run = run_conv_transpose};
const struct ref_operator ref_max_pool = {.check = check_max_pool, .run = run_max_pool};
const struct ref_operator ref_average_pool = {.check = check_pool, .run = run_average_pool};
