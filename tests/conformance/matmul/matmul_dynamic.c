// As the SDK's matmul demo with dynamic shapes: one context, several M, B set once.
#include "matmul_calls.h"

#define N_SHAPES 4

static void try_dynamic(struct plain_case p)
{
    rknn_matmul_shape shapes[N_SHAPES] = {{1, 96, 64}, {7, 96, 64}, {32, 96, 64}, {130, 96, 64}};
    rknn_matmul_io_attr io[N_SHAPES];
    rknn_matmul_info info = matmul_info(&p);
    rknn_matmul_ctx c = 0;
    struct plain_problem x;
    p.k = 96;
    p.n = 64;
    NEED_OK(rknn_matmul_create_dynamic_shape(&c, &info, N_SHAPES, shapes, io));
    p.m = 130;
    plain_problem_make(&x, &p, true);
    matmul_set_quant(c, &x);
    rknn_tensor_mem *b = matmul_set_mem(c, &io[0].B, x.b, io[0].B.size);
    rknn_tensor_mem *a = rknn_create_mem(c, io[3].A.size),
                    *result = rknn_create_mem(c, io[3].C.size);
    NEED(a);
    NEED(result);
    for (int i = 0; i < 3 * N_SHAPES; i++) {
        int s = (i * 3 + 1) % N_SHAPES;
        x.which.m = (uint32_t)shapes[s].M;
        matmul_expect_attrs(&x.which, &io[s]);
        EXPECT_OK(rknn_matmul_set_dynamic_shape(c, &shapes[s]));
        memcpy(a->virt_addr, x.a, io[s].A.size);
        EXPECT_OK(rknn_matmul_set_io_mem(c, a, &io[s].A));
        EXPECT_OK(rknn_matmul_set_io_mem(c, result, &io[s].C));
        if (EXPECT_OK(rknn_matmul_run(c)))
            EXPECT(plain_check(&x, result->virt_addr));
    }
    plain_problem_done(&x);
    matmul_destroy_mems(c, a, b, result);
    EXPECT_OK(rknn_matmul_destroy(c));
}

// K and N may change, too; B is then set again.
static void test_other_matrices(void)
{
    rknn_matmul_shape shapes[] = {{4, 64, 32}, {2, 128, 64}};
    rknn_matmul_io_attr io[2];
    struct plain_case p = {.chip = matmul_chip(), .type = RKNN_FLOAT16_MM_FLOAT16_TO_FLOAT32};
    rknn_matmul_info info = matmul_info(&p);
    rknn_matmul_ctx c = 0;
    NEED_OK(rknn_matmul_create_dynamic_shape(&c, &info, 2, shapes, io));
    for (int i = 0; i < 4; i++) {
        struct plain_problem x;
        p.m = (uint32_t)shapes[i % 2].M;
        p.k = (uint32_t)shapes[i % 2].K;
        p.n = (uint32_t)shapes[i % 2].N;
        plain_problem_make(&x, &p, false);
        EXPECT_OK(rknn_matmul_set_dynamic_shape(c, &shapes[i % 2]));
        rknn_tensor_mem *a = matmul_set_mem(c, &io[i % 2].A, x.a, io[i % 2].A.size);
        rknn_tensor_mem *b = matmul_set_mem(c, &io[i % 2].B, x.b, io[i % 2].B.size);
        rknn_tensor_mem *result = matmul_set_mem(c, &io[i % 2].C, NULL, io[i % 2].C.size);
        if (EXPECT_OK(rknn_matmul_run(c)))
            EXPECT(plain_check(&x, result->virt_addr));
        plain_problem_done(&x);
        matmul_destroy_mems(c, a, b, result);
    }
    EXPECT_OK(rknn_matmul_destroy(c));
}

int main(int argc, char **argv)
{
    conformance_start(argc, argv);
    struct plain_case p = {.chip = matmul_chip(), .type = RKNN_INT8_MM_INT8_TO_INT32};
    try_dynamic(p);
    p.ac_layout = p.b_layout = RKNN_MM_LAYOUT_NATIVE;
    p.b_quant = RKNN_QUANT_TYPE_PER_CHANNEL_SYM;
    try_dynamic(p);
    p.type = RKNN_FLOAT16_MM_FLOAT16_TO_FLOAT32;
    p.b_quant = RKNN_QUANT_TYPE_PER_LAYER_SYM;
    try_dynamic(p);
    test_other_matrices();
    return conformance_finish();
}
