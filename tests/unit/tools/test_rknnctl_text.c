// Numbers, tables and descriptions as rknnctl prints them.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tools/format/format.h"
#include "tools/format/order_stats.h"
#include "tools/format/table.h"
#include "tools/format/values.h"
#include "tools/view/describe.h"
#include "tools/view/layers.h"

static void numbers_have_three_digits_and_a_unit(void **state)
{
    (void)state;
    struct format_buffer b;
    assert_string_equal(format_bytes(&b, 0), "0 B");
    assert_string_equal(format_bytes(&b, 1023), "1023 B");
    assert_string_equal(format_bytes(&b, 1024), "1.00 KiB");
    assert_string_equal(format_bytes(&b, 150528), "147 KiB");
    assert_string_equal(format_bytes(&b, 1048575), "1.00 MiB");
    assert_string_equal(format_bytes(&b, 10480517), "9.99 MiB");
    assert_string_equal(format_bytes(&b, 10485759), "10.0 MiB");
    assert_string_equal(format_bytes(&b, UINT64_MAX), "16.0 EiB");
    assert_string_equal(format_ns(&b, 999), "999 ns");
    assert_string_equal(format_ns(&b, 1000), "1.00 us");
    assert_string_equal(format_ns(&b, 999499), "999 us");
    assert_string_equal(format_ns(&b, 999500), "1.00 ms");
    assert_string_equal(format_us(&b, 0), "0 us");
    assert_string_equal(format_us(&b, 12345), "12.3 ms");
    assert_string_equal(format_us(&b, 3600000000u), "3600 s");
    assert_string_equal(format_uptime(&b, 250), "0.25 s");
    assert_string_equal(format_uptime(&b, 61000), "1 min 1 s");
    assert_string_equal(format_uptime(&b, 7260000), "2 h 1 min");
    assert_string_equal(format_uptime(&b, 90000000), "1 d 1 h");
}

static void shapes_and_indices(void **state)
{
    (void)state;
    struct format_buffer b;
    const uint32_t dims[] = {1, 3, 4, 5};
    uint32_t wide[16];
    for (size_t i = 0; i < 16; i++)
        wide[i] = UINT32_MAX;
    assert_string_equal(format_dims(&b, dims, 4), "1x3x4x5");
    assert_string_equal(format_dims(&b, dims, 0), "scalar");
    assert_int_equal(strlen(format_dims(&b, wide, 16)), 16 * 10 + 15);
    assert_string_equal(format_index(&b, 0, dims, 4), "[0,0,0,0]");
    assert_string_equal(format_index(&b, 59, dims, 4), "[0,2,3,4]");
    assert_string_equal(format_index(&b, 27, dims, 4), "[0,1,1,2]");
    assert_string_equal(format_index(&b, 7, (uint32_t[]){10}, 1), "[7]");
    assert_string_equal(format_index(&b, 0, dims, 0), "[]");
}

static void percentiles_are_nearest_rank(void **state)
{
    (void)state;
    uint64_t v[100];
    for (uint64_t i = 0; i < 100; i++)
        v[(i * 37) % 100] = i + 1;
    stats_sort(v, 100);
    assert_int_equal(stats_percentile(v, 100, 0), 1);
    assert_int_equal(stats_percentile(v, 100, 50), 50);
    assert_int_equal(stats_percentile(v, 100, 99), 99);
    assert_int_equal(stats_percentile(v, 100, 100), 100);
    assert_int_equal(stats_permille(v, 100, 999), 100);
    assert_int_equal(stats_permille(v, 100, 990), 99);
    assert_int_equal(stats_percentile(v, 1, 99), 1);
    assert_int_equal(stats_percentile(v, 3, 50), 2);
    assert_int_equal(stats_percentile(v, 2, 50), 1);
}

static void the_largest_come_first_and_nan_not_at_all(void **state)
{
    (void)state;
    const float v[] = {1, NAN, 5, -INFINITY, 5, 3, INFINITY, -2};
    struct value top[8];
    assert_int_equal(values_top(v, 8, top, 4), 4);
    assert_int_equal(top[0].index, 6);
    assert_int_equal(top[1].index, 2);
    assert_int_equal(top[2].index, 4);
    assert_int_equal(top[3].index, 5);
    assert_int_equal(values_top(v, 8, top, 8), 7);
    assert_int_equal(top[6].index, 3);
    assert_int_equal(values_top(v, 8, top, 0), 0);
    assert_int_equal(values_top(v + 1, 1, top, 3), 0);
}

