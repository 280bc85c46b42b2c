// Heads of an attention in integers (op_attention.c has the formula) with AVX512-VNNI and
// AVX512-VBMI. Both products are convolutions of one pixel (conv_vnni.h): queries are pixels, and
// keys, or channels of values, are the output's channels. A chunk of queries goes from its bytes to
// its outputs while it is in the caches:
//
//   queries, raised --- keys ---> products, int8 ---> weights, uint8 --- values ---> sums ---> y
//                   vpdpbusd, in registers       vpermi2b            vpdpbusd
//
// A query's weights are made of bytes alone, 64 at a time:
//
//   distance  = top - product                              vpsubb
//   sum      += the distance's power, as four bytes        vpermi2b, and vpdpbusd with ones
//   weight    = table[distance]                            vpermi2b
//
// Exact all the same: powers in units of 2^-31 leave a weight open where it lies next to a tie,
// which is seldom. Such a query is left to attention_weigh(), which computes in doubles.
//
// Why it is fast: sums of products never leave their registers, and no byte is looked up or counted
// by itself.
//
// Tests: test_sim_attention (on CPUs with both).
#include "npu/sim/ops/attention/attention.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "npu/sim/conv/conv_vnni.h"
#include "npu/sim/simd/int8.h"
#include "npu/sim/simd/vbmi.h"
#include "npu/sim/simd/vnni.h"
#include "tensor/transpose.h"

#ifdef VBMI
#define CHUNK      48 // queries: what a tile of conv_vnni_sum() has divides it
#define PLANES     4  // bytes of a power
#define UNIT       31 // bits behind a power's point
#define VECTOR     64
#define BEHIND     4    // bytes behind the queries that may be read
#define MOST       4096 // keys: sums of powers are as near as float_error() says
#define MAX_WEIGHT (1 << 20)
#define ROUNDER    12582912.0f // 1.5 * 2^23

#define WEIGH        __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi")))
#define WEIGH_INLINE WEIGH static inline __attribute__((always_inline, no_sanitize("undefined")))

// A product's right factor, as conv_vnni_sum() takes it.
struct factor {
    bool turned; // a column's numbers are contiguous in the tensor, not a row's
    int32_t zp;
    size_t inner, columns, quads, n_blocks;
    uint64_t at;        // scratch: [block][quad][column][4]
    int32_t *bias, *nz; // bias: 0; nz: NULL: there is no zero point
};

struct attention_vnni {
    struct factor keys, values;
    size_t row; // bytes of a query's products
    uint64_t queries_at, turned_at, rows_at, sums_at, windows_at, bias_at; // scratch; bias: of keys
    struct requant_job products;
    int8_t query[ATTENTION_STEPS]; // raised
    // By the distance from the top.
    float powers[ATTENTION_STEPS];
    uint8_t planes[PLANES][ATTENTION_STEPS];
    size_t n_weights; // powers from here on weigh nothing: 64, 128 or 256
    float open;       // weights so far from an integer, or farther, are computed in doubles
};

bool attention_vnni_fits(const struct attention *a)
{
    return kernel_has_vbmi() && conv_vnni_has_dot() && a->in_floats && a->keys <= MOST &&
           a->to_weight > 0 && a->to_weight < MAX_WEIGHT;
}

// ---- preparation ----

// How far a weight of 128 at most is from what doubles give, at most: four roundings to float, and
// a sum of 1 at least whose powers are half a unit off.
static double float_error(const struct attention *a)
{
    return 130 * (4 * 0x1p-24 + (double)a->keys * 0x1p-32);
}

static void vnni_make_tables(const struct attention *a, struct attention_vnni *v)
{
    size_t n = 0;
    for (size_t i = 0; i < ATTENTION_STEPS; i++) {
        double power = a->powers[ATTENTION_STEPS - 1 - i];
        uint32_t units = (uint32_t)rint(ldexp(power, UNIT));
        v->query[i] = (int8_t)(a->query[i] ^ VNNI_RAISE);
        v->powers[i] = (float)power;
        for (int k = 0; k < PLANES; k++)
            v->planes[k][i] = (uint8_t)(units >> 8 * k);
        n = power * a->to_weight > 0.49 ? i + 1 : n;
    }
    v->n_weights = n <= VECTOR ? VECTOR : n <= 2 * VECTOR ? 2 * VECTOR : ATTENTION_STEPS;
    v->open = (float)(0.5 - float_error(a));
}

