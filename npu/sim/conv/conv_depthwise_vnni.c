// The inner loops of depthwise convolutions of integers with AVX512-VNNI (conv_depthwise.c has the
// formula and how four lines are joined to quads).
//
//   sums[c]        += Σ over 4 rows: X[row][c] (uint8) * tap[row][c] (int8)      one vpdpbusd
//   window_sums[c] += Σ over 4 rows: X[row][c] * 1, where taps are lowered       another one
//   result[c]       = sums[c] + tap_min[c] * window_sums[c]                      exact, 32 bits
//   that wrap
//
// Why it is fast: a vpdpbusd does 64 of the multiplications, for four rows and 16 channels; 8 units
// share the load of a tap. Of windows of usual sizes a quad is loaded once for all neighbouring
// pixels that it is under, its bytes are added once, and sums become outputs in registers. Lines
// are joined 64 elements at a time: dwords change places first, so that unpacking, which works in
// 128-bit lanes, leaves quads in order.
//
//   a0 a1 … | b0 b1 …   --8 bits-->   a0 b0 a1 b1 …  --16 bits-->   a0 b0 c0 d0 a1 b1 c1 d1 …
//   c0 c1 … | d0 d1 …                 c0 d0 c1 d1 …
//
// Tests: test_sim_conv (on CPUs with AVX512-VNNI).
#include <stdlib.h>

#include "npu/sim/conv/conv_depthwise.h"
#include "npu/sim/conv/conv_requantize_avx512.h"
#include "npu/sim/conv/conv_vnni.h"

#ifdef __x86_64__
#define MANY        8 // neighbouring pixels of a tile
#define FEW         4
#define MAX_COLUMNS 5

// ---- sums ----