static void ranges_leave_nan_out(void **state)
{
    (void)state;
    const float v[] = {2, NAN, -4, 8};
    struct value_range r = values_range(v, 4);
    assert_cmp(r.min, ==, -4);
    assert_cmp(r.max, ==, 8);
    assert_cmp(r.mean, ==, 2);
    assert_int_equal(r.n_nan, 1);
    r = values_range(v + 1, 1);
    assert_cmp(r.min, ==, 0);
    assert_cmp(r.max, ==, 0);
    assert_cmp(r.mean, ==, 0);
    assert_int_equal(r.n_nan, 1);
}

struct text {
    char *text;
    size_t size;
    FILE *file;
};

static FILE *text_open(struct text *t)
{
    *t = (struct text){0};
    t->file = open_memstream(&t->text, &t->size);
    assert_non_null(t->file);
    return t->file;
}

static void text_check(struct text *t, const char *expected)
{
    fclose(t->file);
    assert_string_equal(t->text, expected);
    free(t->text);
}

static const struct table_column columns[] = {{"name", TABLE_LEFT, TABLE_CUT_END, 0},
                                              {"n", TABLE_RIGHT, TABLE_FIXED, 0},
                                              {"last", TABLE_LEFT, TABLE_FIXED, 0}};

static void fill(struct table *t)
{
    static const char *const names[] = {"a", "größer als acht", "c"};
    table_init(t, columns, 3);
    for (int i = 0; i < 3; i++) {
        table_cell(t, "%s", names[i]);
        table_cell(t, "%d", 9 + i);
        table_cell(t, "x");
    }
}

static void columns_line_up(void **state)
{
    (void)state;
    struct table t;
    struct text out;
    fill(&t);
    assert_int_equal(table_print(&t, text_open(&out), " ", 0), 0);
    text_check(&out, " name              n  last\n"
                     " a                 9  x\n"
                     " größer als acht  10  x\n"
                     " c                11  x\n");
    table_done(&t);
}

static void a_spreadsheet_gets_all_cells(void **state)
{
    (void)state;
    struct table t;
    struct text out;
    fill(&t);
    table_cell(&t, "a, \"b\"");
    table_cell(&t, "%d", 1);
    table_cell(&t, "two\nlines");
    assert_int_equal(table_csv(&t, text_open(&out)), 0);
    text_check(&out, "name,n,last\n"
                     "a,9,x\n"
                     "größer als acht,10,x\n"
                     "c,11,x\n"
                     "\"a, \"\"b\"\"\",1,two?lines\n");
    table_done(&t);
}

static void a_narrow_table_cuts_its_flexible_column(void **state)
{
    (void)state;
    struct table t;
    struct text out;
    fill(&t);
    assert_int_equal(table_print(&t, text_open(&out), "", 20), 0);
    text_check(&out, "name         n  last\n"
                     "a            9  x\n"
                     "größer al~  10  x\n"
                     "c           11  x\n");
    assert_int_equal(table_print(&t, text_open(&out), "", 5), 0);
    text_check(&out, "name       n  last\n"
                     "a          9  x\n"
                     "größer ~  10  x\n"
                     "c         11  x\n");
    table_done(&t);
}

static void a_narrow_table_leaves_out_what_can_be_missed(void **state)
{
    (void)state;
    static const struct table_column some[] = {{"first", TABLE_LEFT, TABLE_FIXED, 1},
                                               {"second", TABLE_RIGHT, TABLE_FIXED, 2},
                                               {"name", TABLE_LEFT, TABLE_CUT_START, 0}};
    struct table t;
    struct text out;
    table_init(&t, some, 3);
    table_cell(&t, "1");
    table_cell(&t, "2");
    table_cell(&t, "/block.12/grüße/Conv");
    assert_int_equal(table_print(&t, text_open(&out), "", 31), 0);
    text_check(&out, "first  second  name\n"
                     "1           2  ~k.12/grüße/Conv\n");
    assert_int_equal(table_print(&t, text_open(&out), "", 30), 0);
    text_check(&out, "first  name\n"
                     "1      /block.12/grüße/Conv\n"
                     "(1 more column: on a wider terminal, or in a pipe)\n");
    assert_int_equal(table_print(&t, text_open(&out), "", 22), 0);
    text_check(&out, "name\n"
                     "/block.12/grüße/Conv\n"
                     "(2 more columns: on a wider terminal, or in a pipe)\n");
    table_done(&t);
}

