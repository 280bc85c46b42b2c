// rknnctl's options: what is taken, what is refused, and in which words.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "rknn_api.h"
#include "tools/ui/cmd_options.h"
#include "tools/ui/core_mask.h"
#include "tools/ui/exit_code.h"
#include "tools/ui/text_list.h"

struct values {
    uint32_t loop, cores;
    bool flag;
    const char *text;
    struct text_list list;
};

static int parse(struct values *v, bool stop, int min, int max, char **argv, int *first,
                 struct error *e)
{
    const struct option_row rows[] = {
        {'n', "loop", OPTION_NUMBER, &v->loop, "N", "", 1, 50, NULL},
        {0, "core-mask", OPTION_CALL, &v->cores, "M", "", 0, 0, core_mask_option},
        {'r', "raw", OPTION_FLAG, &v->flag, NULL, "", 0, 0, NULL},
        {'o', "output", OPTION_TEXT, &v->text, "DIR", "", 0, 0, NULL},
        {'i', "input", OPTION_CALL, &v->list, "FILE", "", 0, 0, text_list_option},
    };
    const struct cmd_options options = {
        .usage = "test", .summary = "", .rows = rows, .n_rows = 5, .stop_at_argument = stop};
    int argc = 0;
    while (argv[argc])
        argc++;
    return cmd_options_parse_n(&options, argc, argv, min, max, first, e);
}

#define ARGV(...) ((char *[]){"test", __VA_ARGS__, NULL})

static void options_and_arguments_mix(void **state)
{
    (void)state;
    struct values v = {.loop = 1};
    struct error e = {0};
    int first;
    char **argv = ARGV("-i", "a", "model", "-r", "--core-mask=0,2", "--input", "b=c", "-n7", "-i-");
    assert_int_equal(parse(&v, false, 1, 1, argv, &first, &e), 0);
    assert_string_equal(argv[first], "model");
    assert_int_equal(v.loop, 7);
    assert_int_equal(v.cores, 5);
    assert_true(v.flag);
    assert_null(v.text);
    assert_int_equal(v.list.n, 3);
    assert_string_equal(v.list.items[0], "a");
    assert_string_equal(v.list.items[1], "b=c");
    assert_string_equal(v.list.items[2], "-");
    text_list_done(&v.list);
}

static void parsing_starts_afresh_each_time(void **state)
{
    (void)state;
    struct values v = {0};
    struct error e;
    int first;
    assert_int_equal(parse(&v, false, 0, 9, ARGV("-rx"), &first, &e), STATUS_PARAM_INVALID);
    char **argv = ARGV("x", "-n", "3");
    assert_int_equal(parse(&v, false, 0, 9, argv, &first, &e), 0);
    assert_int_equal(v.loop, 3);
    assert_int_equal(first, 3);
}

static void a_command_keeps_its_own_options(void **state)
{
    (void)state;
    struct values v = {0};
    struct error e;
    int first;
    char **argv = ARGV("-r", "run", "--unknown", "-n", "3");
    assert_int_equal(parse(&v, true, 0, 9, argv, &first, &e), 0);
    assert_string_equal(argv[first], "run");
    assert_string_equal(argv[first + 1], "--unknown");
    assert_int_equal(v.loop, 0);
}

static void check_refused(char **argv, const char *words)
{
    struct values v = {0};
    struct error e = {0};
    int first;
    assert_int_equal(parse(&v, false, 1, 1, argv, &first, &e), STATUS_PARAM_INVALID);
    if (!strstr(e.text, words))
        fail_msg("\"%s\" is not in \"%s\"", words, e.text);
    assert_int_equal(e.code, STATUS_PARAM_INVALID);
}

static void refusals_name_the_option(void **state)
{
    (void)state;
    check_refused(ARGV("m", "--nothing"), "unknown option --nothing");
    check_refused(ARGV("m", "--nothing=1"), "unknown option --nothing=1");
    check_refused(ARGV("m", "-x"), "unknown option -x");
    check_refused(ARGV("m", "-rx"), "unknown option -x");
    check_refused(ARGV("m", "--output"), "--output needs a value");
    check_refused(ARGV("m", "-o"), "-o needs a value");
    check_refused(ARGV("m", "-n", "0"), "--loop: \"0\" is not a number from 1 to 50");
    check_refused(ARGV("m", "--loop", "51"), "51");
    check_refused(ARGV("m", "--core-mask", "x"), "--core-mask: \"x\"");
    check_refused(ARGV("m", "second"), "unexpected argument \"second\"");
    check_refused(ARGV("-r"), "too few arguments");
}

