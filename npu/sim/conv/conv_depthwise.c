// Convolutions with one filter for each channel.
//
//   sum[c] = Σ over taps k: x[pixel under k][c] * w[k][c]          (+ bias[c], of floats)
//
// Channels are contiguous both in the image and in the taps, so a tap is one multiplication and
// addition of whole vectors of channels; there is nothing to broadcast and nothing to add across.
// Three ways, each with its form of image lines:
//
//   integers, any CPU    lines of floats, x - x_zp; taps of floats, w + nz. Sums below 2^24 are
//                        exact in floats; conv_depthwise_fits() makes sure of that.
//   integers, VNNI       quads (NEON's dot products, too): four lines become one whose elements are
//   a byte of each of them,
//                        so one instruction does four taps below each other:
//                          line y+0   a0 a1 a2 …            element i of the joined line:
//                          line y+1   b0 b1 b2 …   --->       | ai | bi | ci | di |   32 bits
//                          line y+2   c0 c1 c2 …
//                          line y+3   d0 d1 d2 …
//                        VNNI's first factor is unsigned: the image is raised by 128 (X), while
//                        its lines are joined. NEON's are both signed (X = x). Taps that are no
//                        int8 with their zero points are lowered by as little as makes them so,
//                        and the window sum brings that back:
//                          Σ w * (x - zp) = Σ (w - by) * X  +  by * Σ X  -  (zp + 128) * Σ w
//   floats               lines of floats, or of fp16 (conv_depthwise_fp16.c)
//
// Padding is part of a line (0, or x_zp in quads), so the loops have no borders. Sums of integers
// are exact, wrapping at 32 bits with VNNI as the chips do; sums of floats are rounded tap by tap.
//
// A unit is what the kernels take for a pixel: one pixel, or with stride 1 as many neighbouring
// ones as fill vectors (3 channels: 16 pixels), so that few channels lose no lanes.
//
// Tests: test_sim_conv (integers), test_sim_fp16, test_sim_cases_depthwise.
#include <assert.h>
#include <math.h>

#include "npu/sim/conv/conv_depthwise.h"

#include "base/bytes.h"
#include "npu/sim/conv/conv_vnni.h"

#define MAX_EXACT (1 << 24)
#define MAX_INPUT 255 // size of an int8 less its zero point

typedef float lanes_f32 __attribute__((vector_size(CONV_LANES * 4), aligned(4), may_alias));
typedef int32_t lanes_i32 __attribute__((vector_size(CONV_LANES * 4), aligned(4), may_alias));

bool conv_depthwise_fits(const struct step *s)
{
    const struct graph_window *w = &s->node->window;
    const struct graph_conv_quant *q = s->node->quant;
    uint64_t taps = (uint64_t)w->kernel[0] * w->kernel[1];
    int32_t max = 0;
    for (uint64_t i = 0; i < (q->nz_in_taps ? q->n * taps : q->n); i++) {
        int32_t nz = q->nz[i] < 0 ? -q->nz[i] : q->nz[i];
        max = nz > max ? nz : max;
    }
    return taps <= DEPTHWISE_TAPS && taps * (uint64_t)(max + 128) * MAX_INPUT < MAX_EXACT;
}

bool conv_depthwise_fits_floats(const struct conv *c, const float *w)
{
    size_t taps = (size_t)c->window.kernel[0] * c->window.kernel[1];
    bool finite = true;
    for (size_t i = 0; i < taps * c->oc; i++)
        finite = finite && isfinite(w[i]);
    return finite && taps <= DEPTHWISE_TAPS && !c->transposed && c->window.groups == c->ic &&
           c->ic == c->oc;
}

// Elements of a unit.
static size_t depthwise_unit_size(const struct conv *c)
{
    size_t size = c->oc;
    while (size % CONV_LANES)
        size += c->oc;
    return c->window.stride[1] == 1 && size <= (size_t)c->ow * c->oc ? size : c->oc;
}

