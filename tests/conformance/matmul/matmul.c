// As the SDK's matmul demo: every type, layout and kind of quantization that the chip has, against
// plain arithmetic; B rearranged by hand and by the library; one context used again and again.
#include "matmul_calls.h"

static const char *chip;

static void run_and_check(rknn_matmul_ctx c, const struct plain_problem *x,
                          const rknn_tensor_mem *mem)
{
    if (EXPECT_OK(rknn_matmul_run(c)))
        EXPECT(plain_check(x, mem->virt_addr));
}

static void try_problem(const struct plain_problem *x, bool quantized)
{
    rknn_matmul_info info = matmul_info(&x->which);
    rknn_matmul_io_attr io;
    rknn_matmul_ctx c = 0;
    NEED_OK(rknn_matmul_create(&c, &info, &io));
    matmul_expect_attrs(&x->which, &io);
    if (quantized)
        matmul_set_quant(c, x);
    rknn_tensor_mem *a = matmul_set_mem(c, &io.A, x->a, io.A.size);
    rknn_tensor_mem *b = matmul_set_mem(c, &io.B, x->b, io.B.size);
    rknn_tensor_mem *result = matmul_set_mem(c, &io.C, NULL, io.C.size);
    run_and_check(c, x, result);
    matmul_destroy_mems(c, a, b, result);
    EXPECT_OK(rknn_matmul_destroy(c));
}

// The layouts are all tried by the unit tests of the software NPU; here each with each type once.
static void try_case(const struct plain_case *p, void *owner)
{
    unsigned *count = owner;
    struct plain_problem x;
    if (strcmp(p->chip, chip) != 0 || (*count)++ % 7 != 0)
        return;
    plain_problem_make(&x, p, true);
    try_problem(&x, true);
    plain_problem_done(&x);
}

static void test_kinds(void)
{
    unsigned count = 0;
    plain_for_each(try_case, &count);
    EXPECT_CMP(count, >, 0);
}

// The library's B is the one that the SDK guide's formulas give.
static void try_rearranging(int type, uint32_t k, uint32_t n)
{
    struct plain_case normal = {.chip = chip, .type = type, .m = 1, .k = k, .n = n};
    struct plain_case native = normal;
    struct plain_problem x;
    enum plain_number number = plain_number(type, 'B');
    native.b_layout = RKNN_MM_LAYOUT_NATIVE;
    rknn_matmul_info info = matmul_info(&native);
    plain_problem_make(&x, &normal, false);
    uint8_t *expected = calloc(1, plain_bytes(&native, 'B'));
    uint8_t *got = calloc(1, plain_bytes(&native, 'B'));
    NEED(expected);
    NEED(got);
    for (uint32_t r = 0; r < k; r++)
        for (uint32_t i = 0; i < n; i++)
            plain_set(number, expected, plain_at(&native, 'B', r, i),
                      plain_get(number, x.b, plain_at(&normal, 'B', r, i)));
    EXPECT_OK(rknn_B_normal_layout_to_native_layout(x.b, got, (int)k, (int)n, &info));
    EXPECT_MEMORY(got, expected, plain_bytes(&native, 'B'));
    free(expected);
    free(got);
    plain_problem_done(&x);
}

static void test_rearranging(void)
{
    for (int type = 1; type < 12; type++)
        if (type != 6 && plain_offered(chip, type, RKNN_MM_LAYOUT_NATIVE)) {
            try_rearranging(type, 96, 128);
            try_rearranging(type, strcmp(chip, "rk3588") == 0 ? 8192 + 64 : 4096 + 64, 64);
        }
}

// A is read by each run; B when it is set.
static void test_one_context_for_long(void)
{
    struct plain_case p = {
        .chip = chip, .type = RKNN_INT8_MM_INT8_TO_INT32, .m = 3, .k = 64, .n = 64};
    struct plain_problem x[2];
    rknn_matmul_info info = matmul_info(&p);
    rknn_matmul_io_attr io;
    rknn_matmul_ctx c = 0;
    NEED_OK(rknn_matmul_create(&c, &info, &io));
    plain_problem_make(&x[0], &p, false);
    rknn_tensor_mem *a = matmul_set_mem(c, &io.A, x[0].a, io.A.size);
    rknn_tensor_mem *b = matmul_set_mem(c, &io.B, x[0].b, io.B.size + 4096u);
    rknn_tensor_mem *result = matmul_set_mem(c, &io.C, NULL, io.C.size);
    run_and_check(c, &x[0], result);
    run_and_check(c, &x[0], result);
    plain_problem_make(&x[1], &p, false);
    memcpy(b->virt_addr, x[1].b, io.B.size);
    memcpy(a->virt_addr, x[1].a, io.A.size);
    EXPECT_OK(rknn_matmul_set_io_mem(c, b, &io.B));
    EXPECT_OK(rknn_matmul_set_io_mem(c, a, &io.A));
    run_and_check(c, &x[1], result);
    rknn_perf_run perf = {0};
    EXPECT_OK(rknn_query(c, RKNN_QUERY_PERF_RUN, &perf, sizeof perf));
    EXPECT_CMP(perf.run_duration, >, 0);
    plain_problem_done(&x[0]);
    plain_problem_done(&x[1]);
    matmul_destroy_mems(c, a, b, result);
    EXPECT_OK(rknn_matmul_destroy(c));
}

static void test_scale_of_channels(void)
{
    struct plain_case p = {.chip = chip,
                           .type = RKNN_INT8_MM_INT8_TO_INT32,
                           .b_quant = RKNN_QUANT_TYPE_PER_CHANNEL_SYM,
                           .m = 1,
                           .k = 32,
                           .n = 32};
    rknn_matmul_info info = matmul_info(&p);
    rknn_matmul_io_attr io;
    rknn_matmul_ctx c = 0;
    float scales[32], scale = 0;
    for (int i = 0; i < 32; i++)
        scales[i] = 0.25f + (float)(i == 7);
    NEED_OK(rknn_matmul_create(&c, &info, &io));
    rknn_quant_params params = {.name = "B", .scale = scales, .scale_len = 32};
    EXPECT_OK(rknn_matmul_set_quant_params(c, &params));
    EXPECT_OK(rknn_matmul_get_quant_params(c, &params, &scale));
    EXPECT_CMP(scale, ==, 1.25f);
    EXPECT_OK(rknn_matmul_destroy(c));
}

static void test_cores(void)
{
    struct plain_case p = {
        .chip = chip, .type = RKNN_INT8_MM_INT8_TO_INT32, .m = 1, .k = 32, .n = 32};
    rknn_matmul_info info = matmul_info(&p);
    rknn_matmul_io_attr io;
    rknn_matmul_ctx c = 0;
    bool several = strcmp(chip, "rk3588") == 0 || strcmp(chip, "rk3576") == 0;
    NEED_OK(rknn_matmul_create(&c, &info, &io));
    int code = rknn_matmul_set_core_mask(c, RKNN_NPU_CORE_0_1);
    EXPECT(several ? code == RKNN_SUCC : code != RKNN_SUCC);
    EXPECT_OK(rknn_matmul_destroy(c));
}

int main(int argc, char **argv)
{
    conformance_start(argc, argv);
    chip = matmul_chip();
    test_kinds();
    test_rearranging();
    test_one_context_for_long();
    test_scale_of_channels();
    test_cores();
    return conformance_finish();
}
