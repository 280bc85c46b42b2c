// Products of matrices on the software NPU, through the device contract, against plain arithmetic:
// every type, layout and kind of quantization of every chip.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "tensor/matmul_model.h"
#include "tests/conformance/matmul/matmul_plain.h"
#include "tests/support/sim_run.h"

static struct matmul_kind kind_of(const struct plain_case *p)
{
    return (struct matmul_kind){.type = (uint32_t)p->type,
                                .b_layout = (uint32_t)p->b_layout,
                                .ac_layout = (uint32_t)p->ac_layout,
                                .b_quant = (uint32_t)p->b_quant,
                                .ac_quant = (uint32_t)p->ac_quant,
                                .group_size = p->group_size};
}

static void open_shapes(struct sim_run *s, const struct plain_case *p,
                        const struct matmul_shape *shapes, uint32_t n)
{
    struct error e = {0};
    struct matmul_kind kind = kind_of(p);
    struct bytes file;
    *s = (struct sim_run){0};
    assert_int_equal(matmul_model_encode(&kind, shapes, n, &file, &e), 0);
    s->file = (uint8_t *)file.data;
    struct npu_model_source source = {.file = file, .name = "matmul"};
    assert_int_equal(npu_backend.device_open(p->chip, &s->device, &e), 0);
    int r = npu_backend.model_load(s->device, &source, &s->model, &e);
    if (r < 0)
        fail_msg("%s", e.text);
    assert_int_equal(npu_backend.context_new(s->model, &s->context, &e), 0);
    s->info = npu_backend.model_info(s->model);
}

static uint8_t *scales_of(const struct plain_quant *q)
{
    uint8_t *bytes = malloc(q->n_scales * (size_t)MATMUL_SCALE_SIZE);
    memcpy(bytes, q->scales, q->n_scales * sizeof *q->scales);
    memcpy(bytes + q->n_scales * sizeof *q->scales, q->zps, q->n_scales * sizeof *q->zps);
    return bytes;
}

static int run(struct sim_run *s, const struct plain_problem *x, uint32_t shape, uint64_t version,
               uint8_t *c, struct error *e)
{
    const struct plain_quant *q = &x->quant;
    uint8_t parameters[MATMUL_RUN_SIZE];
    cleanup(free_p) uint8_t *scales = scales_of(q);
    matmul_run_encode(&(struct matmul_run){.shape = shape,
                                           .b_version = version,
                                           .a_scale = q->a_scale,
                                           .a_zp = q->a_zp,
                                           .c_scale = q->c_scale,
                                           .c_zp = q->c_zp,
                                           .c_set = q->c_set},
                      parameters);
    struct npu_input in[MATMUL_INPUTS] = {
        [MATMUL_A] = {.data = x->a, .size = plain_bytes(&x->which, 'A')},
        [MATMUL_B] = {.data = x->b, .size = plain_bytes(&x->which, 'B')},
        [MATMUL_SCALES] = {.data = scales, .size = q->n_scales * (size_t)MATMUL_SCALE_SIZE},
        [MATMUL_RUN] = {.data = parameters, .size = sizeof parameters}};
    struct npu_output out = {.data = c, .size = plain_bytes(&x->which, 'C')};
    return sim_run_once(s, in, &out, e);
}

// C is calloc'ed.
static uint8_t *multiply(struct sim_run *s, const struct plain_problem *x, uint32_t shape,
                         uint64_t version)
{
    struct error e = {0};
    uint8_t *c = calloc(plain_bytes(&x->which, 'C'), 1);
    if (run(s, x, shape, version, c, &e) < 0)
        fail_msg("%s", e.text);
    return c;
}

static void check(struct sim_run *s, const struct plain_problem *x, uint32_t shape,
                  uint64_t version)
{
    cleanup(free_p) uint8_t *c = multiply(s, x, shape, version);
    assert_true(plain_check(x, c));
}

static void try_case(const struct plain_case *p, bool quantized)
{
    struct sim_run s;
    struct plain_problem x;
    open_shapes(&s, p, &(struct matmul_shape){p->m, p->k, p->n}, 1);
    assert_int_equal(s.info->inputs[MATMUL_A].logical.size, plain_bytes(p, 'A'));
    assert_int_equal(s.info->inputs[MATMUL_B].logical.size, plain_bytes(p, 'B'));
    assert_int_equal(s.info->outputs[0].logical.size, plain_bytes(p, 'C'));
    plain_problem_make(&x, p, quantized);
    check(&s, &x, 0, 1);
    plain_problem_done(&x);
    sim_run_done(&s);
}