// The sums of n neighbouring units, CONV_LANES elements each.
VNNI_INLINE void depthwise_vnni_sum_lanes(const struct depthwise_line *l, size_t in, size_t out,
                                          size_t o, const int n, const bool lowered)
{
    const int32_t *taps = (const int32_t *)l->taps + o;
    const __m512i ones = _mm512_set1_epi8(1), tap_min = _mm512_loadu_si512(l->tap_min + o);
    __m512i sums[DEPTHWISE_UNROLL], window_sums[DEPTHWISE_UNROLL];
#pragma GCC unroll 8
    for (int i = 0; i < n; i++)
        sums[i] = window_sums[i] = _mm512_setzero_si512();
    for (size_t k = 0; k < l->n_taps; k++, taps += l->tap) {
        const int32_t *x = (const int32_t *)l->sources[k] + in + o;
        __m512i tap = _mm512_loadu_si512(taps);
#pragma GCC unroll 8
        for (int i = 0; i < n; i++) {
            __m512i quad = _mm512_loadu_si512(x + (size_t)i * l->in);
            vnni_add_products(&sums[i], quad, tap);
            if (lowered)
                vnni_add_products(&window_sums[i], quad, ones);
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < n; i++) {
        if (lowered)
            sums[i] = _mm512_add_epi32(sums[i], _mm512_mullo_epi32(window_sums[i], tap_min));
        _mm512_storeu_si512((int32_t *)l->to + out + o + (size_t)i * l->out, sums[i]);
    }
}

VNNI_INLINE void depthwise_vnni_sum_plain(const struct depthwise_line *l, size_t in, size_t out,
                                          size_t o, const int n)
{
    depthwise_vnni_sum_lanes(l, in, out, o, n, false);
}

VNNI_INLINE void depthwise_vnni_sum_lowered(const struct depthwise_line *l, size_t in, size_t out,
                                            size_t o, const int n)
{
    depthwise_vnni_sum_lanes(l, in, out, o, n, true);
}

// ---- outputs ----

// What a loop over pixels has as constants: the window's columns, how many pixels are done, and
// whether taps are lowered.
struct vnni_window {
    int columns, stride, n;
    bool lowered;
};

// The sums of a tile, and those that make window sums: of each quad with stride 1, where
// neighbouring windows share most of them, else of each window.
struct vnni_tile {
    __m512i sums[MANY], bytes[MANY + MAX_COLUMNS - 1];
};

VNNI_INLINE bool depthwise_vnni_is_under(const struct vnni_window w, int q, int i)
{
    return q >= i * w.stride && q < i * w.stride + w.columns;
}

// Adds the products of neighbouring pixels under one row of quads: each is loaded once for all
// windows that it is under.
VNNI_INLINE void depthwise_vnni_add_row(const struct depthwise_line *l, size_t row, size_t pixel,
                                        size_t o, const struct vnni_window w, struct vnni_tile *t)
{
    const size_t first = row * (size_t)w.columns, next = l->out;
    const int32_t *tap = (const int32_t *)l->taps + first * l->tap + o;
    const int32_t *x = (const int32_t *)l->sources[first] + pixel * l->in + o;
    const __m512i ones = _mm512_set1_epi8(1);
    __m512i taps[MAX_COLUMNS];
#pragma GCC unroll 5
    for (int k = 0; k < w.columns; k++, tap += l->tap)
        taps[k] = _mm512_loadu_si512(tap);
#pragma GCC unroll 19
    for (int q = 0; q < (w.n - 1) * w.stride + w.columns; q++, x += next) {
        __m512i quad = _mm512_loadu_si512(x);
        if (w.lowered && w.stride == 1)
            vnni_add_products(&t->bytes[q], quad, ones);
#pragma GCC unroll 8
        for (int i = 0; i < w.n; i++) {
            if (!depthwise_vnni_is_under(w, q, i))
                continue;
            vnni_add_products(&t->sums[i], quad, taps[q - i * w.stride]);
            if (w.lowered && w.stride > 1)
                vnni_add_products(&t->bytes[i], quad, ones);
        }
    }
}

// Adds what taps were lowered by.
VNNI_INLINE void depthwise_vnni_add_windows(const struct vnni_window w, __m512i by,
                                            struct vnni_tile *t)
{
    __m512i window = t->bytes[0];
    const int shared = w.stride == 1 ? w.columns : 1;
#pragma GCC unroll 4
    for (int k = 1; k < shared; k++)
        window = _mm512_add_epi32(window, t->bytes[k]);
#pragma GCC unroll 8
    for (int i = 0; i < w.n; i++) {
        if (i && w.stride == 1)
            window = _mm512_add_epi32(
                window, _mm512_sub_epi32(t->bytes[i + w.columns - 1], t->bytes[i - 1]));
        else
            window = w.stride == 1 ? window : t->bytes[i];
        t->sums[i] = _mm512_add_epi32(t->sums[i], _mm512_mullo_epi32(window, by));
    }
}

// Outputs of w.n pixels from `pixel` on, CONV_LANES channels each. A LeakyRelu's sums are kept,
// without bias, for those that are open.
VNNI_INLINE void depthwise_vnni_store_tile(const struct depthwise_line *l,
                                           const struct requant_job *t, size_t pixel, size_t o,
                                           const struct vnni_window w, const enum requant_kind kind)
{
    const struct requant_lane_factors factors = requant_lane_factors(t, kind, o);
    const __m512i bias = _mm512_loadu_si512(t->bias + o);
    struct vnni_tile tile;
    __m512i differ = _mm512_setzero_si512();
#pragma GCC unroll 8
    for (int i = 0; i < w.n; i++)
        tile.sums[i] = bias;
#pragma GCC unroll 12
    for (int i = 0; i < MANY + MAX_COLUMNS - 1; i++)
        tile.bytes[i] = _mm512_setzero_si512();
    for (size_t row = 0; row < l->n_taps / (size_t)w.columns; row++)
        depthwise_vnni_add_row(l, row, pixel, o, w, &tile);
    if (w.lowered)
        depthwise_vnni_add_windows(w, _mm512_loadu_si512(l->tap_min + o), &tile);
    size_t first = l->first + pixel, at = first * l->out + o;
#pragma GCC unroll 8
    for (int i = 0; i < w.n; i++, at += l->out)
        _mm_storeu_si128((void *)(t->dst + at), _mm512_cvtepi32_epi8(requant_sums(
                                                    t, kind, tile.sums[i], &factors, at, &differ)));
    if (!requant_is_leaky(kind) || !_mm512_test_epi32_mask(differ, differ))
        return;
#pragma GCC unroll 8
    for (int i = 0; i < w.n; i++)
        _mm512_storeu_si512((int32_t *)l->to + (size_t)i * CONV_LANES,
                            _mm512_sub_epi32(tile.sums[i], bias));
    const struct requant_part part = {.sums = l->to,
                                      .pitch = CONV_LANES,
                                      .first = first,
                                      .n = (size_t)w.n,
                                      .from = o,
                                      .count = CONV_LANES};
    conv_requantize_open(t, &part);
}

// The last pixels are moved back so that they end where the line ends, and so are the last
// channels.
VNNI_INLINE void depthwise_vnni_store_line(const struct depthwise_line *l,
                                           const struct vnni_window w, const enum requant_kind kind)
{
    const struct requant_job t = *l->requant;
    const size_t n = (size_t)w.n, last = l->n - n, last_o = l->out - CONV_LANES;
    for (size_t o = 0; o < l->out; o += CONV_LANES)
        for (size_t i = 0; i < l->n; i += n)
            depthwise_vnni_store_tile(l, &t, i < last ? i : last, o < last_o ? o : last_o, w, kind);
}

// Whether tiles of MANY pixels are about as few outputs as those of FEW.
static bool depthwise_takes_many(const struct depthwise_line *l)
{
    return l->n >= 4 * MANY || (l->n >= MANY && (l->n + MANY - 1) / MANY * MANY < l->n + FEW);
}

VNNI_INLINE void depthwise_vnni_store_any(const struct depthwise_line *l, const int columns,
                                          const int stride, const enum requant_kind kind)
{
    if (l->lowered && depthwise_takes_many(l))
        depthwise_vnni_store_line(l, (struct vnni_window){columns, stride, MANY, true}, kind);
    else if (l->lowered)
        depthwise_vnni_store_line(l, (struct vnni_window){columns, stride, FEW, true}, kind);
    else if (depthwise_takes_many(l))
        depthwise_vnni_store_line(l, (struct vnni_window){columns, stride, MANY, false}, kind);
    else
        depthwise_vnni_store_line(l, (struct vnni_window){columns, stride, FEW, false}, kind);
}

DEPTHWISE_STORES(VNNI, depthwise_vnni_store_any)

// Whether a unit is a pixel, and the windows of neighbours lie so that their columns follow each
// other.
static bool depthwise_vnni_shares(const struct depthwise_line *l)
{
    bool next = l->n_taps % l->columns == 0 && l->n * l->out == l->size;
    for (size_t k = 0; k < l->n_taps && next; k++)
        next = k % l->columns == 0 ||
               (const int32_t *)l->sources[k] == (const int32_t *)l->sources[k - 1] + l->out;
    return next;
}

bool depthwise_stores(const struct depthwise_line *l)
{
    return depthwise_has_window(l) && l->n >= FEW && l->out >= CONV_LANES &&
           depthwise_vnni_shares(l);
}

VNNI void depthwise_sum_quads(const struct depthwise_line *l)
{
    if (l->requant)
        depthwise_store(l);
    else if (l->lowered)
        depthwise_each(l, DEPTHWISE_UNROLL, depthwise_vnni_sum_lowered);
    else
        depthwise_each(l, DEPTHWISE_UNROLL, depthwise_vnni_sum_plain);
}

// ---- lines ----

// What raises the bytes of n_rows lines in a quad.
VNNI_INLINE __m512i depthwise_raise(const int n_rows)
{
    const uint32_t all = VNNI_RAISE * 0x01010101u;
    return _mm512_set1_epi32((int32_t)(n_rows < 4 ? all & ((1u << 8 * n_rows % 32) - 1) : all));
}

// 64 elements.
VNNI_INLINE void depthwise_interleave_64(const uint8_t *const *rows, const int n_rows, size_t at,
                                         uint32_t *to)
{
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i raise = depthwise_raise(n_rows);
    __m512i x[4], quads[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        x[i] = i < n_rows ? _mm512_permutexvar_epi32(order, _mm512_loadu_si512(rows[i] + at))
                          : _mm512_setzero_si512();
    __m512i low[2] = {_mm512_unpacklo_epi8(x[0], x[1]), _mm512_unpacklo_epi8(x[2], x[3])};
    __m512i high[2] = {_mm512_unpackhi_epi8(x[0], x[1]), _mm512_unpackhi_epi8(x[2], x[3])};
    quads[0] = _mm512_unpacklo_epi16(low[0], low[1]);
    quads[1] = _mm512_unpackhi_epi16(low[0], low[1]);
    quads[2] = _mm512_unpacklo_epi16(high[0], high[1]);
    quads[3] = _mm512_unpackhi_epi16(high[0], high[1]);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        _mm512_storeu_si512(to + at + (size_t)i * CONV_LANES, _mm512_xor_si512(quads[i], raise));
}

// The intrinsic's number is an int for one GCC, and unsigned for another.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"
VNNI_INLINE void depthwise_interleave_lanes(const uint8_t *const *rows, const int n_rows, size_t at,
                                            const __mmask16 mask, uint32_t *to)
{
    __m512i quad = depthwise_raise(n_rows);
#pragma GCC unroll 4
    for (int i = 0; i < n_rows; i++) {
        __m512i x = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask, rows[i] + at));
        quad = _mm512_xor_si512(quad, _mm512_slli_epi32(x, (unsigned)(8 * i)));
    }
    _mm512_mask_storeu_epi32(to + at, mask, quad);
}
#pragma GCC diagnostic pop