// Elements of a unit, rounded up to whole vectors.
static size_t depthwise_padded_unit(const struct conv *c)
{
    return align_up(depthwise_unit_size(c), CONV_LANES);
}

// A weight with its zero point.
static int32_t depthwise_weight(const struct step *s, const struct conv *c, const int8_t *w,
                                size_t o, size_t tap)
{
    size_t taps = (size_t)c->window.kernel[0] * c->window.kernel[1];
    return w[o * taps + tap] + conv_weight_zp(s->node->quant, taps, (uint32_t)o, tap);
}

// ---- quads ----

static size_t depthwise_n_quads(const struct conv *c)
{
    return ((size_t)c->window.kernel[0] + 3) / 4;
}

// What a channel's taps from low to high are lowered by to become int8.
static int32_t depthwise_lower_by(int32_t low, int32_t high)
{
    return high > INT8_MAX ? high - INT8_MAX : low < INT8_MIN ? low - INT8_MIN : 0;
}

// False: a channel's taps are more than 255 apart.
static bool depthwise_find_min_taps(const struct step *s, struct conv *c, const int8_t *w,
                                    int32_t *tap_min)
{
    size_t taps = (size_t)c->window.kernel[0] * c->window.kernel[1];
    assert(c->oc > 0);
    for (size_t o = 0; o < c->oc; o++) {
        int32_t low = INT32_MAX, high = INT32_MIN;
        for (size_t tap = 0; tap < taps; tap++) {
            int32_t v = depthwise_weight(s, c, w, o, tap);
            low = v < low ? v : low;
            high = v > high ? v : high;
        }
        tap_min[o] = depthwise_lower_by(low, high);
        c->lowered = c->lowered || tap_min[o];
        c->lowered_far = c->lowered_far || tap_min[o] < INT8_MIN || tap_min[o] > INT8_MAX;
        if (high - low > UINT8_MAX)
            return false;
    }
    for (size_t i = c->oc; i < depthwise_padded_unit(c); i++)
        tap_min[i] = tap_min[i % c->oc];
    return true;
}

// The taps (4 * quad … 4 * quad + 3, x) of a channel, less its tap_min, one in each byte. Rows that
// the window does not have are 0.
static int32_t depthwise_quad(const struct step *s, const struct conv *c, const int8_t *w, size_t o,
                              size_t quad, size_t x)
{
    uint32_t bytes = 0;
    for (size_t i = 0; i < 4 && quad * 4 + i < c->window.kernel[0]; i++) {
        size_t tap = (quad * 4 + i) * c->window.kernel[1] + x;
        bytes |= (uint32_t)(uint8_t)(depthwise_weight(s, c, w, o, tap) - c->tap_min[o]) << 8 * i;
    }
    return (int32_t)bytes;
}

// Subtracts what the image's zero point makes of Σ w from the bias of a channel, and from its
// copies, which are read where few channels share a vector.
static void depthwise_lower_bias(const struct step *s, struct conv *c, const int8_t *w, size_t o)
{
    uint32_t sum = 0, zp = (uint32_t)c->x_zp + VNNI_RAISE;
    for (size_t tap = 0; tap < (size_t)c->window.kernel[0] * c->window.kernel[1]; tap++)
        sum += (uint32_t)depthwise_weight(s, c, w, o, tap);
    for (size_t i = o; i < c->oc + CONV_MORE; i += c->oc)
        c->bias[i] = (int32_t)((uint32_t)c->bias[i] - zp * sum);
}

static int depthwise_prepare_vnni(struct step *s, struct conv *c, const int8_t *w, struct error *e)
{
    size_t columns = c->window.kernel[1], padded = depthwise_padded_unit(c);
    size_t n = depthwise_n_quads(c) * columns * padded;
    int32_t *taps = c->taps = step_alloc(s, n, sizeof *taps);
    if (!taps)
        return error_no_memory(e, "a weight", n * sizeof *taps);
    for (size_t i = 0; i < n; i++)
        taps[i] =
            depthwise_quad(s, c, w, i % padded % c->oc, i / padded / columns, i / padded % columns);
    for (size_t o = 0; o < c->oc; o++)
        depthwise_lower_bias(s, c, w, o);
    return 0;
}