static void try_both(const struct plain_case *p, void *owner)
{
    int *count = owner;
    try_case(p, false);
    try_case(p, true);
    (*count)++;
}

static void all_there_are(void **state)
{
    int count = 0;
    (void)state;
    plain_for_each(try_both, &count);
    print_message("%d kinds\n", count);
    assert_cmp(count, >, 500);
}

static void long_columns(void **state)
{
    const struct plain_case cases[] = {
        {.chip = "rk3588", .type = 2, .b_layout = 1, .m = 2, .k = 20480, .n = 64},
        {.chip = "rk3588", .type = 1, .b_layout = 1, .m = 2, .k = 8192 + 32, .n = 32},
        {.chip = "rk3588", .type = 10, .b_layout = 1, .ac_layout = 1, .m = 2, .k = 16384, .n = 64},
        {.chip = "rk3576", .type = 7, .b_layout = 1, .b_quant = 2, .m = 1, .k = 10240, .n = 32},
        {.chip = "rk3576",
         .type = 11,
         .b_layout = 1,
         .b_quant = 4,
         .group_size = 128,
         .m = 3,
         .k = 4096 + 128,
         .n = 32},
        {.chip = "rk3588", .type = 2, .b_layout = 2, .m = 1, .k = 160000, .n = 32},
        {.chip = "rk3576",
         .type = 11,
         .b_quant = 5,
         .ac_quant = 1,
         .group_size = 80000,
         .m = 1,
         .k = 160000,
         .n = 32},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        try_case(&cases[i], false);
        try_case(&cases[i], true);
    }
}

static void many_rows(void **state)
{
    struct plain_case p = {.chip = "rk3588",
                           .type = 9,
                           .ac_layout = 1,
                           .b_layout = 1,
                           .b_quant = 2,
                           .m = 300,
                           .k = 64,
                           .n = 32};
    (void)state;
    try_case(&p, true);
    p.type = 4;
    p.b_quant = 0;
    try_case(&p, false);
}

// Sums of products of -128 pass 2^31 at K = 131072.
static void integers_saturate(void **state)
{
    struct plain_case p = {.chip = "rk3588", .type = 2, .m = 1, .k = 140000 / 32 * 32, .n = 32};
    struct plain_problem x;
    struct sim_run s;
    (void)state;
    open_shapes(&s, &p, &(struct matmul_shape){p.m, p.k, p.n}, 1);
    plain_problem_make(&x, &p, false);
    memset(x.a, 0x80, plain_bytes(&p, 'A'));
    memset(x.b, 0x80, plain_bytes(&p, 'B'));
    cleanup(free_p) uint8_t *c = multiply(&s, &x, 0, 1);
    for (uint32_t i = 0; i < p.n; i++)
        assert_int_equal(((int32_t *)c)[i], INT32_MAX);
    plain_problem_done(&x);
    sim_run_done(&s);
}

static void halves_go_to_even(void **state)
{
    struct plain_case p = {.chip = "rk3588", .type = 3, .m = 1, .k = 32, .n = 32};
    struct plain_problem x;
    struct sim_run s;
    (void)state;
    open_shapes(&s, &p, &(struct matmul_shape){p.m, p.k, p.n}, 1);
    plain_problem_make(&x, &p, false);
    x.quant.c_set = true;
    x.quant.c_scale = 2;
    memset(x.a, 0, plain_bytes(&p, 'A'));
    x.a[0] = 1;
    for (int i = 0; i < 32; i++)
        x.b[i] = (uint8_t)(i - 16);
    cleanup(free_p) uint8_t *c = multiply(&s, &x, 0, 1);
    const int8_t expected[] = {-8, -8, -7, -6, -6, -6, -5, -4, -4, -4, -3, -2, -2, -2, -1, 0,
                               0,  0,  1,  2,  2,  2,  3,  4,  4,  4,  5,  6,  6,  6,  7,  8};
    assert_memory_equal(c, expected, sizeof expected);
    plain_problem_done(&x);
    sim_run_done(&s);
}

static void shapes_of_one_model(void **state)
{
    const struct matmul_shape shapes[] = {{1, 64, 32}, {7, 64, 32}, {130, 32, 64}};
    struct plain_case p = {.chip = "rk3588", .type = 2, .ac_layout = 1, .b_layout = 1};
    struct sim_run s;
    (void)state;
    open_shapes(&s, &p, shapes, 3);
    for (uint64_t i = 0; i < 9; i++) {
        struct plain_problem x;
        p.m = shapes[i % 3].m;
        p.k = shapes[i % 3].k;
        p.n = shapes[i % 3].n;
        plain_problem_make(&x, &p, false);
        check(&s, &x, (uint32_t)(i % 3), i < 6 ? i + 1 : 0);
        plain_problem_done(&x);
    }
    sim_run_done(&s);
}

