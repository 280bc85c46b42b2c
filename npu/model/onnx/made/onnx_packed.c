// Weights of 2 to 8 bits in blocks, each with a scale, of ONNX Runtime's domain: MatMulNBits and
// GatherBlockQuantized.
#include "npu/model/onnx/onnx_maker.h"
#include "npu/model/onnx/onnx_names.h"

struct packed {
    int64_t k, n, bits, block;
    uint64_t blocks; // of a column
    const uint8_t *weight;
    const float *scales, *zeros; // of all blocks
    const int64_t *group;        // of each row, of blocks; NULL: rows are in order
};

// Element i of a list of numbers of so many bits; lower bits come first.
static uint32_t bits_at(const uint8_t *list, uint64_t i, int64_t bits)
{
    uint64_t at = i * (uint64_t)bits;
    return (uint32_t)(list[at / 8] >> at % 8) & ((1u << bits) - 1);
}

// One block, which becomes a part of column n.
static void packed_unpack_block(const struct packed *p, int64_t n, uint64_t block, float *dst)
{
    uint64_t at = (uint64_t)n * p->blocks + block, first = block * (uint64_t)p->block;
    for (uint64_t i = 0; i < (uint64_t)p->block && first + i < (uint64_t)p->k; i++) {
        uint64_t of = p->group ? (uint64_t)n * p->blocks + (uint64_t)p->group[first + i] : at;
        float q = (float)bits_at(p->weight, at * (uint64_t)p->block + i, p->bits);
        dst[(first + i) * (uint64_t)p->n + (uint64_t)n] = (q - p->zeros[of]) * p->scales[of];
    }
}

// As a matrix for MatMul, [k][n]: the file has all blocks of a column one behind the other. Columns
// side by side share cache lines.
static void packed_unpack(const struct packed *p, float *dst)
{
    for (uint64_t block = 0; block < p->blocks; block++)
        for (int64_t n = 0; n < p->n; n++)
            packed_unpack_block(p, n, block, dst);
}

static void *packed_room(struct onnx_maker *m, uint64_t n, size_t size)
{
    if (m->r < 0)
        return NULL;
    void *room = pool_alloc(&m->l->g->pool, n, size);
    if (!room)
        onnx_made_fail(m, error_no_memory(m->e, "a weight", n * size));
    return room;
}

// A constant input of so many elements. NULL (and a failure): it is another one.
static const struct graph_tensor *constant_of(struct onnx_maker *m, uint32_t i, uint64_t n)
{
    const struct graph_tensor *t = onnx_made_tensor(m, onnx_made_input(m, i));
    if (t && t->constant && t->n_elems == n)
        return t;
    onnx_made_refuse(m, "its weight, scales and zero points must be constants of the sizes that K, "
                        "N, bits and block_size give");
    return NULL;
}

// Scales of all blocks, of floats or halves.
static const float *take_scales(struct onnx_maker *m, uint64_t n)
{
    const struct graph_tensor *t = constant_of(m, 2, n);
    if (t && !onnx_is_float(t->type))
        onnx_made_refuse(m, "its scales are no floats");
    float *scales = packed_room(m, n, sizeof *scales);
    if (scales)
        graph_tensor_floats(t, scales);
    return scales;
}

// Zero points of all blocks: half of all numbers where there are none; of bits as the weight's,
// each column beginning with a byte; or floats.
static const float *take_zeros(struct onnx_maker *m, const struct packed *p)
{
    const uint64_t n = (uint64_t)p->n * p->blocks;
    const uint64_t row = (p->blocks * (uint64_t)p->bits + 7) / 8;
    const struct graph_tensor *t =
        onnx_made_input(m, 3) ? onnx_made_tensor(m, onnx_made_input(m, 3)) : NULL;
    const bool floats = t && onnx_is_float(t->type);
    if (t)
        t = constant_of(m, 3, floats ? n : (uint64_t)p->n * row);
    if (t && !floats && t->type != TENSOR_UINT8)
        onnx_made_refuse(m, "its zero points are neither bytes nor floats");
    float *zeros = packed_room(m, n, sizeof *zeros);
    if (!zeros)
        return NULL;
    if (floats)
        graph_tensor_floats(t, zeros);
    for (uint64_t i = 0; i < n && !floats; i++)
        zeros[i] = (float)(t ? bits_at(t->data.data + i / p->blocks * row, i % p->blocks, p->bits)
                             : 1u << (p->bits - 1));
    return zeros;
}

