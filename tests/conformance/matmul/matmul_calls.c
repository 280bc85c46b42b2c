// What the matmul programs share.
#include "matmul_calls.h"

static bool offers(int type, int b_layout)
{
    rknn_matmul_info info = {.M = 4, .K = 64, .N = 64};
    rknn_matmul_io_attr io;
    rknn_matmul_ctx c = 0;
    info.type = (rknn_matmul_type)type;
    info.B_layout = (int16_t)b_layout;
    if (rknn_matmul_create(&c, &info, &io) != RKNN_SUCC)
        return false;
    EXPECT_OK(rknn_matmul_destroy(c));
    return true;
}

const char *matmul_chip(void)
{
    if (!offers(RKNN_INT8_MM_INT8_TO_INT32, RKNN_MM_LAYOUT_NORM))
        conformance_skip("there is no matmul");
    if (offers(RKNN_INT4_MM_INT4_TO_INT16, RKNN_MM_LAYOUT_NORM))
        return "rk3588";
    if (offers(RKNN_INT8_MM_INT4_TO_INT32, RKNN_MM_LAYOUT_NORM))
        return "rk3576";
    return offers(RKNN_INT8_MM_INT8_TO_INT32, RKNN_MM_LAYOUT_TP_NORM) ? "rk3562" : "rk3566";
}

rknn_matmul_info matmul_info(const struct plain_case *p)
{
    return (rknn_matmul_info){.M = (int32_t)p->m,
                              .K = (int32_t)p->k,
                              .N = (int32_t)p->n,
                              .type = (rknn_matmul_type)p->type,
                              .B_layout = (int16_t)p->b_layout,
                              .B_quant_type = (int16_t)p->b_quant,
                              .AC_layout = (int16_t)p->ac_layout,
                              .AC_quant_type = (int16_t)p->ac_quant,
                              .group_size = (int16_t)p->group_size};
}

static void expect_attr(const struct plain_case *p, const char *name,
                        const rknn_matmul_tensor_attr *a)
{
    static const rknn_tensor_type types[] = {
        [PLAIN_F32] = RKNN_TENSOR_FLOAT32, [PLAIN_F16] = RKNN_TENSOR_FLOAT16,
        [PLAIN_I8] = RKNN_TENSOR_INT8,     [PLAIN_I4] = RKNN_TENSOR_INT4,
        [PLAIN_I16] = RKNN_TENSOR_INT16,   [PLAIN_I32] = RKNN_TENSOR_INT32,
    };
    uint32_t dims[4], n = plain_dims(p, name[0], dims);
    EXPECT_STRING(a->name, name);
    EXPECT_CMP(a->type, ==, types[plain_number(p->type, name[0])]);
    if (EXPECT_CMP(a->n_dims, ==, n))
        EXPECT_MEMORY(a->dims, dims, n * sizeof *dims);
    EXPECT_CMP(a->size, ==, plain_bytes(p, name[0]));
}

void matmul_expect_attrs(const struct plain_case *p, const rknn_matmul_io_attr *io)
{
    expect_attr(p, "A", &io->A);
    expect_attr(p, "B", &io->B);
    expect_attr(p, "C", &io->C);
}

static void set_params(rknn_matmul_ctx c, const char *name, float *scales, int32_t *zps, uint32_t n)
{
    rknn_quant_params params = {
        .scale = scales, .scale_len = (int32_t)n, .zp = zps, .zp_len = zps ? (int32_t)n : 0};
    strcpy(params.name, name);
    EXPECT_OK(rknn_matmul_set_quant_params(c, &params));
}

void matmul_set_quant(rknn_matmul_ctx c, const struct plain_problem *x)
{
    struct plain_quant q = x->quant;
    bool symmetric = x->which.b_quant % 2 == 0; // zero points may then be left out
    set_params(c, "B", q.scales, symmetric ? NULL : q.zps, q.n_scales);
    set_params(c, "A", &q.a_scale, &q.a_zp, 1);
    if (q.c_set)
        set_params(c, "C", &q.c_scale, &q.c_zp, 1);
}

rknn_tensor_mem *matmul_set_mem(rknn_matmul_ctx c, rknn_matmul_tensor_attr *attr, const void *data,
                                size_t size)
{
    rknn_tensor_mem *mem = rknn_create_mem(c, (uint32_t)size);
    NEED(mem);
    NEED_CMP(mem->size, >=, attr->size);
    if (data)
        memcpy(mem->virt_addr, data, attr->size);
    EXPECT_OK(rknn_matmul_set_io_mem(c, mem, attr));
    return mem;
}

void matmul_destroy_mems(rknn_matmul_ctx c, rknn_tensor_mem *a, rknn_tensor_mem *b,
                         rknn_tensor_mem *result)
{
    EXPECT_OK(rknn_destroy_mem(c, a));
    EXPECT_OK(rknn_destroy_mem(c, b));
    EXPECT_OK(rknn_destroy_mem(c, result));
}