// B stays what it was as long as its version does, also for another number of rows.
static void b_stays(void **state)
{
    const struct matmul_shape shapes[] = {{1, 64, 32}, {4, 64, 32}};
    struct plain_case p = {.chip = "rk3588", .type = 2, .m = 1, .k = 64, .n = 32};
    struct plain_problem x;
    struct sim_run s;
    (void)state;
    open_shapes(&s, &p, shapes, 2);
    plain_problem_make(&x, &p, false);
    check(&s, &x, 0, 5);
    cleanup(free_p) uint8_t *was = malloc(plain_bytes(&p, 'B'));
    memcpy(was, x.b, plain_bytes(&p, 'B'));
    memset(x.b, 1, plain_bytes(&p, 'B'));
    cleanup(free_p) uint8_t *c = multiply(&s, &x, 0, 5);
    memcpy(x.b, was, plain_bytes(&p, 'B'));
    assert_true(plain_check(&x, c));
    memset(x.b, 1, plain_bytes(&p, 'B'));
    check(&s, &x, 0, 6);
    plain_problem_done(&x);
    sim_run_done(&s);
}

static void stopped_run(void **state)
{
    struct plain_case p = {.chip = "rk3588", .type = 2, .m = 4, .k = 64, .n = 32};
    const atomic_bool stop = true;
    struct plain_problem x;
    struct sim_run s;
    struct error e = {0};
    (void)state;
    open_shapes(&s, &p, &(struct matmul_shape){p.m, p.k, p.n}, 1);
    plain_problem_make(&x, &p, false);
    cleanup(free_p) uint8_t *c = calloc(plain_bytes(&p, 'C'), 1);
    s.stop = &stop;
    assert_int_equal(run(&s, &x, 0, 1, c, &e), STATUS_FAIL);
    assert_non_null(strstr(e.text, "stopped"));
    s.stop = NULL;
    check(&s, &x, 0, 1);
    plain_problem_done(&x);
    sim_run_done(&s);
}

// ---- others between its slices ----

// A product that lends the device to another context's.
struct lent {
    struct npu_slices slices;
    struct sim_run other;
    struct plain_problem x;
    int n, stop_at; // times; 0: it is never stopped
};

static int lend(struct npu_slices *slices, struct error *e)
{
    struct lent *l = container_of(slices, struct lent, slices);
    if (++l->n == l->stop_at)
        return error_set(e, STATUS_TIMEOUT, "long enough");
    check(&l->other, &l->x, 0, (uint64_t)l->n % 2);
    return 0;
}

static void others_between(const struct plain_case *p, int at_least)
{
    static const atomic_bool always = true;
    struct plain_case small = {.chip = "rk3588", .type = 2, .m = 4, .k = 64, .n = 32};
    struct lent l = {.slices = {.us = 2000, .wanted = &always, .wait = lend}};
    struct plain_problem x;
    struct sim_run s;
    struct error e = {0};
    open_shapes(&s, p, &(struct matmul_shape){p->m, p->k, p->n}, 1);
    open_shapes(&l.other, &small, &(struct matmul_shape){small.m, small.k, small.n}, 1);
    plain_problem_make(&x, p, true);
    plain_problem_make(&l.x, &small, false);
    size_t size = plain_bytes(p, 'C');
    cleanup(free_p) uint8_t *alone = multiply(&s, &x, 0, 1);
    s.slices = &l.slices;
    cleanup(free_p) uint8_t *between = multiply(&s, &x, 0, 2);
    assert_memory_equal(between, alone, size);
    assert_true(plain_check_some(&x, between, 37));
    assert_cmp(l.n, >=, at_least);
    l.stop_at = l.n + 3;
    assert_int_equal(run(&s, &x, 0, 2, between, &e), STATUS_TIMEOUT);
    assert_int_equal(l.n, l.stop_at);
    s.slices = NULL;
    cleanup(free_p) uint8_t *after = multiply(&s, &x, 0, 2);
    assert_memory_equal(after, alone, size);
    plain_problem_done(&x);
    plain_problem_done(&l.x);
    sim_run_done(&l.other);
    sim_run_done(&s);
}

