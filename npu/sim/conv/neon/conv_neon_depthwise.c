// The inner loops of depthwise convolutions of integers with NEON's dot products
// (conv_depthwise.c has the formula and how four lines are joined to quads).
//
//   sums[c] += Σ over 4 rows: tap[row][c] (int8) * x[row][c] (int8)       one sdot for 4 channels
//
// Both are signed: taps need not be lowered, unless they are no int8 with their zero points; then
// window sums are counted, too (as in conv_depthwise_vnni.c). Four units, or two with window sums,
// have 16 registers and share the loads of a tap. Lines are joined by zips, 16 elements at a time:
//
//   a0 a1 … | b0 b1 …   --8 bits-->   a0 b0 a1 b1 …  --16 bits-->   a0 b0 c0 d0 a1 b1 c1 d1 …
//   c0 c1 … | d0 d1 …                 c0 d0 c1 d1 …
//
// Sums are exact, and wrap at 32 bits. Tests: test_sim_conv of the preset arm64.
#include "npu/sim/conv/conv_depthwise.h"
#include "npu/sim/conv/neon/conv_requantize_neon.h"

#ifdef __aarch64__

#define NEON        __attribute__((target("arch=armv8.2-a+dotprod")))
#define NEON_INLINE NEON static inline __attribute__((always_inline, no_sanitize("undefined")))
#define VECTORS     4 // of 4 channels: CONV_LANES
#define MANY        8 // neighbouring pixels whose windows share what they load
#define OUTPUTS     4 // … and that become outputs
#define MAX_COLUMNS 5
#define MAX_QUADS   (2 * MANY + MAX_COLUMNS)

// The sums of n neighbouring units, CONV_LANES elements each; `lowered`: with their window sums.
NEON_INLINE void neon_sum_lanes(const struct depthwise_line *l, size_t in, size_t out, size_t o,
                                const int n, const bool lowered)
{
    const int32_t *taps = (const int32_t *)l->taps + o;
    int32x4_t sums[DEPTHWISE_FEW * VECTORS], windows[DEPTHWISE_FEW * VECTORS];
#pragma GCC unroll 16
    for (int i = 0; i < n * VECTORS; i++)
        sums[i] = windows[i] = vdupq_n_s32(0);
    const size_t next = l->in, step = l->out;
    for (size_t k = 0; k < l->n_taps; k++, taps += l->tap) {
        const int32_t *x = (const int32_t *)l->sources[k] + in + o;
#pragma GCC unroll 4
        for (int v = 0; v < VECTORS; v++) {
            int8x16_t tap = vreinterpretq_s8_s32(vld1q_s32(taps + 4 * v));
#pragma GCC unroll 4
            for (int i = 0; i < n; i++) {
                const int at = i * VECTORS + v;
                int8x16_t quads = vreinterpretq_s8_s32(vld1q_s32(x + (size_t)i * next + 4 * v));
                sums[at] = vdotq_s32(sums[at], tap, quads);
                if (lowered)
                    windows[at] = vdotq_s32(windows[at], vdupq_n_s8(1), quads);
            }
        }
    }
    const int32_t *tap_min = l->tap_min + o;
    int32_t *to = (int32_t *)l->to + out + o;
#pragma GCC unroll 16
    for (int i = 0; i < n * VECTORS; i++) {
        const size_t lane = (size_t)i % VECTORS * 4;
        if (lowered)
            sums[i] = vmlaq_s32(sums[i], windows[i], vld1q_s32(tap_min + lane));
        vst1q_s32(to + (size_t)(i / VECTORS) * step + lane, sums[i]);
    }
}

// Whether taps are, and whether by an int8.
enum neon_lowered { NEON_AS_THEY_ARE, NEON_LOWERED, NEON_LOWERED_FAR };

// What a loop over pixels has as constants: the window's columns, and how many pixels are done.
struct neon_window {
    size_t columns, stride, n;
    enum neon_lowered lowered;
};

// Of 4 channels: four times in each one's bytes.
NEON_INLINE int8x16_t neon_lowered_by(const struct depthwise_line *l, size_t o)
{
    const uint32x4_t by = vreinterpretq_u32_s32(vld1q_s32(l->tap_min + o));
    return vreinterpretq_s8_u32(vmulq_n_u32(vandq_u32(by, vdupq_n_u32(0xff)), 0x01010101));
}