// Which block's scale a row has, where rows were put into another order before they were packed.
static const int64_t *take_groups(struct onnx_maker *m, const struct packed *p)
{
    const struct graph_tensor *t = onnx_made_input(m, 4) ? constant_of(m, 4, (uint64_t)p->k) : NULL;
    int64_t *group = t ? packed_room(m, (uint64_t)p->k, sizeof *group) : NULL;
    uint32_t n;
    if (!group)
        return NULL;
    onnx_made_fail(m, graph_tensor_ints(t, group, (uint32_t)p->k, &n, m->e));
    for (int64_t i = 0; i < p->k && m->r == 0; i++)
        if (group[i] < 0 || (uint64_t)group[i] >= p->blocks)
            onnx_made_refuse(m, "its g_idx names a block that is not there");
    return group;
}

// The weight as real numbers: a constant of a new name.
static const char *unpacked(struct onnx_maker *m, struct packed *p)
{
    const uint64_t n_blocks = (uint64_t)p->n * p->blocks, elems = (uint64_t)p->n * (uint64_t)p->k;
    const struct graph_tensor *w = constant_of(m, 1, n_blocks * (uint64_t)(p->block * p->bits / 8));
    if (w && w->type != TENSOR_UINT8)
        onnx_made_refuse(m, "its weight is no list of bytes");
    p->scales = take_scales(m, n_blocks);
    p->zeros = take_zeros(m, p);
    p->group = take_groups(m, p);
    float *dst = packed_room(m, elems, sizeof *dst); // at most sixteen times what the file has
    if (!w || !dst || m->r < 0)
        return "";
    p->weight = w->data.data;
    packed_unpack(p, dst);
    m->l->node = m->of;
    const uint32_t dims[2] = {(uint32_t)p->k, (uint32_t)p->n};
    const char *weight = onnx_made_name(m);
    int32_t t = onnx_constant(m->l, TENSOR_FLOAT32, 2, dims, dst, m->e);
    onnx_made_fail(m, t < 0 || m->r < 0 ? t : onnx_names_set(m->l->names, weight, t, m->e));
    return weight;
}

// MatMulNBits(A, B [N, blocks, bytes], scales, zero points, order of groups, bias)
int onnx_make_packed_product(struct onnx_maker *m)
{
    struct packed p = {.k = onnx_made_int(m, "K", 0),
                       .n = onnx_made_int(m, "N", 0),
                       .bits = onnx_made_int(m, "bits", 4),
                       .block = onnx_made_int(m, "block_size", 0)};
    const char *x = onnx_made_input(m, 0), *bias = onnx_made_input(m, 5);
    onnx_made_allow(m, "K N bits block_size accuracy_level", 6);
    if (p.k < 1 || p.n < 1 || p.k > INT32_MAX || p.n > INT32_MAX || p.block < 16 ||
        p.block > 65536 || (p.bits != 2 && p.bits != 4 && p.bits != 8))
        onnx_made_refuse(m, "2, 4 or 8 bits and blocks of 16 to 65536 are supported");
    if (m->r < 0)
        return m->r;
    p.blocks = (uint64_t)(p.k + p.block - 1) / (uint64_t)p.block;
    const char *weight = unpacked(m, &p), *out = onnx_made_output(m, 0);
    const char *y = onnx_step_two(m, "MatMul", x, weight, bias ? NULL : out);
    if (bias)
        onnx_step_two(m, "Add", y, bias, out);
    return m->r;
}

// ---- GatherBlockQuantized ----