// 128 rows at a time, and so many columns of these that a slice has 2^26 products.
static void others_between_slices(void **state)
{
    (void)state;
    others_between(&(struct plain_case){.chip = "rk3588",
                                        .type = 2,
                                        .ac_layout = 1,
                                        .b_layout = 1,
                                        .m = 260,
                                        .k = 2048,
                                        .n = 544},
                   6);
    others_between(
        &(struct plain_case){
            .chip = "rk3588", .type = 1, .b_layout = 2, .m = 130, .k = 4096, .n = 320},
        4);
    // Scales of groups: some columns of one group have been multiplied when others come.
    others_between(&(struct plain_case){.chip = "rk3576",
                                        .type = 11,
                                        .b_layout = 1,
                                        .b_quant = 4,
                                        .group_size = 1024,
                                        .m = 128,
                                        .k = 2048,
                                        .n = 1024},
                   4);
}

// ---- what is refused ----

static void refuse(const char *chip, struct matmul_kind kind, struct matmul_shape shape,
                   const char *words)
{
    struct matmul_matrix x[3];
    struct error e = {0};
    assert_int_equal(matmul_place(&kind, &shape, chip, x, &e), STATUS_PARAM_INVALID);
    if (!strstr(e.text, words))
        fail_msg("\"%s\" does not say \"%s\"", e.text, words);
}

static void refused_shapes(void **state)
{
    const struct matmul_shape good = {4, 64, 64};
    (void)state;
    refuse("rv1106", (struct matmul_kind){.type = 2}, good, "no matmul");
    refuse("rk3588", (struct matmul_kind){.type = 0}, good, "type 0");
    refuse("rk3588", (struct matmul_kind){.type = 6}, good, "type 6");
    refuse("rk3588", (struct matmul_kind){.type = 5}, good, "rk3588");
    refuse("rk3576", (struct matmul_kind){.type = 10}, good, "rk3576");
    refuse("rk3568", (struct matmul_kind){.type = 4}, good, "rk3568");
    refuse("rk3588", (struct matmul_kind){.type = UINT32_MAX}, good, "type");
    refuse("rk3566", (struct matmul_kind){.type = 2, .b_layout = 2}, good, "TP_NORM");
    refuse("rk3588", (struct matmul_kind){.type = 2, .b_layout = 3}, good, "B_layout 3");
    refuse("rk3588", (struct matmul_kind){.type = 2, .ac_layout = 2}, good, "AC_layout 2");
    refuse("rk3588", (struct matmul_kind){.type = 2, .b_quant = 6}, good, "B_quant_type 6");
    refuse("rk3588", (struct matmul_kind){.type = 2, .ac_quant = 2}, good, "AC_quant_type 2");
    refuse("rk3588", (struct matmul_kind){.type = 1, .b_quant = 2}, good, "not quantized");
    refuse("rk3588", (struct matmul_kind){.type = 2, .b_quant = 4}, good, "group_size 0");
    refuse("rk3588", (struct matmul_kind){.type = 2, .b_quant = 4, .group_size = 48}, good,
           "group_size 48");
    refuse("rk3588", (struct matmul_kind){.type = 2}, (struct matmul_shape){0, 64, 64}, "M is 0");
    refuse("rk3588", (struct matmul_kind){.type = 2}, (struct matmul_shape){1, 40, 64}, "K is 40");
    refuse("rk3588", (struct matmul_kind){.type = 2}, (struct matmul_shape){1, 0, 64}, "K is 0");
    refuse("rk3588", (struct matmul_kind){.type = 2}, (struct matmul_shape){1, 64, 48}, "N is 48");
    refuse("rk3588", (struct matmul_kind){.type = 10}, (struct matmul_shape){1, 64, 96}, "of 64");
    refuse("rk3588", (struct matmul_kind){.type = 2}, (struct matmul_shape){1, 64, 8192}, "4096");
    refuse("rk3562", (struct matmul_kind){.type = 2}, (struct matmul_shape){1, 10272, 16}, "10240");
    refuse("rk3588", (struct matmul_kind){.type = 2}, (struct matmul_shape){1u << 31, 64, 64},
           "4 GB");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_there_are),
        cmocka_unit_test(long_columns),
        cmocka_unit_test(many_rows),
        cmocka_unit_test(integers_saturate),
        cmocka_unit_test(halves_go_to_even),
        cmocka_unit_test(shapes_of_one_model),
        cmocka_unit_test(b_stays),
        cmocka_unit_test(stopped_run),
        cmocka_unit_test(others_between_slices),
        cmocka_unit_test(refused_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