// The quads under one row of the windows of w.n pixels from `pixel` on.
NEON_INLINE void neon_find_quads(const struct depthwise_line *l, size_t row, size_t pixel,
                                 const struct neon_window w, const int32_t **at)
{
    const size_t n = (w.n - 1) * w.stride + w.columns, channels = l->out;
    at[0] = (const int32_t *)l->sources[row * w.columns] + pixel * l->in;
#pragma GCC unroll 19
    for (size_t q = 1; q < n; q++)
        at[q] = at[q - 1] + channels;
}

// Adds the products of neighbouring pixels, 4 channels each, with the quads `at`, to sums `apart`
// from each other: each quad is loaded once for all windows that it is under. What taps
// were lowered by is another tap of all quads where it is an int8; else window sums are multiplied
// by it.
NEON_INLINE void neon_add_row(const struct depthwise_line *l, const int32_t *const *at, size_t row,
                              size_t o, const struct neon_window w, int32x4_t *sums,
                              const size_t apart)
{
    const size_t n = (w.n - 1) * w.stride + w.columns;
    const int32_t *tap = (const int32_t *)l->taps + row * w.columns * l->tap + o;
    const int8x16_t by = w.lowered == NEON_LOWERED ? neon_lowered_by(l, o) : vdupq_n_s8(1);
    int8x16_t taps[MAX_COLUMNS];
    int32x4_t windows[MANY];
#pragma GCC unroll 5
    for (size_t k = 0; k < w.columns; k++)
        taps[k] = vreinterpretq_s8_s32(vld1q_s32(tap + k * l->tap));
#pragma GCC unroll 8
    for (size_t i = 0; i < w.n; i++)
        windows[i] = vdupq_n_s32(0);
#pragma GCC unroll 19
    for (size_t q = 0; q < n; q++) {
        const int8x16_t quads = vreinterpretq_s8_s32(vld1q_s32(at[q] + o));
#pragma GCC unroll 5
        for (size_t k = q % w.stride; k < w.columns; k += w.stride)
            if (k <= q && (q - k) / w.stride < w.n) {
                const size_t i = (q - k) / w.stride;
                int32x4_t *sum = sums + i * apart;
                *sum = vdotq_s32(*sum, taps[k], quads);
                if (w.lowered == NEON_LOWERED)
                    *sum = vdotq_s32(*sum, by, quads);
                else if (w.lowered)
                    windows[i] = vdotq_s32(windows[i], by, quads);
            }
    }
    const int32x4_t far = vld1q_s32(l->tap_min + o);
#pragma GCC unroll 8
    for (size_t i = 0; i < w.n; i++)
        if (w.lowered == NEON_LOWERED_FAR)
            sums[i * apart] = vmlaq_s32(sums[i * apart], windows[i], far);
}

// The sums of MANY neighbouring pixels, 4 channels each.
NEON_INLINE void neon_sum_shared(const struct depthwise_line *l, size_t pixel, size_t o,
                                 const struct neon_window w)
{
    const int32_t *at[MAX_QUADS];
    int32x4_t sums[MANY];
#pragma GCC unroll 8
    for (size_t i = 0; i < MANY; i++)
        sums[i] = vdupq_n_s32(0);
    for (size_t row = 0; row < l->n_taps / w.columns; row++) {
        neon_find_quads(l, row, pixel, w, at);
        neon_add_row(l, at, row, o, w, sums, 1);
    }
    int32_t *to = (int32_t *)l->to + pixel * l->out + o;
#pragma GCC unroll 8
    for (size_t i = 0; i < MANY; i++, to += l->out)
        vst1q_s32(to, sums[i]);
}

NEON_INLINE void neon_sum_plain(const struct depthwise_line *l, size_t in, size_t out, size_t o,
                                int n)
{
    neon_sum_lanes(l, in, out, o, n, false);
}

NEON_INLINE void neon_sum_lowered(const struct depthwise_line *l, size_t in, size_t out, size_t o,
                                  int n)
{
    neon_sum_lanes(l, in, out, o, n, true);
}