static int depthwise_prepare_integers_fp32(struct step *s, struct conv *c, const int8_t *w,
                                           struct error *e)
{
    size_t padded = depthwise_padded_unit(c);
    size_t n = (size_t)c->window.kernel[0] * c->window.kernel[1] * padded;
    float *taps = c->taps = step_alloc(s, n, sizeof *taps);
    if (!taps)
        return error_no_memory(e, "a weight", n * sizeof *taps);
    for (size_t i = 0; i < n; i++)
        taps[i] = (float)depthwise_weight(s, c, w, i % padded % c->oc, i / padded);
    return 0;
}

int conv_depthwise_prepare(struct step *s, struct conv *c, const int8_t *w, struct error *e)
{
    if (!conv_vnni_has_dot())
        return depthwise_prepare_integers_fp32(s, c, w, e);
    c->tap_min = step_alloc(s, depthwise_padded_unit(c), sizeof *c->tap_min);
    if (!c->tap_min)
        return error_no_memory(e, "a weight", depthwise_padded_unit(c) * sizeof *c->tap_min);
    if (depthwise_find_min_taps(s, c, w, c->tap_min))
        return depthwise_prepare_vnni(s, c, w, e);
    c->tap_min = NULL;
    return depthwise_prepare_integers_fp32(s, c, w, e);
}

int conv_depthwise_prepare_floats(struct step *s, struct conv *c, const float *w, struct error *e)
{
    size_t padded = depthwise_padded_unit(c);
    size_t n_taps = (size_t)c->window.kernel[0] * c->window.kernel[1];
    float *taps = c->taps = step_alloc(s, (n_taps + 1) * padded, sizeof *taps);
    if (!taps)
        return error_no_memory(e, "a weight", (n_taps + 1) * padded * sizeof *taps);
    c->image_form = element_form(step_input(s, 0));
    c->fp16 = depthwise_fits_fp16(s, c);
    c->fp16_outputs = c->fp16 && depthwise_outputs_fp16(s, c, &c->bounds);
    for (size_t tap = 0; tap < n_taps; tap++)
        for (size_t i = 0; i < padded; i++)
            *taps++ = w[i % c->oc * n_taps + tap];
    for (size_t i = 0; i < padded; i++)
        *taps++ = c->float_bias ? c->float_bias[i % c->oc] : 0;
    return 0;
}

// ---- lines of the image ----

static size_t depthwise_line_element(const struct conv *c)
{
    return c->fp16 ? sizeof(uint16_t) : sizeof(float);
}

static uint64_t depthwise_line_size(const struct conv *c)
{
    return conv_lines_size(c, depthwise_line_element(c), c->fp16 ? 0 : CONV_LANES);
}

static int depthwise_vnni_scratch(struct step *s, struct conv *c, struct error *e)
{
    uint64_t size;
    if (__builtin_mul_overflow(depthwise_line_size(c), depthwise_n_quads(c), &size))
        size = UINT64_MAX;
    int r = step_scratch(s, size, &c->quads_at, e);
    return r < 0 ? r : conv_lines_scratch(s, c, conv_lines_bytes_size(c), &c->lines_at, e);
}

int conv_depthwise_scratch(struct step *s, struct conv *c, struct error *e)
{
    uint64_t sums = c->fp16_outputs ? 0 : (uint64_t)c->ow * c->oc + CONV_LANES;
    int r = step_scratch(s, sums * sizeof(int32_t), &c->sums_at, e);
    if (r < 0)
        return r;
    return c->tap_min ? depthwise_vnni_scratch(s, c, e)
                      : conv_lines_scratch(s, c, depthwise_line_size(c), &c->lines_at, e);
}

