// Matrix products: what chips offer, and how matrices lie in memory.
//
//   C[m][n] = Σ over k: A[m][k] * B[k][n]
//
// Layouts (struct matmul_matrix has the numbers, matmul_at() an element's place):
//
//   NORM          A, B, C: rows, one after the other
//   TP_NORM       B: N rows of K
//   NATIVE A, C   [K / u][M][u]                  columns of u = 16 bytes (A of old chips: 8)
//   NATIVE B      [N / n][K / k][n][k]           blocks of n rows of k; of B transposed
//
//          K
//      +-------+-------+        A block is contiguous, row by row; blocks follow along K, then N.
//    n | blk 0 | blk 1 |        Some chips store only `segment` columns of K at a time: each
//      +-------+-------+  N     segment is a matrix of its own.
//    n | blk 2 | blk 3 |
//      +-------+-------+
//          k
//
// Tests: test_sim_matmul, tests/conformance/matmul.
#include "tensor/matmul_types.h"

#include <string.h>

#include "tensor/chip.h"

#define K_UNIT 32 // of which K is a multiple, on every chip

struct types {
    const char *name;
    enum tensor_type a, b, c;
};

// By number (rknn_matmul_type); those that no chip offers are missing.
static const struct types types[] = {
    [1] = {"FLOAT16_MM_FLOAT16_TO_FLOAT32", TENSOR_FLOAT16, TENSOR_FLOAT16, TENSOR_FLOAT32},
    [2] = {"INT8_MM_INT8_TO_INT32", TENSOR_INT8, TENSOR_INT8, TENSOR_INT32},
    [3] = {"INT8_MM_INT8_TO_INT8", TENSOR_INT8, TENSOR_INT8, TENSOR_INT8},
    [4] = {"FLOAT16_MM_FLOAT16_TO_FLOAT16", TENSOR_FLOAT16, TENSOR_FLOAT16, TENSOR_FLOAT16},
    [5] = {"FLOAT16_MM_INT8_TO_FLOAT32", TENSOR_FLOAT16, TENSOR_INT8, TENSOR_FLOAT32},
    [7] = {"FLOAT16_MM_INT4_TO_FLOAT32", TENSOR_FLOAT16, TENSOR_INT4, TENSOR_FLOAT32},
    [8] = {"FLOAT16_MM_INT4_TO_FLOAT16", TENSOR_FLOAT16, TENSOR_INT4, TENSOR_FLOAT16},
    [9] = {"INT8_MM_INT8_TO_FLOAT32", TENSOR_INT8, TENSOR_INT8, TENSOR_FLOAT32},
    [10] = {"INT4_MM_INT4_TO_INT16", TENSOR_INT4, TENSOR_INT4, TENSOR_INT16},
    [11] = {"INT8_MM_INT4_TO_INT32", TENSOR_INT8, TENSOR_INT4, TENSOR_INT32},
};

// What the chip offers, and what it is called in error texts.
struct rules {
    const char *chip;
    struct chip_matmul m;
};

static uint32_t matmul_elements(enum tensor_type type, uint32_t bytes)
{
    return type == TENSOR_INT4 ? 2 * bytes : bytes / (uint32_t)tensor_type_size(type);
}

// ---- what is offered ----

static int matmul_find_rules(const char *name, struct rules *ret, struct error *e)
{
    const struct chip *chip = strcmp(name, "any") == 0 ? chip_default() : chip_find_variant(name);
    if (!chip || !chip->matmul.types)
        return error_set(e, STATUS_PARAM_INVALID, "%s has no matmul", name);
    *ret = (struct rules){name, chip->matmul};
    return 0;
}

static int matmul_check_kind(const struct matmul_kind *m, const struct rules *r, struct error *e)
{
    bool known = m->type < sizeof types / sizeof *types && types[m->type].name;
    if (!known || !(r->m.types >> m->type & 1))
        return error_set(e, STATUS_PARAM_INVALID,
                         "matmul type %u (%s) is none of %s's (SDK guide, table 3-13)", m->type,
                         known ? types[m->type].name : "of no chip", r->chip);
    if (m->b_layout > MATMUL_TRANSPOSED || m->ac_layout > MATMUL_NATIVE)
        return error_set(e, STATUS_PARAM_INVALID,
                         "B_layout %u and AC_layout %u: they are NORM (0) or NATIVE (1), B_layout "
                         "may be TP_NORM (2)",
                         m->b_layout, m->ac_layout);
    if (m->b_layout == MATMUL_TRANSPOSED && !r->m.transposes)
        return error_set(e, STATUS_PARAM_INVALID,
                         "RKNN_MM_LAYOUT_TP_NORM: %s reads B in NORM and NATIVE only", r->chip);
    if (m->ac_quant > 1)
        return error_set(e, STATUS_PARAM_INVALID,
                         "AC_quant_type %u: A and C are quantized per layer (0 or 1)", m->ac_quant);
    if (m->b_quant > 5)
        return error_set(e, STATUS_PARAM_INVALID, "B_quant_type %u: there are 0 to 5", m->b_quant);
    if (types[m->type].b == TENSOR_FLOAT16 && matmul_scope(m->b_quant) != MATMUL_PER_LAYER)
        return error_set(e, STATUS_PARAM_INVALID,
                         "B_quant_type %u: B of type %s is not quantized, only per layer (0, 1) is "
                         "possible",
                         m->b_quant, types[m->type].name);
    return 0;
}