// The last MANY pixels are moved back so that they end where the line ends.
NEON_INLINE void neon_sum_all_shared(const struct depthwise_line *l, const struct neon_window w)
{
    const size_t last = l->n - MANY;
    for (size_t i = 0; i < l->n; i += MANY)
        for (size_t o = 0; o < l->out; o += 4)
            neon_sum_shared(l, i < last ? i : last, o, w);
}

// Whether a unit is a pixel, and the windows of neighbours lie so that `columns` of them follow
// each other.
static bool neon_shares(const struct depthwise_line *l, size_t columns)
{
    bool next = l->n_taps % columns == 0 && l->n * l->out == l->size;
    for (size_t k = 0; k < l->n_taps && next; k++)
        next = k % columns == 0 ||
               (const int32_t *)l->sources[k] == (const int32_t *)l->sources[k - 1] + l->out;
    return next && l->out % 4 == 0;
}

// ---- outputs ----

// Outputs of w.n pixels from `pixel` on, CONV_LANES channels each: all taps of a vector of
// channels, then the next one's. A LeakyRelu's sums are kept, without bias, for those that are
// open.
NEON_INLINE void neon_store_tile(const struct depthwise_line *l, size_t pixel, size_t o,
                                 const struct neon_window w, const enum requant_kind kind,
                                 const bool merged)
{
    const bool leaky = requant_is_leaky(kind);
    const struct requant_job *t = l->requant;
    int32x4_t sums[OUTPUTS * VECTORS];
#pragma GCC unroll 16
    for (size_t i = 0; i < w.n * VECTORS; i++)
        sums[i] = leaky ? vdupq_n_s32(0) : vld1q_s32(t->bias + o + i % VECTORS * 4);
    for (size_t row = 0; row < l->n_taps / w.columns; row++) {
        const int32_t *at[MAX_QUADS];
        neon_find_quads(l, row, pixel, w, at);
#pragma GCC unroll 4
        for (size_t v = 0; v < VECTORS; v++)
            neon_add_row(l, at, row, o + 4 * v, w, sums + v, VECTORS);
    }
    if (leaky) {
#pragma GCC unroll 16
        for (size_t i = 0; i < w.n * VECTORS; i++) {
            vst1q_s32((int32_t *)l->to + 4 * i, sums[i]);
            sums[i] = vaddq_s32(sums[i], vld1q_s32(t->bias + o + i % VECTORS * 4));
        }
    }
    const size_t first = l->first + pixel;
    if (neon_store_outputs(t, o, first * l->out + o, l->out, sums, (int)w.n, VECTORS, kind, merged))
        return;
    const struct requant_part part = {.sums = l->to,
                                      .pitch = CONV_LANES,
                                      .first = first,
                                      .n = w.n,
                                      .from = o,
                                      .count = CONV_LANES};
    conv_requantize_exact(t, &part);
}

// The last pixels are moved back so that they end where the line ends, and so are the last
// channels.
NEON_INLINE void neon_store_line(const struct depthwise_line *l, const struct neon_window w,
                                 const enum requant_kind kind, const bool merged)
{
    const size_t last = l->n - w.n, last_o = l->out - CONV_LANES;
    for (size_t o = 0; o < l->out; o += CONV_LANES)
        for (size_t i = 0; i < l->n; i += w.n)
            neon_store_tile(l, i < last ? i : last, o < last_o ? o : last_o, w, kind, merged);
}

NEON_INLINE void neon_store_window(const struct depthwise_line *l, const struct neon_window w,
                                   const enum requant_kind kind)
{
    if (kind == REQUANT_PLAIN && l->requant->merged)
        neon_store_line(l, w, kind, true);
    else
        neon_store_line(l, w, kind, false);
}

NEON_INLINE void neon_store_any(const struct depthwise_line *l, const size_t columns,
                                const size_t stride, const enum requant_kind kind)
{
    if (l->lowered_far)
        neon_store_window(l, (struct neon_window){columns, stride, OUTPUTS, NEON_LOWERED_FAR},
                          kind);
    else if (l->lowered)
        neon_store_window(l, (struct neon_window){columns, stride, OUTPUTS, NEON_LOWERED}, kind);
    else
        neon_store_window(l, (struct neon_window){columns, stride, OUTPUTS, NEON_AS_THEY_ARE},
                          kind);
}