KERNEL(void, depthwise_widen, (const int8_t *restrict x, int32_t zp, size_t n, float *restrict dst),
       (x, zp, n, dst))
{
    for (size_t i = 0; i < n; i++)
        dst[i] = (float)(x[i] - zp);
}

static void depthwise_load_line(const struct conv_lines *l, const int8_t *x, void *line)
{
    uint8_t *to = line;
    const struct conv *c = l->c;
    size_t n = (size_t)c->iw * c->ic, size = n * depthwise_line_element(c);
    size_t before = (size_t)c->window.pad[1] * c->ic * depthwise_line_element(c);
    memset(to, 0, before);
    if (c->integer)
        depthwise_widen(x, c->x_zp, n, (float *)(to + before));
    else if (c->fp16)
        memcpy(to + before, x, size);
    else
        elements_load(&c->image_form, x, n, (float *)(to + before));
    memset(to + before + size, 0, l->size - before - size);
}

// Joins the lines of bytes under a window to lines of quads; rows[i] becomes the i-th of these.
static void depthwise_make_quads(const struct conv *c, struct run *r, const void **rows)
{
    size_t size = depthwise_line_size(c), n = size / sizeof(uint32_t) - CONV_LANES;
    uint8_t *quads = run_scratch(r, c->quads_at);
    for (size_t i = 0; i < depthwise_n_quads(c); i++, quads += size) {
        size_t left = c->window.kernel[0] - 4 * i;
        depthwise_interleave((const uint8_t *const *)(rows + 4 * i), left, n, (uint32_t *)quads);
        rows[i] = quads;
    }
}

// ---- sums of floats ----

// The sums of n neighbouring units, CONV_LANES elements each: n registers of sums, and one tap that
// is loaded for all of them. Floats get their bias, which lies behind the taps.
static inline __attribute__((always_inline)) void
depthwise_sum_lanes(const struct depthwise_line *l, size_t in, size_t out, size_t o, const int n,
                    const bool real)
{
    lanes_f32 sums[DEPTHWISE_UNROLL] = {0}, bias = {0};
    const float *taps = (const float *)l->taps + o;
    if (real)
        bias = *(const lanes_f32 *)(taps + l->n_taps * l->tap);
    for (size_t k = 0; k < l->n_taps; k++, taps += l->tap) {
        const float *x = (const float *)l->sources[k] + in + o;
        for (int i = 0; i < n; i++)
            sums[i] += *(const lanes_f32 *)(x + (size_t)i * l->in) * *(const lanes_f32 *)taps;
    }
    int32_t *to = (int32_t *)l->to + out + o;
    size_t step = l->out;
    for (int i = 0; i < n; i++, to += step)
        if (real)
            *(lanes_f32 *)to = sums[i] + bias;
        else
            *(lanes_i32 *)to = __builtin_convertvector(sums[i], lanes_i32);
}

// The same with vectors as CPUs without AVX512 have them: of larger ones compilers keep the sums in
// memory.
#ifdef __x86_64__
#define NARROW 8
#else
#define NARROW 4
#endif
#define NARROW_PARTS (CONV_LANES / NARROW)

typedef float narrow_f32 __attribute__((vector_size(NARROW * 4), aligned(4), may_alias));
typedef int32_t narrow_i32 __attribute__((vector_size(NARROW * 4), aligned(4), may_alias));