static void names_that_are_near_are_told(void **state)
{
    (void)state;
    check_refused(ARGV("m", "--otput", "x"), "unknown option --otput; did you mean --output?");
    check_refused(ARGV("m", "--ipnut=x"), "unknown option --ipnut=x; did you mean --input?");
    check_refused(ARGV("m", "--raw=1"), "option --raw takes no value");
}

static int note_call(void *target, const char *text, struct error *e)
{
    *(const char **)target = text;
    return text && strcmp(text, "bad") == 0 ? error_set(e, STATUS_PARAM_INVALID, "bad") : 0;
}

static void global_rows_are_every_commands(void **state)
{
    (void)state;
    struct values v = {0};
    struct error e;
    const char *text = "";
    const struct option_row rows[] = {
        {'s', "server", OPTION_CALL, &text, "URI", "", 0, 0, note_call}};
    int first;
    cmd_options_set_global(rows, 1);
    assert_int_equal(parse(&v, false, 1, 1, ARGV("m", "-s", "a", "-n", "4"), &first, &e), 0);
    assert_string_equal(text, "a");
    assert_int_equal(v.loop, 4);
    assert_int_equal(parse(&v, false, 1, 1, ARGV("m", "--server=b"), &first, &e), 0);
    assert_string_equal(text, "b");
    assert_int_equal(parse(&v, false, 1, 1, ARGV("m", "--server=bad"), &first, &e),
                     STATUS_PARAM_INVALID);
    cmd_options_set_global(NULL, 0);
    check_refused(ARGV("m", "--server=b"), "unknown option --server=b");
}

static void cores_are_names_numbers_or_masks(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t mask;
    } good[] = {{"auto", RKNN_NPU_CORE_AUTO},  {"all", RKNN_NPU_CORE_ALL},
                {"0", RKNN_NPU_CORE_0},        {"2", RKNN_NPU_CORE_2},
                {"0_1", RKNN_NPU_CORE_0_1},    {"0,1,2", RKNN_NPU_CORE_0_1_2},
                {"1,1", RKNN_NPU_CORE_1},      {"0x3", RKNN_NPU_CORE_0_1},
                {"0xffff", RKNN_NPU_CORE_ALL}, {"15", 1u << 15}};
    static const char *const bad[] = {"",    "16",  "0,",      "0,,1", "_1",   "0x",
                                      "0x0", "0x-", "0x10000", "-1",   "core", "0 1"};
    struct error e;
    uint32_t mask = 0;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(core_mask_option(&mask, good[i].text, &e), 0);
        assert_int_equal(mask, good[i].mask);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(core_mask_option(&mask, bad[i], &e), STATUS_PARAM_INVALID);
}

static void codes_become_exit_codes(void **state)
{
    (void)state;
    assert_int_equal(exit_code_of(RKNN_SUCC), 0);
    assert_int_equal(exit_code_of(RKNN_ERR_FAIL), 1);
    assert_int_equal(exit_code_of(RKNN_ERR_TIMEOUT), 1);
    assert_int_equal(exit_code_of(RKNN_ERR_PARAM_INVALID), 2);
    assert_int_equal(exit_code_of(RKNN_ERR_DEVICE_UNAVAILABLE), 3);
    assert_int_equal(exit_code_of(RKNN_ERR_MODEL_INVALID), 4);
    assert_int_equal(exit_code_of(RKNN_ERR_TARGET_PLATFORM_UNMATCH), 4);
    assert_int_equal(exit_code_of(RKNN_ERR_INPUT_INVALID), 5);
    assert_int_equal(exit_code_of(-1000), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_and_arguments_mix),
        cmocka_unit_test(parsing_starts_afresh_each_time),
        cmocka_unit_test(a_command_keeps_its_own_options),
        cmocka_unit_test(refusals_name_the_option),
        cmocka_unit_test(names_that_are_near_are_told),
        cmocka_unit_test(global_rows_are_every_commands),
        cmocka_unit_test(cores_are_names_numbers_or_masks),
        cmocka_unit_test(codes_become_exit_codes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