// At their start, else in the middle, else with their number; equal names stay equal.
static void names_that_are_cut_stay_different(void **state)
{
    (void)state;
    static const struct table_column only[] = {{"name", TABLE_LEFT, TABLE_CUT_START, 0}};
    static const char *const names[] = {
        "/one/block.0/Conv",
        "/two/block.0/Conv",
        "/two/block.0/Conv",
        "/one/block.1/ünder",
        "/a/b/0/c/d/e/f",
        "/a/b/1/c/d/e/f",
        "short",
        "ß/block.0/Conv/end",
        "/abcdefgh1ijklmnopq",
        "/abcdefgh2ijklmnopq",
    };
    struct text out;
    struct table t;
    table_init(&t, only, 1);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        table_cell(&t, "%s", names[i]);
    assert_int_equal(table_print(&t, text_open(&out), "", 8), 0);
    text_check(&out, "name\n"
                     "/one~onv\n"
                     "/two~onv\n"
                     "/two~onv\n"
                     "~1/ünder\n"
                     "/a/b/0~f\n"
                     "/a/b/1~f\n"
                     "short\n"
                     "~onv/end\n"
                     "~mnopq#9\n"
                     "~nopq#10\n");
    table_done(&t);
}

static const rknnd_layer layer_array[] = {
    {.name = "Conv:a, \"b\"",
     .op = "Conv",
     .type = "INT8",
     .target = "NPU",
     .input_shapes = "(1,3)",
     .output_shapes = "(1,4)",
     .ddr_cycles = 5,
     .npu_cycles = 7,
     .total_cycles = 8,
     .estimate_ns = 12345,
     .mac_cycles = 2,
     .read_bytes = 1000,
     .write_bytes = 1048,
     .n_core_work = 2,
     .core_work = (const uint64_t[]){3, 1}},
    {.name = "Pool:p",
     .op = "Pool",
     .type = "INT8",
     .target = "CPU",
     .input_shapes = "",
     .output_shapes = ""},
    {.name = "Conv:c",
     .op = "Conv",
     .type = "INT8",
     .target = "NPU",
     .input_shapes = "",
     .output_shapes = ""},
};
static const uint64_t layer_us[] = {1, 2, 3, 10, 30, 30, 35, 90, 4, 4, 4, 4};
static const rknnd_list layers = {sizeof layers, 3, sizeof *layer_array, 0, layer_array};
static const struct layer_times layer_times = {.layers = &layers, .n_runs = 4, .us = layer_us};
static const struct layer_times software_times = {
    .layers = &layers,
    .n_runs = 4,
    .us = layer_us,
    .timing = {.software = true, .chip = "rk3588", .n_unestimated = 2}};

static void layers_for_a_spreadsheet(void **state)
{
    (void)state;
    struct text out;
    layers_csv(&layer_times, text_open(&out));
    text_check(&out,
               "ID,OpType,DataType,Target,InputShape,OutputShape,DDRCycles,NPUCycles,MaxCycles,"
               "Time(us),Spread(us),MacUsage(%),WorkLoad(0/1/2),RW(KB),FullName\n"
               "1,Conv,INT8,NPU,\"(1,3)\",\"(1,4)\",5,7,8,2,2,25.00,75.0%/25.0%/0.0%,2,"
               "\"Conv:a, \"\"b\"\"\"\n"
               "2,Pool,INT8,CPU,,,0,0,0,30,5,\\,0.0%/0.0%/0.0%,0,Pool:p\n"
               "3,Conv,INT8,NPU,,,0,0,0,4,0,\\,0.0%/0.0%/0.0%,0,Conv:c\n");
}

