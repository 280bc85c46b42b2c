// Tables of layer times as the runtimes of several versions print them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "npu/rknnrt/perf_table.h"

#define RULE "--------------------------------------------------------------------------------\n"

static struct perf parse(const char *text)
{
    struct perf p = {0};
    struct error e = {0};
    if (perf_parse((struct bytes){(const uint8_t *)text, strlen(text)}, &p, &e) < 0)
        fail_msg("%s", e.text);
    return p;
}

static void expect_refused(const char *text, const char *words)
{
    struct perf p = {0};
    struct error e = {0};
    assert_int_equal(perf_parse((struct bytes){(const uint8_t *)text, strlen(text)}, &p, &e),
                     STATUS_FAIL);
    if (!strstr(e.text, words))
        fail_msg("\"%s\" does not say \"%s\"", e.text, words);
}

static void reads_cycles_in_one_column(void **state)
{
    (void)state;
    struct perf p = parse(
        RULE "   Network Layer Information Table\n" RULE
             "ID   OpType        DataType Target InputShape      OutputShape  "
             "Cycles(DDR/NPU/Total) Time(us) MacUsage(%) WorkLoad(0/1)  RW(KB) FullName\n" RULE
             "1    InputOperator UINT8    CPU    \\               (1,3,8,8)    "
             "0/0/0                 6                    0.0%/0.0%      0      InputOperator:a\n"
             "2    ConvRelu      INT8     NPU    (1,3,8,8),(16)  (1,16,8,8)   "
             "1000/400/2000         4281     9.5/12.5    25.0%/75.0%    944    Conv:a b\n" RULE
             "Total Operator Elapsed Per Frame Time(us): 4287\n");
    assert_int_equal(p.n, 2);
    assert_string_equal(p.layers[0].input_shapes, "");
    assert_int_equal(p.layers[0].time_us, 6);
    assert_int_equal(p.layers[0].mac_cycles, 0);
    assert_int_equal(p.layers[0].core_mask, 0);
    const struct npu_layer *l = &p.layers[1];
    assert_string_equal(l->name, "Conv:a b");
    assert_string_equal(l->op, "ConvRelu");
    assert_string_equal(l->type, "INT8");
    assert_string_equal(l->target, "NPU");
    assert_string_equal(l->input_shapes, "(1,3,8,8),(16)");
    assert_string_equal(l->output_shapes, "(1,16,8,8)");
    assert_int_equal(l->ddr_cycles, 1000);
    assert_int_equal(l->npu_cycles, 400);
    assert_int_equal(l->total_cycles, 2000);
    assert_int_equal(l->mac_cycles, 250);
    assert_int_equal(l->time_us, 4281);
    assert_int_equal(l->core_mask, 3);
    assert_int_equal(l->core_work[1], 3 * l->core_work[0]);
    assert_int_equal(l->read_bytes + l->write_bytes, 944 * 1024);
    perf_done(&p);
}

static void reads_titles_of_two_words(void **state)
{
    (void)state;
    struct perf p =
        parse("ID OpType DataType Target DDR Cycles NPU Cycles Total Cycles Time(us) MacUsage(%) "
              "WorkLoad(0/1/2)-ImproveTherical Task Number Lut Number RW(kb) FullName\n"
              "1  Conv   UINT8    NPU    70         81         92           103      \\           "
              "50.0%/50.0%/0.0% - Up:50.0%     4           0          3      Conv:1\n"
              "\n");
    assert_int_equal(p.n, 1);
    assert_int_equal(p.layers[0].ddr_cycles, 70);
    assert_int_equal(p.layers[0].npu_cycles, 81);
    assert_int_equal(p.layers[0].total_cycles, 92);
    assert_int_equal(p.layers[0].time_us, 103);
    assert_int_equal(p.layers[0].core_mask, 3);
    assert_int_equal(p.layers[0].n_tasks, 4);
    assert_string_equal(p.layers[0].name, "Conv:1");
    perf_done(&p);
}

static void a_long_cell_may_move_the_others(void **state)
{
    (void)state;
    struct perf p = parse("OpType InputShape Time(us) FullName\n"
                          "Conv   (1,3,8,8),(16,3,1,1) 12       Conv:1\n");
    assert_int_equal(p.n, 1);
    assert_int_equal(p.layers[0].time_us, 12);
    assert_string_equal(p.layers[0].input_shapes, "(1,3,8,8),(16,3,1,1)");
    perf_done(&p);
}

static void what_is_not_understood_is_named(void **state)
{
    (void)state;
    expect_refused("", "no line has the titles");
    expect_refused("OpType FullName\nConv Conv:1\n", "no line has the titles");
    expect_refused("OpType Time(us)\nConv   12us\n", "line 2: layer \"Conv\"");
    expect_refused("OpType Time(us)\nConv   -1\n", "line 2: layer \"Conv\"");
    expect_refused("OpType Time(us)\nConv   18446744073709551617\n", "line 2");
    expect_refused("OpType Time(us) WorkLoad(0/1/2)\nConv   1        1%/1%/1%/1%\n", "line 2");
    expect_refused("OpType Time(us) MacUsage(%)\nConv   1        all\n", "line 2");
    expect_refused("OpType Time(us) Cycles(DDR/NPU/Total)\nConv   1        1/2\n", "line 2");
    expect_refused("OpType InputShape Time(us) FullName\nConv   (1,3,8,8),(16) Conv:1\n",
                   "3 words for 4 titles");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_cycles_in_one_column),
        cmocka_unit_test(reads_titles_of_two_words),
        cmocka_unit_test(a_long_cell_may_move_the_others),
        cmocka_unit_test(what_is_not_understood_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