static size_t factor_vectors(const struct factor *f)
{
    return (f->columns + VNNI_LANES - 1) / VNNI_LANES;
}

static int factor_prepare(struct step *s, struct factor *f, struct error *e)
{
    f->quads = (f->inner + 3) / 4;
    const size_t vectors = factor_vectors(f), padded = vectors * VNNI_LANES;
    f->n_blocks = (vectors + VNNI_VECTORS - 1) / VNNI_VECTORS;
    f->bias = step_alloc(s, padded, sizeof *f->bias);
    f->nz = f->zp ? step_alloc(s, padded, sizeof *f->nz) : NULL;
    if (!f->bias || !f->nz != !f->zp)
        return error_no_memory(e, "a bias", padded * sizeof *f->bias);
    for (size_t i = 0; i < padded && f->nz; i++)
        f->nz[i] = -f->zp;
    return step_scratch(s, (uint64_t)padded * 4 * f->quads, &f->at, e);
}

// Sums to products as op_attention.c's in floats.
static int vnni_describe_products(struct step *s, const struct attention *a,
                                  struct attention_vnni *v, struct error *e)
{
    float *scale = step_alloc(s, v->row, sizeof *scale);
    if (!scale)
        return error_no_memory(e, "factors", v->row * sizeof *scale);
    for (size_t i = 0; i < v->row; i++)
        scale[i] = (float)a->scale;
    v->products = (struct requant_job){.kind = REQUANT_PLAIN,
                                       .factors.stage = scale,
                                       .out = (float)a->to_product,
                                       .to_stored = REQUANT_INTEGER_FLOAT + (float)a->zero,
                                       .low = REQUANT_INTEGER_FLOAT + INT8_MIN,
                                       .high = REQUANT_INTEGER_FLOAT + INT8_MAX};
    return 0;
}

static int vnni_take_scratch(struct step *s, const struct attention *a, struct attention_vnni *v,
                             struct error *e)
{
    const uint64_t queries = (uint64_t)a->queries * a->depth + BEHIND;
    const uint64_t sums = (uint64_t)CHUNK * a->width + CONV_LANES;
    const uint64_t windows = (uint64_t)a->queries + CHUNK;
    int r = step_scratch(s, queries, &v->queries_at, e);
    if (r == 0 && a->q.transposed)
        r = step_scratch(s, queries, &v->turned_at, e);
    if (r == 0)
        r = step_scratch(s, (uint64_t)CHUNK * v->row, &v->rows_at, e);
    if (r == 0)
        r = step_scratch(s, sums * sizeof(int32_t), &v->sums_at, e);
    if (r == 0)
        r = step_scratch(s, (uint64_t)v->row * sizeof(int32_t), &v->bias_at, e);
    return r < 0 ? r : step_scratch(s, windows * sizeof(int32_t), &v->windows_at, e);
}

int attention_vnni_prepare(struct step *s, struct attention *a, struct error *e)
{
    struct attention_vnni *v = step_alloc(s, 1, sizeof *v);
    if (!v)
        return error_no_memory(e, "a step", sizeof *v);
    v->row = align_up(a->keys, VECTOR);
    vnni_make_tables(a, v);
    v->keys = (struct factor){
        .turned = !a->k.transposed, .zp = a->k.zp, .inner = a->depth, .columns = a->keys};
    v->values = (struct factor){
        .turned = a->v.transposed, .zp = a->v.zp, .inner = a->keys, .columns = a->width};
    int r = factor_prepare(s, &v->keys, e);
    if (r == 0)
        r = factor_prepare(s, &v->values, e);
    if (r == 0)
        r = vnni_describe_products(s, a, v, e);
    a->vnni = v;
    return r < 0 ? r : vnni_take_scratch(s, a, v, e);
}