static void a_software_npu_has_two_columns_of_times(void **state)
{
    (void)state;
    struct text out;
    layers_csv(&software_times, text_open(&out));
    text_check(&out,
               "ID,OpType,DataType,Target,InputShape,OutputShape,DDRCycles,NPUCycles,MaxCycles,"
               "Estimate(us),Machine(us),MachineSpread(us),MacUsage(%),WorkLoad(0/1/2),RW(KB),"
               "FullName\n"
               "1,Conv,INT8,NPU,\"(1,3)\",\"(1,4)\",5,7,8,12.3,2,2,25.00,75.0%/25.0%/0.0%,2,"
               "\"Conv:a, \"\"b\"\"\"\n"
               "2,Pool,INT8,CPU,,,0,0,0,-,30,5,\\,0.0%/0.0%/0.0%,0,Pool:p\n"
               "3,Conv,INT8,NPU,,,0,0,0,-,4,0,\\,0.0%/0.0%/0.0%,0,Conv:c\n");
    assert_int_equal(layers_print_ranking(&software_times, text_open(&out), "", 0), 0);
    text_check(&out, "OpType  CallNumber  Estimate(us)  EstimateRatio(%)  Machine(us)  "
                     "MachineRatio(%)\n"
                     "Conv             2          12.3            100.00            6            "
                     "16.67\n"
                     "Pool             1             -              0.00           30            "
                     "83.33\n");
    static const rknnd_server_info software = {.backend = "sim"}, emulator = {.backend = "emu"};
    timing_print(&software_times.timing, &software, text_open(&out), "");
    text_check(&out, "Machine: what the software NPU took on the server's machine\n"
                     "Estimate: what the NPU of rk3588 would take\n"
                     "          (without 2 layers that its CPU would do)\n");
    timing_print(&software_times.timing, &emulator, text_open(&out), "");
    text_check(&out, "Machine: what the emulator took on the server's machine\n"
                     "Estimate: what the NPU of rk3588 would take\n"
                     "          (without 2 layers that its CPU would do)\n");
    timing_print(&layer_times.timing, &software, text_open(&out), "");
    text_check(&out, "");
}

static void expect_order(const struct layer_times *t, const char *by, uint32_t a, uint32_t b,
                         uint32_t c)
{
    struct error e = {0};
    uint32_t *order = NULL;
    assert_int_equal(layers_sort(t, by, &order, &e), 0);
    assert_int_equal(order[0], a);
    assert_int_equal(order[1], b);
    assert_int_equal(order[2], c);
    free(order);
}

static void layers_are_sorted_by_what_is_asked_for(void **state)
{
    (void)state;
    struct error e = {0};
    uint32_t *order;
    expect_order(&layer_times, "execution", 0, 1, 2);
    expect_order(&layer_times, "time", 1, 2, 0);
    expect_order(&software_times, "estimate", 0, 1, 2);
    expect_order(&layer_times, "op", 0, 2, 1);
    expect_order(&layer_times, "name", 0, 2, 1);
    expect_order(&layer_times, "bytes", 0, 1, 2);
    assert_int_equal(layers_sort(&layer_times, "estimate", &order, &e), STATUS_PARAM_INVALID);
    assert_non_null(strstr(e.text, "gives none"));
    assert_int_equal(layers_check_sort("id", &e), STATUS_PARAM_INVALID);
}

static void the_operator_with_the_most_time_comes_first(void **state)
{
    (void)state;
    struct text out;
    assert_int_equal(layers_print_ranking(&layer_times, text_open(&out), "", 0), 0);
    text_check(&out,
               "OpType  CallNumber  CPUTime(us)  GPUTime(us)  NPUTime(us)  TotalTime(us)  "
               "TimeRatio(%)\n"
               "Pool             1           30            0            0             30         "
               "83.33\n"
               "Conv             2            0            0            6              6         "
               "16.67\n");
}

