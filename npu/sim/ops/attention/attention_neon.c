// Products of an attention's matrices in integers, with NEON of 64-bit ARM, where oneDNN computes
// floats in plain C.
//
//   rows[i], columns[j]     bytes along the inner dimension, zeros up to a multiple of 16
//   sums[i][j] = Σ rows[i][k] * columns[j][k]
//
// Why it is fast: a tile of 4 rows by 4 columns takes 16 products of 16 bytes for 8 loads; the four
// sums of each are added at the end.
//
// Tests: test_sim_attention of the preset arm64.
#include "npu/sim/ops/attention/attention.h"

#include <string.h>

#ifdef __aarch64__
#include <arm_neon.h>

#include "npu/sim/conv/conv_vnni.h"

#define DOTS __attribute__((target("arch=armv8.2-a+dotprod")))
#define SIDE 4 // of a tile

static size_t attention_pitch(size_t inner)
{
    return (inner + 15) / 16 * 16;
}

// `turned`: neighbours in `from` are of neighbouring rows.
static void attention_pack(const int8_t *from, bool turned, size_t rows, size_t inner, int8_t *to)
{
    const size_t pitch = attention_pitch(inner);
    memset(to, 0, rows * pitch);
    for (size_t i = 0; i < rows && !turned; i++)
        memcpy(to + i * pitch, from + i * inner, inner);
    for (size_t k = 0; k < inner && turned; k++)
        for (size_t i = 0; i < rows; i++)
            to[i * pitch + k] = from[k * rows + i];
}

struct attention_packed {
    const int8_t *rows, *columns;
    size_t n_rows, n_columns, inner;
};

struct tile {
    const int8_t *rows[SIDE], *columns[SIDE];
    size_t pitch;
};

// Rows and columns behind the last ones are the last ones again, and not stored.
static void tile_find(const struct attention_packed *p, size_t row, size_t column, struct tile *ret)
{
    ret->pitch = attention_pitch(p->inner);
    for (size_t i = 0; i < SIDE; i++) {
        const size_t r = row + i < p->n_rows ? row + i : p->n_rows - 1;
        const size_t c = column + i < p->n_columns ? column + i : p->n_columns - 1;
        ret->rows[i] = p->rows + r * ret->pitch;
        ret->columns[i] = p->columns + c * ret->pitch;
    }
}

#define ADD_DOTS(sum, x, y) sum = vdotq_s32(sum, x, y)
#define ADD_PAIRS(sum, x, y)                                                                       \
    sum = vpadalq_s16(vpadalq_s16(sum, vmull_s8(vget_low_s8(x), vget_low_s8(y))),                  \
                      vmull_high_s8(x, y))

#define TILE(name, target, add)                                                                    \
    target static void name(const struct tile *t, int32_t sums[SIDE][SIDE])                        \
    {                                                                                              \
        int32x4_t s[SIDE][SIDE];                                                                   \
        for (int i = 0; i < SIDE; i++)                                                             \
            for (int j = 0; j < SIDE; j++)                                                         \
                s[i][j] = vdupq_n_s32(0);                                                          \
        for (size_t k = 0; k < t->pitch; k += 16) {                                                \
            int8x16_t columns[SIDE];                                                               \
            for (int j = 0; j < SIDE; j++)                                                         \
                columns[j] = vld1q_s8(t->columns[j] + k);                                          \
            for (int i = 0; i < SIDE; i++) {                                                       \
                const int8x16_t row = vld1q_s8(t->rows[i] + k);                                    \
                for (int j = 0; j < SIDE; j++)                                                     \
                    add(s[i][j], row, columns[j]);                                                 \
            }                                                                                      \
        }                                                                                          \
        for (int i = 0; i < SIDE; i++)                                                             \
            vst1q_s32(sums[i],                                                                     \
                      vpaddq_s32(vpaddq_s32(s[i][0], s[i][1]), vpaddq_s32(s[i][2], s[i][3])));     \
    }

TILE(tile_by_dots, DOTS, ADD_DOTS)
TILE(tile_by_pairs, , ADD_PAIRS)

static void tile_store(const struct attention_packed *p, size_t row, size_t column,
                       const int32_t sums[SIDE][SIDE], int32_t *to)
{
    const size_t n = p->n_columns - column < SIDE ? p->n_columns - column : SIDE;
    for (size_t i = 0; i < SIDE && row + i < p->n_rows; i++)
        memcpy(to + (row + i) * p->n_columns + column, sums[i], n * sizeof **sums);
}

bool attention_neon_multiply(const struct attention_factors *f, int8_t *left, int8_t *right,
                             int32_t *sums)
{
    void (*const tile)(const struct tile *, int32_t(*)[SIDE]) =
        conv_vnni_has_dot() ? tile_by_dots : tile_by_pairs;
    const struct attention_packed p = {left, right, f->rows, f->columns, f->inner};
    struct tile t;
    int32_t part[SIDE][SIDE];
    if (f->inner < SIDE) // packed, it would take more room than its floats
        return false;
    attention_pack(f->left, f->turned[0], f->rows, f->inner, left);
    attention_pack(f->right, !f->turned[1], f->columns, f->inner, right);
    for (size_t i = 0; i < f->rows; i += SIDE)
        for (size_t j = 0; j < f->columns; j += SIDE) {
            tile_find(&p, i, j, &t);
            tile(&t, part);
            tile_store(&p, i, j, part, sums);
        }
    return true;
}
#else
bool attention_neon_multiply(const struct attention_factors *f, int8_t *left, int8_t *right,
                             int32_t *sums)
{
    (void)f;
    (void)left;
    (void)right;
    (void)sums;
    return false;
}
#endif
