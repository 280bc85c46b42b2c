// The readers that model files go through: flatbuffers by slot, Python literals, tasks.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "npu/model/rknn/flatbuf.h"
#include "npu/model/rknn/pyliteral.h"
#include "npu/model/rknn/rknn_file.h"
#include "tests/support/sim_support.h"

// ---- flatbuffers ----

// root offset 16, identifier, then: vtable at 8 {8 bytes, table of 12, slot 0 at 4, slot 1 at 8},
// table at 16 {soffset 8, i32 7, offset to a vector}, vector at 28 {2 elements: 5, 6}.
static const uint8_t small[] = {16, 0, 0, 0, 'R', 'K', 'N', 'N', 8, 0, 12, 0, 4, 0,
                                8,  0, 8, 0, 0,   0,   7,   0,   0, 0, 4,  0, 0, 0,
                                2,  0, 0, 0, 5,   0,   0,   0,   6, 0, 0,  0};

static void reads_by_slot(void **state)
{
    (void)state;
    struct fb fb = {.all = {small, sizeof small}};
    struct fb_table t = fb_root(&fb, "RKNN");
    assert_int_equal(fb_i32(&t, 0, -1), 7);
    assert_int_equal(fb_i32(&t, 5, -1), -1);
    struct bytes v = fb_vector(&t, 1, 4);
    assert_int_equal(v.size, 8);
    assert_int_equal(read_le32(v.data + 4), 6);
    assert_null(fb_error(&fb));
}

static void a_vtable_may_follow_its_table(void **state)
{
    (void)state;
    static const uint8_t after[] = {8,    0, 0, 0, 'R', 'K', 'N', 'N', 0xf8, 0xff, 0xff,
                                    0xff, 9, 0, 0, 0,   6,   0,   8,   0,    4,    0};
    struct fb fb = {.all = {after, sizeof after}};
    struct fb_table t = fb_root(&fb, "RKNN");
    assert_int_equal(fb_i32(&t, 0, -1), 9);
    assert_null(fb_error(&fb));
}

static void every_byte_of_a_table_is_checked(void **state)
{
    (void)state;
    for (size_t at = 0; at < sizeof small; at++)
        for (unsigned v = 0; v < 256; v += 5) {
            uint8_t *copy = malloc(sizeof small);
            memcpy(copy, small, sizeof small);
            copy[at] = (uint8_t)v;
            struct fb fb = {.all = {copy, sizeof small}};
            struct fb_table t = fb_root(&fb, "RKNN");
            struct bytes b = fb_vector(&t, 1, 4);
            assert_cmp(b.size, <=, sizeof small);
            struct fb_list l = fb_tables(&t, 1);
            for (uint32_t i = 0; i < l.n; i++) {
                struct fb_table inner = fb_list_get(&l, i);
                fb_u64(&inner, 0, 0);
            }
            free(copy);
        }
}

// ---- Python literals ----

static void expect_json(const char *python, const char *json)
{
    struct error e = {0};
    json_t *v;
    if (pyliteral_parse(python, &v, &e) < 0)
        fail_msg("%s: %s", python, e.text);
    char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT | JSON_SORT_KEYS);
    assert_string_equal(text, json);
    free(text);
    json_decref(v);
}

static void python_literals_become_json(void **state)
{
    (void)state;
    expect_json("{'a': [1, -2.5, True], \"b\": None, 3: ('x',)}",
                "{\"3\":[\"x\"],\"a\":[1,-2.5,true],\"b\":null}");
    expect_json(" {} ", "{}");
    expect_json("[inf, 1e3]", "[null,1000.0]");
    expect_json("'it\\'s'", "\"it's\"");
}

static void what_is_no_literal_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "{",
                                      "[1, 2",
                                      "{'a'}",
                                      "{'a': }",
                                      "open(x)",
                                      "[1 2]",
                                      "'abc",
                                      "[] []",
                                      "1.2.3.4.5",
                                      "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct error e = {0};
        json_t *v = NULL;
        assert_int_equal(pyliteral_parse(bad[i], &v, &e), STATUS_MODEL_INVALID);
        assert_null(v);
        assert_int_not_equal(e.text[0], 0);
    }
}

// As many strings as a large model's attributes have, in 4 MB: that takes minutes where each string
// is measured up to the end of the text, and the test runs into its time limit.
static void many_strings_take_linear_time(void **state)
{
    enum { STRINGS = 1000 * 1000 };
    static const char item[] = "'a',";
    (void)state;
    size_t n = sizeof item - 1;
    char *text = malloc(STRINGS * n + 3);
    assert_non_null(text);
    text[0] = '[';
    for (size_t i = 0; i < STRINGS; i++)
        memcpy(text + 1 + i * n, item, n);
    memcpy(text + 1 + STRINGS * n, "]", 2);
    struct error e = {0};
    json_t *v = NULL;
    assert_int_equal(pyliteral_parse(text, &v, &e), 0);
    assert_int_equal(json_array_size(v), STRINGS);
    json_decref(v);
    free(text);
}

// ---- tasks ----

// The tasks of several cores follow those of one, which are of the same node where there is only
// one convolution.
static void tasks_of_one_core_are_told_apart(void **state)
{
    (void)state;
    static const char *const files[] = {"float16_conv_rk3588_leaky_relu", "rk3576_rows_1",
                                        "rk3568_32", "rv1106_2_1"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct sim_file data;
        struct rknn_file f;
        struct error e = {0};
        assert_true(sim_file_read(&data, PROJECT_ROOT "/tests/fuzz/corpus/rknn/%s.rknn", files[i]));
        assert_int_equal(rknn_file_open(&f, (struct bytes){data.data, data.size}, &e), 0);
        assert_int_equal(f.n_nodes, 3); // with those of input and output
        assert_int_equal(f.nodes[1].n_tasks, 1);
        assert_int_equal(f.n_tasks, 1);
        rknn_file_done(&f);
        sim_file_free(&data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_by_slot),
        cmocka_unit_test(a_vtable_may_follow_its_table),
        cmocka_unit_test(every_byte_of_a_table_is_checked),
        cmocka_unit_test(python_literals_become_json),
        cmocka_unit_test(what_is_no_literal_is_refused),
        cmocka_unit_test(many_strings_take_linear_time),
        cmocka_unit_test(tasks_of_one_core_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