static void descriptions_need_no_known_names(void **state)
{
    (void)state;
    struct text out;
    json_t *o = json_loads(
        "{\"version\": 6, \"ok\": true, \"text\": \"a\\u001bb\", \"none\": null, \"empty\": [],"
        " \"mean\": [0, 128.5], \"box\": {\"k\": \"v\", \"n\": [1, 0]},"
        " \"deep\": {\"list\": [{\"k\": {\"type\": \"i\", \"value\": 3}}], \"box\": {}},"
        " \"inputs\": [{\"name\": \"x\", \"dims\": [1, 3, 4]}, {\"name\": \"y\", \"n\": 5, \"of\": "
        "[{\"name\": \"z\", \"t\": 1}, {\"name\": \"w\"}]}],"
        " \"nodes\": [{\"a\": 1}, {\"a\": 2}, {\"a\": 3}]}",
        0, NULL);
    assert_non_null(o);
    assert_int_equal(describe_print(o, text_open(&out), 2, 0), 0);
    text_check(&out, "  version              6\n"
                     "  ok                   yes\n"
                     "  text                 a?b\n"
                     "  none                 -\n"
                     "  empty                -\n"
                     "  mean                 0, 128.5\n"
                     "  box                  k v, n 1, 0\n"
                     "  deep\n"
                     "    list (1)\n"
                     "      k\n"
                     "      3\n"
                     "    box                -\n"
                     "  inputs (2)\n"
                     "    name  dims   n  of\n"
                     "    x     1x3x4\n"
                     "    y            5  z 1, w\n"
                     "  nodes (3)\n");
    json_decref(o);
}

static void long_lists_of_texts_have_a_line_for_each(void **state)
{
    (void)state;
    struct text out;
    json_t *o =
        json_loads("{\"layer_steps\": [\"a_1\", \"b\", \"c\", \"d\", \"e\", \"f\", \"g\", \"h\","
                   " \"i\\u001b\"], \"deep\": {\"of_file\": {\"k\": [{\"a\": 1}]}}}",
                   0, NULL);
    assert_int_equal(describe_print(o, text_open(&out), 9, 0), 0);
    text_check(&out, "  layer steps (9)\n"
                     "    a_1\n    b\n    c\n    d\n    e\n    f\n    g\n    h\n    i?\n"
                     "  deep\n"
                     "    of_file\n"
                     "      k (1)\n"
                     "        a\n"
                     "        1\n");
    json_decref(o);
}

static void long_lines_are_broken_after_commas(void **state)
{
    (void)state;
    struct text out;
    json_t *o = json_loads(
        "{\"counts\": {\"Add\": 1, \"Conv\": 22, \"Reshape\": 3}, \"t\": \"none\", "
        "\"in\": [{\"name\": \"picture_0\", \"shape\": [1, 3, 224, 224], \"scale\": 0.5, "
        "\"zero_point\": 12}]}",
        0, NULL);
    assert_non_null(o);
    assert_int_equal(describe_print(o, text_open(&out), 2, 42), 0);
    text_check(&out, "  counts               Add 1, Conv 22,\n"
                     "                         Reshape 3\n"
                     "  t                    none\n"
                     "  in (1)\n"
                     "    name picture_0, shape 1x3x224x224,\n"
                     "      scale 0.5, zero_point 12\n");
    json_decref(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_have_three_digits_and_a_unit),
        cmocka_unit_test(shapes_and_indices),
        cmocka_unit_test(percentiles_are_nearest_rank),
        cmocka_unit_test(the_largest_come_first_and_nan_not_at_all),
        cmocka_unit_test(ranges_leave_nan_out),
        cmocka_unit_test(columns_line_up),
        cmocka_unit_test(a_spreadsheet_gets_all_cells),
        cmocka_unit_test(a_narrow_table_cuts_its_flexible_column),
        cmocka_unit_test(a_narrow_table_leaves_out_what_can_be_missed),
        cmocka_unit_test(names_that_are_cut_stay_different),
        cmocka_unit_test(layers_for_a_spreadsheet),
        cmocka_unit_test(a_software_npu_has_two_columns_of_times),
        cmocka_unit_test(layers_are_sorted_by_what_is_asked_for),
        cmocka_unit_test(the_operator_with_the_most_time_comes_first),
        cmocka_unit_test(descriptions_need_no_known_names),
        cmocka_unit_test(long_lists_of_texts_have_a_line_for_each),
        cmocka_unit_test(long_lines_are_broken_after_commas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