DEPTHWISE_STORES(NEON, neon_store_any)

bool depthwise_stores(const struct depthwise_line *l)
{
    return depthwise_has_window(l) && l->n >= OUTPUTS && l->out >= CONV_LANES &&
           neon_shares(l, l->columns);
}

#define SHARED(columns, stride)                                                                    \
    NEON static void neon_sum_shared_##columns##_##stride(const struct depthwise_line *l)          \
    {                                                                                              \
        if (l->lowered_far)                                                                        \
            neon_sum_all_shared(l, (struct neon_window){columns, stride, MANY, NEON_LOWERED_FAR}); \
        else if (l->lowered)                                                                       \
            neon_sum_all_shared(l, (struct neon_window){columns, stride, MANY, NEON_LOWERED});     \
        else                                                                                       \
            neon_sum_all_shared(l, (struct neon_window){columns, stride, MANY, NEON_AS_THEY_ARE}); \
    }

SHARED(3, 1)
SHARED(3, 2)
SHARED(5, 1)
SHARED(5, 2)

NEON void depthwise_sum_quads(const struct depthwise_line *l)
{
    static void (*const sums[][2])(const struct depthwise_line *l) = {
        {neon_sum_shared_3_1, neon_sum_shared_3_2}, {neon_sum_shared_5_1, neon_sum_shared_5_2}};
    const size_t stride = l->in / l->out;
    if (l->requant)
        depthwise_store(l);
    else if (depthwise_has_window(l) && l->n >= MANY && neon_shares(l, l->columns))
        sums[l->columns == 5][stride - 1](l);
    else if (l->lowered)
        depthwise_each(l, DEPTHWISE_FEW / 2, neon_sum_lowered);
    else
        depthwise_each(l, DEPTHWISE_FEW, neon_sum_plain);
}

// 16 elements of four lines, of which n_rows are there.
static inline __attribute__((always_inline)) void
neon_interleave(const uint8_t *const *rows, const size_t n_rows, size_t at, uint32_t *to)
{
    const uint8x16_t none = vdupq_n_u8(0);
    const uint8x16_t a = vld1q_u8(rows[0] + at), b = n_rows > 1 ? vld1q_u8(rows[1] + at) : none;
    const uint8x16_t c = n_rows > 2 ? vld1q_u8(rows[2] + at) : none;
    const uint8x16_t d = n_rows > 3 ? vld1q_u8(rows[3] + at) : none;
    const uint8x16x2_t ab = vzipq_u8(a, b), cd = vzipq_u8(c, d);
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        const uint16x8x2_t quads =
            vzipq_u16(vreinterpretq_u16_u8(ab.val[i]), vreinterpretq_u16_u8(cd.val[i]));
        vst1q_u32(to + at + 8 * i, vreinterpretq_u32_u16(quads.val[0]));
        vst1q_u32(to + at + 8 * i + 4, vreinterpretq_u32_u16(quads.val[1]));
    }
}

static inline __attribute__((always_inline)) void
neon_interleave_rows(const uint8_t *const *from, const size_t n_rows, size_t n, uint32_t *to)
{
    const uint8_t *const rows[] = {from[0], from[n_rows > 1], from[n_rows > 2 ? 2 : 0],
                                   from[n_rows > 3 ? 3 : 0]};
    size_t at = 0;
    for (; at + 16 <= n; at += 16)
        neon_interleave(rows, n_rows, at, to);
    for (; at < n; at++) {
        to[at] = 0;
        for (size_t i = 0; i < n_rows; i++)
            to[at] |= (uint32_t)rows[i][at] << 8 * i;
    }
}

void depthwise_interleave(const uint8_t *const *rows, size_t n_rows, size_t n, uint32_t *to)
{
    switch (n_rows) {
    case 1:
        neon_interleave_rows(rows, 1, n, to);
        break;
    case 2:
        neon_interleave_rows(rows, 2, n, to);
        break;
    case 3:
        neon_interleave_rows(rows, 3, n, to);
        break;
    default:
        neon_interleave_rows(rows, 4, n, to);
    }
}
#endif