// ---- factors ----

// Four rows of 16 columns become a vector of quads; those that are not there are 0.
WEIGH_INLINE void pack_rows(const int8_t *x, size_t pitch, size_t rows, size_t columns, uint8_t *to)
{
    const __mmask16 lanes = (__mmask16)(columns < VNNI_LANES ? (1u << columns) - 1 : UINT16_MAX);
    __m128i row[4], *quads = (__m128i *)(void *)to;
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; i++)
        row[i] = i < rows ? _mm_maskz_loadu_epi8(lanes, x + i * pitch) : _mm_setzero_si128();
    __m128i low[2] = {_mm_unpacklo_epi8(row[0], row[1]), _mm_unpacklo_epi8(row[2], row[3])};
    __m128i high[2] = {_mm_unpackhi_epi8(row[0], row[1]), _mm_unpackhi_epi8(row[2], row[3])};
    _mm_storeu_si128(quads, _mm_unpacklo_epi16(low[0], low[1]));
    _mm_storeu_si128(quads + 1, _mm_unpackhi_epi16(low[0], low[1]));
    _mm_storeu_si128(quads + 2, _mm_unpacklo_epi16(high[0], high[1]));
    _mm_storeu_si128(quads + 3, _mm_unpackhi_epi16(high[0], high[1]));
}

// The same of columns that are contiguous: quads as they lie, `next` bytes from one to the other.
static void pack_columns(const int8_t *x, size_t inner, size_t columns, size_t next, uint8_t *to)
{
    const size_t whole = inner / 4, rest = inner % 4;
    for (size_t c = 0; c < columns; c++, x += inner) {
        uint8_t *quad = to + 4 * c;
        for (size_t q = 0; q < whole; q++, quad += next)
            memcpy(quad, x + 4 * q, 4);
        memcpy(quad, x + 4 * whole, rest);
    }
}

// Vectors of block i, from *ret_first on.
static size_t factor_block(const struct factor *f, size_t i, size_t *ret_first)
{
    const size_t vectors = factor_vectors(f);
    *ret_first = vectors * i / f->n_blocks;
    return vectors * (i + 1) / f->n_blocks - *ret_first;
}

WEIGH static void factor_pack_vector(const struct factor *f, const int8_t *x, size_t vector,
                                     size_t next, uint8_t *to)
{
    const size_t first = vector * VNNI_LANES, left = f->columns - first;
    const size_t columns = left < VNNI_LANES ? left : VNNI_LANES;
    if (f->turned && (columns < VNNI_LANES || f->inner % 4))
        for (size_t q = 0; q < f->quads; q++)
            memset(to + q * next, 0, VECTOR);
    if (f->turned)
        pack_columns(x + first * f->inner, f->inner, columns, next, to);
    for (size_t q = 0; q < f->quads && !f->turned; q++)
        pack_rows(x + 4 * q * f->columns + first, f->columns, f->inner - 4 * q, columns,
                  to + q * next);
}

static void factor_pack(const struct factor *f, const int8_t *x, uint8_t *to)
{
    for (size_t i = 0, first, n; i < f->n_blocks; i++, to += n * VECTOR * f->quads) {
        n = factor_block(f, i, &first);
        for (size_t k = 0; k < n; k++)
            factor_pack_vector(f, x, first + k, n * VECTOR, to + k * VECTOR);
    }
}

// What queries are raised by, taken off again: of each column Σ (column - zp) times that.
WEIGH static void factor_lower(const struct factor *f, const uint8_t *packed, int32_t *bias)
{
    const __m512i ones = _mm512_set1_epi8(1), zero = _mm512_set1_epi32((int32_t)f->inner * f->zp);
    for (size_t i = 0, first, n; i < f->n_blocks; i++, packed += n * VECTOR * f->quads) {
        n = factor_block(f, i, &first);
        for (size_t k = 0; k < n; k++) {
            __m512i sum = _mm512_setzero_si512();
            for (size_t q = 0; q < f->quads; q++)
                vnni_add_products(&sum, ones, _mm512_loadu_si512(packed + (q * n + k) * VECTOR));
            sum = _mm512_slli_epi32(_mm512_sub_epi32(zero, sum), 7);
            _mm512_storeu_si512(bias + (first + k) * VNNI_LANES, sum);
        }
    }
}