VNNI_INLINE void depthwise_interleave_rows(const uint8_t *const *rows, const int n_rows, size_t n,
                                           uint32_t *to)
{
    const uint8_t *const copy[] = {rows[0], rows[n_rows > 1], rows[n_rows > 2 ? 2 : 0],
                                   rows[n_rows > 3 ? 3 : 0]};
    size_t at = 0;
    for (; at + 64 <= n; at += 64)
        depthwise_interleave_64(copy, n_rows, at, to);
    for (; at + CONV_LANES <= n; at += CONV_LANES)
        depthwise_interleave_lanes(copy, n_rows, at, UINT16_MAX, to);
    if (at < n)
        depthwise_interleave_lanes(copy, n_rows, at, (__mmask16)((1u << (n - at)) - 1), to);
}

VNNI void depthwise_interleave(const uint8_t *const *rows, size_t n_rows, size_t n, uint32_t *to)
{
    switch (n_rows) {
    case 1:
        depthwise_interleave_rows(rows, 1, n, to);
        break;
    case 2:
        depthwise_interleave_rows(rows, 2, n, to);
        break;
    case 3:
        depthwise_interleave_rows(rows, 3, n, to);
        break;
    default:
        depthwise_interleave_rows(rows, 4, n, to);
    }
}
#elif !defined(__aarch64__) // neon/conv_neon_depthwise.c
void depthwise_sum_quads(const struct depthwise_line *l)
{
    (void)l;
    abort(); // conv_vnni_has_dot() is never true
}

bool depthwise_stores(const struct depthwise_line *l)
{
    (void)l;
    return false;
}

void depthwise_interleave(const uint8_t *const *rows, size_t n_rows, size_t n, uint32_t *to)
{
    (void)rows, (void)n_rows, (void)n, (void)to;
    abort();
}
#endif