// Two numbers of 4 bits of each byte, [..., bytes], one behind the other.
static const char *both_nibbles(struct onnx_maker *m, const char *x)
{
    static const struct onnx_attr right = {.name = "direction", .s = {(const uint8_t *)"RIGHT", 5}};
    const struct graph_tensor *t = onnx_made_tensor(m, x);
    int64_t dims[GRAPH_MAX_DIMS + 1];
    if (!t || !t->n_dims || t->n_dims == GRAPH_MAX_DIMS)
        return x;
    const uint32_t n = t->n_dims;
    for (uint32_t i = 0; i < n; i++)
        dims[i] = t->dims[i];
    dims[n] = 1;
    const char *low = onnx_step_two(m, "BitwiseAnd", x, onnx_step_like(m, 15, x), NULL);
    const char *high =
        onnx_step(m, "BitShift", ONNX_IN(x, onnx_step_like(m, 4, x)), NULL, &right, 1);
    x = onnx_step_joined(m, onnx_step_reshaped(m, low, dims, n + 1, NULL),
                         onnx_step_reshaped(m, high, dims, n + 1, NULL), n, NULL);
    dims[n - 1] *= 2;
    return onnx_step_reshaped(m, x, dims, n, NULL);
}

// Lines of a table that indices name, as floats; bytes of 4 bits have two numbers.
static const char *lines_of(struct onnx_maker *m, const char *table, const char *indices,
                            int64_t bits)
{
    const char *x = onnx_step_two(m, "Gather", table, indices, NULL);
    const struct graph_tensor *t = onnx_made_tensor(m, x);
    if (bits == 4 && t && t->type == TENSOR_UINT8)
        x = both_nibbles(m, x);
    return onnx_step_cast(m, x, ONNX_FLOAT, NULL);
}

// One number for each block, as [..., blocks, 1].
static const char *of_blocks(struct onnx_maker *m, const char *x, const int64_t *dims, uint32_t n)
{
    int64_t each[GRAPH_MAX_DIMS];
    memcpy(each, dims, n * sizeof *dims);
    each[n - 1] = 1;
    return onnx_step_reshaped(m, onnx_step_sliced(m, x, -1, 0, dims[n - 2], 1), each, n, NULL);
}

// Only lines that are taken become real numbers: a table of words has many.
// GatherBlockQuantized(table [lines, bytes], indices, scales [lines, blocks], zero points)
int onnx_make_packed_gather(struct onnx_maker *m)
{
    const char *table = onnx_made_input(m, 0), *indices = onnx_made_input(m, 1),
               *scales = onnx_made_input(m, 2), *zeros = onnx_made_input(m, 3);
    const struct graph_tensor *t = onnx_made_tensor(m, table), *s = onnx_made_tensor(m, scales);
    const int64_t bits = onnx_made_int(m, "bits", 4), block = onnx_made_int(m, "block_size", 128);
    const int64_t axis = onnx_made_int(m, "quantize_axis", 1);
    int64_t dims[GRAPH_MAX_DIMS];
    onnx_made_allow(m, "bits block_size gather_axis quantize_axis", 4);
    if (!t || !s || t->n_dims != 2 || s->n_dims != 2 || t->type != TENSOR_UINT8 ||
        (bits != 4 && bits != 8) || block < 16 || block > 65536 ||
        onnx_made_int(m, "gather_axis", 0) != 0 || (axis != 1 && axis != -1) ||
        t->dims[1] * (8 / bits) != s->dims[1] * block) {
        onnx_made_refuse(m, "tables of lines of bytes are supported, in whole blocks of 4 or 8 "
                            "bits along the lines");
        return m->r;
    }
    const uint32_t blocks = s->dims[1];
    const char *x = lines_of(m, table, indices, bits);
    t = onnx_made_tensor(m, x);
    if (!t || t->n_dims == GRAPH_MAX_DIMS)
        return m->r < 0 ? m->r : (onnx_made_refuse(m, "it has too many dimensions"), m->r);
    const uint32_t n = t->n_dims;
    for (uint32_t i = 0; i < n; i++)
        dims[i] = t->dims[i];
    dims[n - 1] = blocks;
    dims[n] = block;
    x = onnx_step_reshaped(m, x, dims, n + 1, NULL);
    const char *zero = zeros ? of_blocks(m, lines_of(m, zeros, indices, bits), dims, n + 1)
                             : onnx_step_like(m, (float)(1 << (bits - 1)), x);
    x = onnx_step_two(m, "Sub", x, zero, NULL);
    x = onnx_step_two(m, "Mul", x, of_blocks(m, lines_of(m, scales, indices, 8), dims, n + 1),
                      NULL);
    dims[n - 1] = (int64_t)blocks * block;
    x = onnx_step_reshaped(m, x, dims, n, NULL);
    onnx_step_two(m, "CastLike", x, scales, onnx_made_output(m, 0));
    return m->r;
}
