// Wrong calls of the matmul API, each with its code; the context is as good as before.
#include "matmul_calls.h"

static void try_create(int code, rknn_matmul_info info)
{
    rknn_matmul_io_attr io;
    rknn_matmul_ctx c = 0;
    EXPECT_CODE(code, rknn_matmul_create(&c, &info, &io));
}

static void test_create(void)
{
    const rknn_matmul_info good = {.M = 1, .K = 64, .N = 64, .type = RKNN_INT8_MM_INT8_TO_INT32};
    rknn_matmul_info info = good;
    rknn_matmul_io_attr io;
    rknn_matmul_ctx c = 0;
    rknn_matmul_shape shape = {1, 64, 64}, bad = {1, 64, 65};
    EXPECT_CODE(RKNN_ERR_PARAM_INVALID, rknn_matmul_create(NULL, &info, &io));
    EXPECT_CODE(RKNN_ERR_PARAM_INVALID, rknn_matmul_create(&c, NULL, &io));
    EXPECT_CODE(RKNN_ERR_PARAM_INVALID, rknn_matmul_create(&c, &info, NULL));
    EXPECT_CODE(RKNN_ERR_PARAM_INVALID,
                rknn_matmul_create_dynamic_shape(&c, &info, 0, &shape, &io));
    EXPECT_CODE(RKNN_ERR_PARAM_INVALID, rknn_matmul_create_dynamic_shape(&c, &info, 1, NULL, &io));
    EXPECT_CODE(RKNN_ERR_PARAM_INVALID, rknn_matmul_create_dynamic_shape(&c, &info, 1, &bad, &io));
#define WRONG(field, value)                                                                        \
    do {                                                                                           \
        info = good;                                                                               \
        info.field = value;                                                                        \
        try_create(RKNN_ERR_PARAM_INVALID, info);                                                  \
    } while (0)
    WRONG(M, 0);
    WRONG(M, -1);
    WRONG(K, 63);
    WRONG(N, 40);
    WRONG(N, 1 << 20);
    WRONG(type, 0);
    WRONG(type, RKNN_FLOAT16_MM_INT8_TO_FLOAT16);
    WRONG(type, 99);
    WRONG(B_layout, 3);
    WRONG(B_layout, -1);
    WRONG(AC_layout, 2);
    WRONG(B_quant_type, 6);
    WRONG(AC_quant_type, 2);
    WRONG(B_quant_type, RKNN_QUANT_TYPE_PER_GROUP_SYM); // group_size 0
    WRONG(iommu_domain_id, -1);
#undef WRONG
}

static void try_params(rknn_matmul_ctx c, int code, const char *name, float *scale, int n,
                       int32_t *zp, int n_zp)
{
    rknn_quant_params params = {.scale = scale, .scale_len = n, .zp = zp, .zp_len = n_zp};
    strcpy(params.name, name);
    EXPECT_CODE(code, rknn_matmul_set_quant_params(c, &params));
}

static void test_params(rknn_matmul_ctx c)
{
    float ones[64], zero = 0, scale;
    int32_t zps[64] = {0}, five = 5;
    rknn_quant_params params = {.name = "B"};
    for (int i = 0; i < 64; i++)
        ones[i] = 1;
    EXPECT_CODE(RKNN_ERR_PARAM_INVALID, rknn_matmul_set_quant_params(c, NULL));
    try_params(c, RKNN_ERR_PARAM_INVALID, "D", ones, 1, zps, 1);
    try_params(c, RKNN_ERR_PARAM_INVALID, "A", ones, 64, zps, 64);
    try_params(c, RKNN_ERR_PARAM_INVALID, "B", ones, 64, zps, 64); // is per layer
    try_params(c, RKNN_ERR_PARAM_INVALID, "B", ones, 0, zps, 0);
    try_params(c, RKNN_ERR_PARAM_INVALID, "B", ones, -1, zps, -1);
    try_params(c, RKNN_ERR_PARAM_INVALID, "B", NULL, 1, zps, 1);
    try_params(c, RKNN_ERR_PARAM_INVALID, "B", ones, 1, zps, 2);
    try_params(c, RKNN_ERR_PARAM_INVALID, "A", &zero, 1, NULL, 0);
    try_params(c, RKNN_ERR_PARAM_INVALID, "A", ones, 1, &five, 1); // is symmetric
    EXPECT_CODE(RKNN_ERR_PARAM_INVALID, rknn_matmul_get_quant_params(c, &params, &scale));
    EXPECT_CODE(RKNN_ERR_PARAM_INVALID, rknn_matmul_get_quant_params(c, NULL, &scale));
    EXPECT_CODE(RKNN_ERR_PARAM_INVALID, rknn_matmul_get_quant_params(c, &params, NULL));
    try_params(c, RKNN_SUCC, "B", ones, 1, NULL, 0);
    try_params(c, RKNN_SUCC, "A", ones, 1, zps, 1);
}