// Sums of n rows and all columns, or their outputs. The last columns first: what they write too
// much is the first ones of the next row.
static void factor_multiply(const struct factor *f, const uint8_t *packed, const int32_t *bias,
                            struct vnni_pixels *p, size_t n)
{
    int32_t *sums = p->sums;
    p->quads = f->quads;
    p->n_segments = 1;
    p->spare = -1;
    for (size_t i = f->n_blocks, first; i--;) {
        const size_t n_vectors = factor_block(f, i, &first);
        p->from = first * VNNI_LANES;
        p->weights = packed + first * VECTOR * f->quads;
        p->bias = bias + p->from;
        p->nz = f->nz ? f->nz + p->from : NULL;
        p->sums = sums + p->from;
        conv_vnni_sum(p, n, n_vectors);
    }
}

// ---- weights ----

// Two or four registers of a table's bytes, by indexes that are below `n` where they count.
WEIGH_INLINE __m512i weigh_look_up(const __m512i table[4], __m512i at, __mmask64 lanes,
                                   const size_t n)
{
    if (n == VECTOR)
        return _mm512_maskz_permutexvar_epi8(
            _mm512_mask_cmplt_epu8_mask(lanes, at, _mm512_set1_epi8(VECTOR)), at, table[0]);
    const __mmask64 upper = _mm512_movepi8_mask(at);
    if (n == 2 * VECTOR)
        return _mm512_maskz_permutex2var_epi8(lanes & ~upper, table[0], at, table[1]);
    __m512i v = _mm512_maskz_permutex2var_epi8(lanes, table[0], at, table[1]);
    return _mm512_mask_mov_epi8(v, lanes & upper, _mm512_permutex2var_epi8(table[2], at, table[3]));
}

// Those of VECTOR bytes that are in a row of n.
WEIGH_INLINE __mmask64 weigh_lanes(size_t n, size_t i)
{
    return n - i < VECTOR ? ((__mmask64)1 << (n - i)) - 1 : ~(__mmask64)0;
}

WEIGH_INLINE int8_t weigh_find_top(const int8_t *row, size_t n)
{
    const __m512i lowest = _mm512_set1_epi8(INT8_MIN);
    __m512i top = lowest;
    for (size_t i = 0; i < n; i += VECTOR) {
        __m512i v = _mm512_loadu_si512(row + i);
        top = _mm512_max_epi8(top, _mm512_mask_mov_epi8(lowest, weigh_lanes(n, i), v));
    }
    __m256i half = _mm256_max_epi8(_mm512_castsi512_si256(top), _mm512_extracti64x4_epi64(top, 1));
    __m128i few = _mm_max_epi8(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
    // The lowest of what is left, as unsigned numbers from the top down, by phminposuw.
    few = _mm_xor_si128(few, _mm_set1_epi8(INT8_MAX));
    few = _mm_minpos_epu16(_mm_min_epu8(few, _mm_srli_epi16(few, 8)));
    return (int8_t)(_mm_cvtsi128_si32(few) ^ INT8_MAX);
}

// The sum of the powers of n products.
WEIGH_INLINE double weigh_add_powers(const struct attention_vnni *t, const int8_t *row, size_t n,
                                     __m512i top)
{
    const __m512i ones = _mm512_set1_epi8(1);
    __m512i sums[PLANES];
    uint64_t units = 0;
#pragma GCC unroll 4
    for (int k = 0; k < PLANES; k++)
        sums[k] = _mm512_setzero_si512();
    for (size_t i = 0; i < n; i += VECTOR) {
        const __mmask64 lanes = weigh_lanes(n, i);
        const __m512i at = _mm512_sub_epi8(top, _mm512_loadu_si512(row + i));
#pragma GCC unroll 4
        for (int k = 0; k < PLANES; k++) {
            __m512i table[4];
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++)
                table[j] = _mm512_loadu_si512(t->planes[k] + j * VECTOR);
            vnni_add_products(&sums[k], weigh_look_up(table, at, lanes, ATTENTION_STEPS), ones);
        }
    }
#pragma GCC unroll 4
    for (int k = 0; k < PLANES; k++)
        units += (uint64_t)(uint32_t)_mm512_reduce_add_epi32(sums[k]) << 8 * k;
    return (double)units * 0x1p-31;
}

