// Weights of 2 to 8 bits in blocks, each with a scale, of ONNX Runtime's domain.
#include "base/bytes.h"
#include "npu/model/onnx/onnx_maker.h"
#include "npu/model/onnx/onnx_names.h"

struct packed {
    int64_t k, n, bits, block;
    uint64_t blocks; // of a column
    const uint8_t *weight, *zeros;
    const uint8_t *scales; // floats; of a file, they may lie anywhere
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
    uint64_t row = (p->blocks * (uint64_t)p->bits + 7) / 8; // zero points of a column
    uint64_t at = (uint64_t)n * p->blocks + block, first = block * (uint64_t)p->block;
    const float scale = bits_float(read_le32(p->scales + 4 * at));
    const uint32_t zero =
        p->zeros ? bits_at(p->zeros + (uint64_t)n * row, block, p->bits) : 1u << (p->bits - 1);
    for (uint64_t i = 0; i < (uint64_t)p->block && first + i < (uint64_t)p->k; i++)
        dst[(first + i) * (uint64_t)p->n + (uint64_t)n] =
            ((float)bits_at(p->weight, at * (uint64_t)p->block + i, p->bits) - (float)zero) * scale;
}

// As a matrix for MatMul, [k][n]: the file has all blocks of a column one behind the other. Columns
// side by side share cache lines.
static void packed_unpack(const struct packed *p, float *dst)
{
    for (uint64_t block = 0; block < p->blocks; block++)
        for (int64_t n = 0; n < p->n; n++)
            packed_unpack_block(p, n, block, dst);
}

// A constant input of so many elements of a type.
static const void *constant_of(struct onnx_maker *m, uint32_t i, enum tensor_type type, uint64_t n)
{
    const struct graph_tensor *t = onnx_made_tensor(m, onnx_made_input(m, i));
    if (t && t->constant && t->type == type && t->n_elems == n)
        return t->data.data;
    onnx_made_refuse(m, "its weight, scales and zero points must be constants (bytes, floats, "
                        "bytes) of the sizes that K, N, bits and block_size give");
    return NULL;
}

// MatMulNBits(A, B [N, blocks, bytes], scales, zero points, order of groups, bias)
int onnx_make_packed_product(struct onnx_maker *m)
{
    struct packed p = {.k = onnx_made_int(m, "K", 0),
                       .n = onnx_made_int(m, "N", 0),
                       .bits = onnx_made_int(m, "bits", 4),
                       .block = onnx_made_int(m, "block_size", 0)};
    onnx_made_allow(m, "K N bits block_size accuracy_level", 6);
    if (onnx_made_input(m, 4))
        onnx_made_refuse(m, "an order of its groups (g_idx) is not supported");
    if (p.k < 1 || p.n < 1 || p.k > INT32_MAX || p.n > INT32_MAX || p.block < 16 ||
        p.block > 65536 || (p.bits != 2 && p.bits != 4 && p.bits != 8))
        onnx_made_refuse(m, "2, 4 or 8 bits and blocks of 16 to 65536 are supported");
    if (m->r < 0)
        return m->r;
    p.blocks = (uint64_t)(p.k + p.block - 1) / (uint64_t)p.block;
    uint64_t n_blocks = (uint64_t)p.n * p.blocks, elems = (uint64_t)p.n * (uint64_t)p.k;
    p.weight = constant_of(m, 1, TENSOR_UINT8, n_blocks * (uint64_t)(p.block * p.bits / 8));
    p.scales = constant_of(m, 2, TENSOR_FLOAT32, n_blocks);
    if (onnx_made_input(m, 3))
        p.zeros = constant_of(m, 3, TENSOR_UINT8,
                              (uint64_t)p.n * ((p.blocks * (uint64_t)p.bits + 7) / 8));
    // At most sixteen times what the file has of it.
    float *dst = m->r < 0 ? NULL : pool_alloc(&m->l->g->pool, elems, sizeof *dst);
    if (!dst)
        return m->r < 0 ? m->r : error_no_memory(m->e, "a weight", elems * sizeof *dst);
    packed_unpack(&p, dst);
    m->l->node = m->of;
    const uint32_t dims[2] = {(uint32_t)p.k, (uint32_t)p.n};
    const char *weight = onnx_made_name(m);
    int32_t t = onnx_constant(m->l, TENSOR_FLOAT32, 2, dims, dst, m->e);
    onnx_made_fail(m, t < 0 || m->r < 0 ? t : onnx_names_set(m->l->names, weight, t, m->e));
    const char *bias = onnx_made_input(m, 5);
    const char *y = onnx_step_two(m, "MatMul", onnx_made_input(m, 0), weight,
                                  bias ? NULL : onnx_made_output(m, 0));
    if (bias)
        onnx_step_two(m, "Add", y, bias, onnx_made_output(m, 0));
    return m->r;
}