static void test_calls(const char *chip)
{
    struct plain_case p = {
        .chip = chip, .type = RKNN_INT8_MM_INT8_TO_INT32, .m = 2, .k = 64, .n = 64};
    rknn_matmul_info info = matmul_info(&p);
    rknn_matmul_io_attr io;
    rknn_matmul_tensor_attr odd;
    rknn_matmul_shape other = {3, 64, 64};
    rknn_matmul_ctx c = 0;
    struct plain_problem x;
    NEED_OK(rknn_matmul_create(&c, &info, &io));
    plain_problem_make(&x, &p, false);
    test_params(c);
    EXPECT_CMP(rknn_matmul_run(c), !=, RKNN_SUCC);
    rknn_tensor_mem *a = matmul_set_mem(c, &io.A, x.a, io.A.size);
    rknn_tensor_mem *b = matmul_set_mem(c, &io.B, x.b, io.B.size);
    EXPECT_CMP(rknn_matmul_run(c), !=, RKNN_SUCC);
    EXPECT_CODE(RKNN_ERR_PARAM_INVALID, rknn_matmul_set_io_mem(c, a, &io.B)); // too small
    EXPECT_CODE(RKNN_ERR_PARAM_INVALID, rknn_matmul_set_io_mem(c, NULL, &io.A));
    EXPECT_CODE(RKNN_ERR_PARAM_INVALID, rknn_matmul_set_io_mem(c, a, NULL));
    odd = io.A;
    odd.name[0] = 'X';
    EXPECT_CODE(RKNN_ERR_PARAM_INVALID, rknn_matmul_set_io_mem(c, a, &odd));
    odd = io.A;
    odd.type = RKNN_TENSOR_FLOAT32; // which rknn_set_io_mem() would convert
    EXPECT_REFUSED(RKNN_ERR_PARAM_INVALID, "not converted", rknn_matmul_set_io_mem(c, a, &odd));
    odd = io.A;
    odd.dims[0]--;
    EXPECT_REFUSED(RKNN_ERR_PARAM_INVALID, "not converted", rknn_matmul_set_io_mem(c, a, &odd));
    odd = io.A;
    odd.n_dims = 0; // with name and size alone
    EXPECT_OK(rknn_matmul_set_io_mem(c, a, &odd));
    EXPECT_CODE(RKNN_ERR_PARAM_INVALID, rknn_matmul_set_dynamic_shape(c, &other));
    EXPECT_CODE(RKNN_ERR_PARAM_INVALID, rknn_matmul_set_dynamic_shape(c, NULL));
    EXPECT_CMP(rknn_matmul_set_core_mask(c, (rknn_core_mask)5), !=, RKNN_SUCC);
    EXPECT_CMP(rknn_run(c, NULL), !=, RKNN_SUCC);
    EXPECT_CODE(RKNN_ERR_PARAM_INVALID,
                rknn_B_normal_layout_to_native_layout(NULL, x.b, 64, 64, &info));
    EXPECT_CODE(RKNN_ERR_PARAM_INVALID,
                rknn_B_normal_layout_to_native_layout(x.b, x.a, 64, 65, &info));
    rknn_tensor_mem *result = matmul_set_mem(c, &io.C, NULL, io.C.size);
    if (EXPECT_OK(rknn_matmul_run(c)))
        EXPECT(plain_check(&x, result->virt_addr));
    plain_problem_done(&x);
    matmul_destroy_mems(c, a, b, result);
    EXPECT_OK(rknn_matmul_destroy(c));
    EXPECT_CODE(RKNN_ERR_CTX_INVALID, rknn_matmul_destroy(c));
    EXPECT_CODE(RKNN_ERR_CTX_INVALID, rknn_matmul_run(c));
}