static inline __attribute__((always_inline)) void
depthwise_sum_narrow(const struct depthwise_line *l, size_t in, size_t out, size_t o, const int n,
                     const bool real)
{
    narrow_f32 sums[DEPTHWISE_FEW * NARROW_PARTS] = {0};
    const float *taps = (const float *)l->taps + o;
    const size_t next = l->in, step = l->out;
    for (size_t k = 0; k < l->n_taps; k++, taps += l->tap) {
        const float *x = (const float *)l->sources[k] + in + o;
        narrow_f32 tap[NARROW_PARTS];
#pragma GCC unroll 4
        for (int v = 0; v < NARROW_PARTS; v++)
            tap[v] = *(const narrow_f32 *)(taps + v * NARROW);
#pragma GCC unroll 4
        for (int i = 0; i < n; i++, x += next) {
            narrow_f32 parts[NARROW_PARTS];
#pragma GCC unroll 4
            for (int v = 0; v < NARROW_PARTS; v++)
                parts[v] = *(const narrow_f32 *)(x + v * NARROW);
#pragma GCC unroll 4
            for (int v = 0; v < NARROW_PARTS; v++)
                sums[i * NARROW_PARTS + v] += parts[v] * tap[v];
        }
    }
    narrow_f32 bias[NARROW_PARTS]; // of floats: behind the taps
    int32_t *to = (int32_t *)l->to + out + o;
#pragma GCC unroll 4
    for (int v = 0; v < NARROW_PARTS && real; v++)
        bias[v] = *(const narrow_f32 *)(taps + v * NARROW);
#pragma GCC unroll 4
    for (int i = 0; i < n; i++, to += step)
#pragma GCC unroll 4
        for (int v = 0; v < NARROW_PARTS; v++)
            if (real)
                *(narrow_f32 *)(to + v * NARROW) = sums[i * NARROW_PARTS + v] + bias[v];
            else
                *(narrow_i32 *)(to + v * NARROW) =
                    __builtin_convertvector(sums[i * NARROW_PARTS + v], narrow_i32);
}

static inline __attribute__((always_inline)) void
depthwise_narrow_integers(const struct depthwise_line *l, size_t in, size_t out, size_t o, int n)
{
    depthwise_sum_narrow(l, in, out, o, n, false);
}

static inline __attribute__((always_inline)) void
depthwise_narrow_floats(const struct depthwise_line *l, size_t in, size_t out, size_t o, int n)
{
    depthwise_sum_narrow(l, in, out, o, n, true);
}

static inline __attribute__((always_inline)) void
depthwise_sum_integer_lanes(const struct depthwise_line *l, size_t in, size_t out, size_t o, int n)
{
    depthwise_sum_lanes(l, in, out, o, n, false);
}

static inline __attribute__((always_inline)) void
depthwise_sum_float_lanes(const struct depthwise_line *l, size_t in, size_t out, size_t o, int n)
{
    depthwise_sum_lanes(l, in, out, o, n, true);
}

KERNEL(void, depthwise_sum_integers, (const struct depthwise_line *l), (l))
{
    if (kernel_has_avx512())
        depthwise_each(l, DEPTHWISE_UNROLL, depthwise_sum_integer_lanes);
    else
        depthwise_each(l, DEPTHWISE_FEW, depthwise_narrow_integers);
}

KERNEL(void, depthwise_sum_floats, (const struct depthwise_line *l), (l))
{
    if (kernel_has_avx512())
        depthwise_each(l, DEPTHWISE_UNROLL, depthwise_sum_float_lanes);
    else
        depthwise_each(l, DEPTHWISE_FEW, depthwise_narrow_floats);
}

// ---- running ----

// Rows of taps: of the window, or of quads.
static size_t depthwise_n_rows(const struct conv *c)
{
    return c->tap_min ? depthwise_n_quads(c) : c->window.kernel[0];
}

static void depthwise_find_sources(const struct conv *c, struct run *r, struct conv_lines *lines,
                                   uint32_t y, struct depthwise_line *l)
{
    const void *rows[DEPTHWISE_TAPS];
    size_t column = (size_t)c->window.dilation[1] * c->ic * depthwise_line_element(c), k = 0;
    conv_lines_find(lines, y, rows);
    if (c->tap_min)
        depthwise_make_quads(c, r, rows);
    for (size_t i = 0; i < depthwise_n_rows(c); i++)
        for (size_t x = 0; x < c->window.kernel[1]; x++)
            l->sources[k++] = (const uint8_t *)rows[i] + x * column;
}