// The weights of VECTOR powers, saturated. Bits of *open are set where one may be rounded to the
// other side.
WEIGH_INLINE __m512i weigh_powers(const float *powers, __m512 factor, __m512 near, __mmask16 *open)
{
    const __m512 rounder = _mm512_set1_ps(ROUNDER);
    const __m512i in_order =
        _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m512i w[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        __m512 v = _mm512_mul_ps(_mm512_loadu_ps(powers + 16 * i), factor);
        __m512 rounded = _mm512_add_ps(v, rounder);
        __m512 rest = _mm512_abs_ps(_mm512_sub_ps(v, _mm512_sub_ps(rounded, rounder)));
        *open |= _mm512_cmp_ps_mask(rest, near, _CMP_GT_OQ);
        w[i] = _mm512_sub_epi32(_mm512_castps_si512(rounded), _mm512_castps_si512(rounder));
    }
    return _mm512_permutexvar_epi32(in_order, _mm512_packs_epi16(_mm512_packs_epi32(w[0], w[1]),
                                                                 _mm512_packs_epi32(w[2], w[3])));
}

// False: some weights are open, and the row is as it was.
WEIGH_INLINE bool weigh_row(const struct attention_vnni *t, double to_weight, int8_t *row, size_t n,
                            int32_t *ret_sum, const size_t n_weights)
{
    const __m512i top = _mm512_set1_epi8(weigh_find_top(row, n)), ones = _mm512_set1_epi8(1);
    const __m512 factor = _mm512_set1_ps((float)(to_weight / weigh_add_powers(t, row, n, top)));
    const __m512 near = _mm512_set1_ps(t->open);
    __m512i table[4], sum = _mm512_setzero_si512();
    __mmask16 open = 0;
#pragma GCC unroll 4
    for (size_t i = 0; i < n_weights / VECTOR; i++)
        table[i] = weigh_powers(t->powers + i * VECTOR, factor, near, &open);
    if (open)
        return false;
    for (size_t i = 0; i < n; i += VECTOR) {
        const __m512i at = _mm512_sub_epi8(top, _mm512_loadu_si512(row + i));
        const __m512i weights = weigh_look_up(table, at, weigh_lanes(n, i), n_weights);
        vnni_add_products(&sum, weights, ones);
        _mm512_storeu_si512(row + i, weights);
    }
    *ret_sum = _mm512_reduce_add_epi32(sum);
    return true;
}

WEIGH static bool weigh_some(const struct attention_vnni *t, double to_weight, int8_t *row,
                             size_t n, int32_t *ret_sum)
{
    switch (t->n_weights) {
    case VECTOR:
        return weigh_row(t, to_weight, row, n, ret_sum, VECTOR);
    case 2 * VECTOR:
        return weigh_row(t, to_weight, row, n, ret_sum, 2 * VECTOR);
    default:
        return weigh_row(t, to_weight, row, n, ret_sum, ATTENTION_STEPS);
    }
}

// In doubles: products are distances from the lowest one there.
static int32_t weigh_exactly(const struct attention *a, int8_t *row)
{
    int32_t sum = 0;
    for (size_t i = 0; i < a->keys; i++)
        row[i] = (int8_t)(row[i] ^ INT8_MIN);
    attention_weigh(a, row);
    memset(row + a->keys, 0, a->vnni->row - a->keys);
    for (size_t i = 0; i < a->keys; i++)
        sum += row[i];
    return sum;
}