// Every function with a number that is no context of a matmul.
static void try_context(rknn_matmul_ctx c, rknn_tensor_mem *mem, const char *word)
{
    rknn_matmul_tensor_attr attr = {.name = "A", .size = 64};
    rknn_matmul_shape shape = {1, 64, 64};
    float scale = 1;
    rknn_quant_params params = {.name = "A", .scale = &scale, .scale_len = 1};
    EXPECT_REFUSED(RKNN_ERR_CTX_INVALID, word, rknn_matmul_run(c));
    EXPECT_REFUSED(RKNN_ERR_CTX_INVALID, word, rknn_matmul_set_io_mem(c, mem, &attr));
    EXPECT_REFUSED(RKNN_ERR_CTX_INVALID, word, rknn_matmul_set_core_mask(c, RKNN_NPU_CORE_0));
    EXPECT_REFUSED(RKNN_ERR_CTX_INVALID, word, rknn_matmul_set_quant_params(c, &params));
    EXPECT_REFUSED(RKNN_ERR_CTX_INVALID, word, rknn_matmul_get_quant_params(c, &params, &scale));
    EXPECT_REFUSED(RKNN_ERR_CTX_INVALID, word, rknn_matmul_set_dynamic_shape(c, &shape));
    EXPECT_REFUSED(RKNN_ERR_CTX_INVALID, word, rknn_matmul_destroy(c));
}

static void test_contexts(void)
{
    rknn_matmul_info info = {.M = 1, .K = 64, .N = 64, .type = RKNN_INT8_MM_INT8_TO_INT32};
    rknn_matmul_io_attr io;
    rknn_matmul_ctx closed = 0;
    rknn_context model = conformance_open("conv.rknn", 0);
    rknn_tensor_mem *mem = rknn_create_mem(model, 4096);
    NEED_OK(rknn_matmul_create(&closed, &info, &io));
    EXPECT_OK(rknn_matmul_destroy(closed));
    try_context(0, mem, "");
    try_context(12345, mem, "");
    try_context(closed, mem, "");
    try_context(model, mem, "a model");
    EXPECT_OK(rknn_destroy_mem(model, mem));
    EXPECT_OK(rknn_destroy(model));
}

// Memory that is missing, gone, or too small for the shape that is then chosen.
static void test_memory(void)
{
    rknn_matmul_shape shapes[] = {{2, 64, 64}, {64, 64, 64}};
    rknn_matmul_info info = {.type = RKNN_INT8_MM_INT8_TO_INT32};
    rknn_matmul_io_attr io[2];
    rknn_matmul_ctx c = 0;
    NEED_OK(rknn_matmul_create_dynamic_shape(&c, &info, 2, shapes, io));
    EXPECT_REFUSED(RKNN_ERR_INPUT_INVALID, "matrix A", rknn_matmul_run(c));
    rknn_tensor_mem *a = matmul_set_mem(c, &io[0].A, NULL, io[0].A.size);
    EXPECT_REFUSED(RKNN_ERR_INPUT_INVALID, "matrix B", rknn_matmul_run(c));
    rknn_tensor_mem *b = matmul_set_mem(c, &io[0].B, NULL, io[0].B.size);
    EXPECT_REFUSED(RKNN_ERR_OUTPUT_INVALID, "matrix C", rknn_matmul_run(c));
    rknn_tensor_mem *result = matmul_set_mem(c, &io[0].C, NULL, io[0].C.size);
    EXPECT_OK(rknn_matmul_run(c));
    EXPECT_OK(rknn_matmul_set_dynamic_shape(c, &shapes[1]));
    EXPECT_REFUSED(RKNN_ERR_INPUT_INVALID, "matrix A", rknn_matmul_run(c));
    EXPECT_REFUSED(RKNN_ERR_PARAM_INVALID, "bytes", rknn_matmul_set_io_mem(c, a, &io[1].A));
    rknn_tensor_mem *large = matmul_set_mem(c, &io[1].A, NULL, io[1].A.size);
    EXPECT_REFUSED(RKNN_ERR_OUTPUT_INVALID, "matrix C", rknn_matmul_run(c));
    EXPECT_OK(rknn_matmul_set_dynamic_shape(c, &shapes[0]));
    EXPECT_OK(rknn_matmul_run(c));
    EXPECT_OK(rknn_destroy_mem(c, b)); // the context still has it
    EXPECT_OK(rknn_matmul_run(c));
    EXPECT_REFUSED(RKNN_ERR_PARAM_INVALID, "is none", rknn_matmul_set_io_mem(c, b, &io[0].B));
    matmul_destroy_mems(c, a, large, result);
    EXPECT_OK(rknn_matmul_destroy(c));
}

int main(int argc, char **argv)
{
    conformance_start(argc, argv);
    const char *chip = matmul_chip();
    test_create();
    test_contexts();
    test_memory();
    test_calls(chip);
    return conformance_finish();
}