static int matmul_check_k(const struct matmul_kind *m, uint32_t k, const struct rules *r,
                          struct error *e)
{
    if (k == 0 || k % K_UNIT)
        return error_set(e, STATUS_PARAM_INVALID, "K is %u; on %s it is a multiple of %u", k,
                         r->chip, K_UNIT);
    if (r->m.max_k && k > r->m.max_k)
        return error_set(e, STATUS_PARAM_INVALID, "K is %u; on %s it is at most %u", k, r->chip,
                         r->m.max_k);
    if (matmul_scope(m->b_quant) != MATMUL_PER_GROUP)
        return 0;
    if (m->group_size == 0 || k % m->group_size)
        return error_set(e, STATUS_PARAM_INVALID, "K is %u: not a multiple of group_size %u", k,
                         m->group_size);
    return 0;
}

// Where B's type differs from A's, A's decides (note below table 3-14).
static int matmul_check_n(const struct matmul_kind *m, uint32_t n, const struct rules *r,
                          struct error *e)
{
    bool int4 = types[m->type].a == TENSOR_INT4;
    uint32_t unit = int4 ? 64 : r->m.n_unit, max = int4 ? 8192 : 4096;
    if (n == 0 || n % unit || n > max)
        return error_set(e, STATUS_PARAM_INVALID,
                         "N is %u; on %s with %s it is a multiple of %u and at most %u", n, r->chip,
                         types[m->type].name, unit, max);
    return 0;
}

// ---- where elements are ----

static void matmul_set_dims(struct matmul_matrix *x, uint32_t n, const uint32_t *dims)
{
    x->n_dims = n;
    memcpy(x->dims, dims, n * sizeof *dims);
}

static void matmul_place_rows(struct matmul_matrix *x)
{
    x->block_rows = 1;
    x->block_columns = x->segment = x->columns;
    matmul_set_dims(x, 2, (uint32_t[]){x->rows, x->columns});
}

// A and C: columns in groups of 16 bytes or so, each group with all rows.
static void matmul_place_columns(struct matmul_matrix *x, uint32_t unit)
{
    x->block_rows = x->rows;
    x->block_columns = matmul_elements(x->type, unit);
    x->segment = x->columns;
    matmul_set_dims(x, 3, (uint32_t[]){x->columns / x->block_columns, x->rows, x->block_columns});
}

// Where B's type differs from A's, B lies as with A's type on both sides (below table 3-12).
static void matmul_place_blocks(struct matmul_matrix *x, enum tensor_type as, const struct rules *r)
{
    uint32_t n = as == TENSOR_INT4 ? 64 : as == TENSOR_INT8 ? r->m.int8_n : r->m.fp16_n;
    x->block_rows = n;
    x->block_columns = as == TENSOR_FLOAT16 ? r->m.fp16_k : 32;
    x->segment = r->m.segment && r->m.segment < x->columns ? r->m.segment : x->columns;
    matmul_set_dims(x, 4,
                    (uint32_t[]){x->rows / n, x->columns / x->block_columns, n, x->block_columns});
}

static int matmul_set_size(struct matmul_matrix *x, struct error *e)
{
    size_t size;
    uint64_t n = (uint64_t)x->rows * x->columns;
    if (n > UINT32_MAX || !tensor_bytes(x->type, n, &size) || size > UINT32_MAX)
        return error_set(e, STATUS_PARAM_INVALID,
                         "matrix %s of %u x %u is too large: 4 GB and 2^32 elements are possible",
                         x->name, x->rows, x->columns);
    x->size = (uint32_t)size;
    return 0;
}

static int matmul_place_all(const struct matmul_kind *m, const struct matmul_shape *s,
                            const struct rules *r, struct matmul_matrix ret[3], struct error *e)
{
    const struct types *t = &types[m->type];
    bool by_columns = m->b_layout != MATMUL_NORMAL;
    struct matmul_matrix x[] = {
        {.name = "A", .type = t->a, .rows = s->m, .columns = s->k},
        {.name = "B",
         .type = t->b,
         .rows = by_columns ? s->n : s->k,
         .columns = by_columns ? s->k : s->n,
         .transposed = by_columns},
        {.name = "C", .type = t->c, .rows = s->m, .columns = s->n},
    };
    for (int i = 0; i < 3; i++) {
        if ((i == 1 ? m->b_layout : m->ac_layout) != MATMUL_NATIVE)
            matmul_place_rows(&x[i]);
        else if (i == 1)
            matmul_place_blocks(&x[i], t->a, r);
        else
            matmul_place_columns(&x[i], i == 0 ? r->m.a_unit : 16);
        int status = matmul_set_size(&x[i], e);
        if (status < 0)
            return status;
    }
    memcpy(ret, x, sizeof x);
    return 0;
}

int matmul_place(const struct matmul_kind *kind, const struct matmul_shape *shape, const char *chip,
                 struct matmul_matrix ret[3], struct error *e)
{
    struct rules r;
    int s = matmul_find_rules(chip, &r, e);
    if (s == 0)
        s = matmul_check_kind(kind, &r, e);
    if (s == 0 && shape->m == 0)
        s = error_set(e, STATUS_PARAM_INVALID, "M is 0");
    if (s == 0)
        s = matmul_check_k(kind, shape->k, &r, e);
    if (s == 0)
        s = matmul_check_n(kind, shape->n, &r, e);
    return s < 0 ? s : matmul_place_all(kind, shape, &r, ret, e);
}

uint64_t matmul_n_scales(const struct matmul_kind *kind, const struct matmul_shape *shape)
{
    switch (matmul_scope(kind->b_quant)) {
    case MATMUL_PER_GROUP:
        return (uint64_t)shape->n * (shape->k / kind->group_size);
    case MATMUL_PER_CHANNEL:
        return shape->n;
    default:
        return 1;
    }
}