// ---- a head ----

// Queries in their steps, raised, one after the other.
static const uint8_t *vnni_load_queries(const struct attention *a, struct run *r, const int8_t *q)
{
    const struct attention_vnni *v = a->vnni;
    int8_t *queries = run_scratch(r, v->queries_at), *to = queries;
    if (a->q.transposed)
        to = run_scratch(r, v->turned_at);
    int8_map(v->query, q, a->q.size, to);
    if (a->q.transposed)
        transpose_matrix(to, (ptrdiff_t)a->queries, queries, (ptrdiff_t)a->depth, a->depth,
                         a->queries, 1);
    return (const uint8_t *)queries;
}

// Queries [first, first + n) to products, in rows.
static void vnni_multiply_keys(const struct attention *a, struct run *r, const uint8_t *queries,
                               size_t first, size_t n)
{
    const struct attention_vnni *v = a->vnni;
    struct requant_job products = v->products;
    products.dst = run_scratch(r, v->rows_at);
    struct vnni_pixels p = {.segments = {queries + first * a->depth},
                            .pitch = a->depth,
                            .window_sums = (int32_t *)run_scratch(r, v->windows_at) + first,
                            .channels = v->row,
                            .sums = run_scratch(r, v->sums_at),
                            .requant = &products};
    factor_multiply(&v->keys, run_scratch(r, v->keys.at), run_scratch(r, v->bias_at), &p, n);
}

// Rows of products to outputs.
static void vnni_multiply_values(const struct attention *a, struct run *r, size_t n, int8_t *y)
{
    const struct attention_vnni *v = a->vnni;
    int8_t *rows = run_scratch(r, v->rows_at);
    int32_t sums[CHUNK], *outputs = run_scratch(r, v->sums_at);
    for (size_t i = 0; i < n; i++)
        if (!weigh_some(v, a->to_weight, rows + i * v->row, a->keys, &sums[i]))
            sums[i] = weigh_exactly(a, rows + i * v->row);
    struct vnni_pixels p = {.segments = {(uint8_t *)rows},
                            .pitch = v->row,
                            .window_sums = sums,
                            .channels = a->width,
                            .sums = outputs};
    factor_multiply(&v->values, run_scratch(r, v->values.at), v->values.bias, &p, n);
    attention_store(a, outputs, n * a->width, y);
}

void attention_vnni_head(const struct attention *a, struct run *r, const struct attention_head *h)
{
    const struct attention_vnni *v = a->vnni;
    const uint8_t *queries = vnni_load_queries(a, r, h->q);
    const struct vnni_bytes all = {
        .x = queries, .n_segments = 1, .segment = a->depth, .pitch = a->depth, .pixel = a->depth};
    factor_pack(&v->keys, h->k, run_scratch(r, v->keys.at));
    factor_lower(&v->keys, run_scratch(r, v->keys.at), run_scratch(r, v->bias_at));
    factor_pack(&v->values, h->v, run_scratch(r, v->values.at));
    if (v->keys.nz)
        conv_vnni_sum_bytes(&all, a->queries, run_scratch(r, v->windows_at));
    for (size_t first = 0, n; first < a->queries; first += n) {
        n = a->queries - first < CHUNK ? a->queries - first : CHUNK;
        vnni_multiply_keys(a, r, queries, first, n);
        vnni_multiply_values(a, r, n, h->y + first * a->width);
    }
}
#else
bool attention_vnni_fits(const struct attention *a)
{
    (void)a;
    return false;
}

int attention_vnni_prepare(struct step *s, struct attention *a, struct error *e)
{
    (void)s, (void)a, (void)e;
    abort(); // attention_vnni_fits() is never true
}

void attention_vnni_head(const struct attention *a, struct run *r, const struct attention_head *h)
{
    (void)a, (void)r, (void)h;
    abort();
}
#endif