static void depthwise_describe_line(const struct conv *c, struct run *r, struct depthwise_line *l)
{
    const struct graph_window *w = &c->window;
    l->taps = c->taps;
    l->tap_min = c->tap_min;
    l->lowered = c->lowered;
    l->lowered_far = c->lowered_far;
    l->n_taps = depthwise_n_rows(c) * w->kernel[1];
    l->columns = w->kernel[1];
    l->tap = depthwise_padded_unit(c);
    l->size = (size_t)c->ow * c->oc;
    l->out = depthwise_unit_size(c);
    l->n = l->size / l->out;
    l->in = l->out * w->stride[1];
    l->pixel = (size_t)w->dilation[1] * c->ic;
    l->to = run_scratch(r, c->sums_at);
    l->outputs = c->fp16_outputs;
    l->bounds = c->bounds;
    l->sum = c->tap_min   ? depthwise_sum_quads
             : c->integer ? depthwise_sum_integers
             : c->fp16    ? depthwise_sum_fp16
                          : depthwise_sum_floats;
}

static struct conv_lines depthwise_make_lines(const struct conv *c, struct run *r)
{
    if (c->tap_min)
        return conv_lines_of_bytes(c, 0, run_scratch(r, c->lines_at));
    struct conv_lines l = conv_lines(c, depthwise_line_size(c), run_scratch(r, c->lines_at));
    bool direct = c->fp16 && !c->window.pad[1] && !c->window.pad[3];
    l.load = direct ? NULL : depthwise_load_line;
    l.element = c->integer ? 1 : tensor_type_size(c->image_form.type);
    memset(l.border, 0, l.size);
    return l;
}

// Whether the kernel makes outputs, by `job`, of a line whose sources are known: units are pixels.
static bool depthwise_makes_outputs(const struct conv *c, const struct depthwise_line *l,
                                    const struct requant_job *job)
{
    const struct conv_requant *f = &c->requant;
    return c->tap_min && f->kind != REQUANT_NONE && !requant_has_addend(f->kind) &&
           !f->in_doubles && !f->own_bias && job->narrow && l->out == c->oc && depthwise_stores(l);
}

void conv_depthwise_run(const struct step *s, const struct conv *c, struct run *r,
                        const int8_t *image)
{
    struct depthwise_line l;
    struct requant_job job = {.narrow = false};
    struct conv_lines lines = depthwise_make_lines(c, r);
    depthwise_describe_line(c, r, &l);
    // As around oneDNN's kernels. Reading what was set before waits for all sums that are under
    // way, so it is done once, or where an epilogue follows each line for each; integers need none.
    const bool once = c->fp16_outputs, each = !once && !c->integer;
    uint32_t before = once ? kernel_drop_denormals() : 0;
    if (c->integer && c->requant.kind != REQUANT_NONE)
        conv_requantize_begin(s, c, r, &job);
    for (uint32_t n = 0; n < c->n; n++) {
        conv_lines_begin(&lines, image + (size_t)n * c->ih * c->iw * c->ic * lines.element);
        for (uint32_t y = 0; y < c->oh; y++) {
            size_t first = ((size_t)n * c->oh + y) * c->ow;
            depthwise_find_sources(c, r, &lines, y, &l);
            if (c->fp16_outputs)
                l.to = (uint16_t *)run_output(s, r, 0) + first * c->oc;
            l.first = first;
            l.requant = depthwise_makes_outputs(c, &l, &job) ? &job : NULL;
            uint32_t denormals = each ? kernel_drop_denormals() : 0;
            l.sum(&l);
            if (each)
                kernel_keep_denormals(denormals);
            if (!c->fp16_outputs && !l.requant)
                conv_epilogue(s, c, r, l.to, first, c->ow);
        }
    }
    if (once)
        kernel_keep_denormals(before);
}
