// rknnctl's options: what is taken, what is refused, and in which words.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/options/nearest.h"
#include "rknn_api.h"
#include "tools/ui/cmd_options.h"
#include "tools/ui/parse.h"

struct values {
    uint32_t loop, cores;
    bool flag;
    const char *text;
    struct text_list list;
};

static int parse(struct values *v, bool stop, int min, int max, char **argv, int *first,
                 struct failure *f)
{
    const struct option_row rows[] = {
        {'n', "loop", OPTION_NUMBER, &v->loop, "N", "", 1, 50},
        {0, "core-mask", OPTION_CORES, &v->cores, "M", "", 0, 0},
        {'r', "raw", OPTION_FLAG, &v->flag, NULL, "", 0, 0},
        {'o', "output", OPTION_TEXT, &v->text, "DIR", "", 0, 0},
        {'i', "input", OPTION_LIST, &v->list, "FILE", "", 0, 0},
    };
    const struct options options = {
        .usage = "test", .summary = "", .rows = rows, .n_rows = 5, .stop_at_argument = stop};
    int argc = 0;
    while (argv[argc])
        argc++;
    return options_parse_n(&options, argc, argv, min, max, first, f);
}

#define ARGV(...) ((char *[]){"test", __VA_ARGS__, NULL})

static void options_and_arguments_mix(void **state)
{
    (void)state;
    struct values v = {.loop = 1};
    struct failure f = {0};
    int first;
    char **argv = ARGV("-i", "a", "model", "-r", "--core-mask=0,2", "--input", "b=c", "-n7", "-i-");
    assert_int_equal(parse(&v, false, 1, 1, argv, &first, &f), 0);
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
    struct failure f;
    int first;
    assert_int_equal(parse(&v, false, 0, 9, ARGV("-rx"), &first, &f), EXIT_USAGE);
    char **argv = ARGV("x", "-n", "3");
    assert_int_equal(parse(&v, false, 0, 9, argv, &first, &f), 0);
    assert_int_equal(v.loop, 3);
    assert_int_equal(first, 3);
}

static void a_command_keeps_its_own_options(void **state)
{
    (void)state;
    struct values v = {0};
    struct failure f;
    int first;
    char **argv = ARGV("-r", "run", "--unknown", "-n", "3");
    assert_int_equal(parse(&v, true, 0, 9, argv, &first, &f), 0);
    assert_string_equal(argv[first], "run");
    assert_string_equal(argv[first + 1], "--unknown");
    assert_int_equal(v.loop, 0);
}

static void check_refused(char **argv, const char *words)
{
    struct values v = {0};
    struct failure f = {0};
    int first;
    assert_int_equal(parse(&v, false, 1, 1, argv, &first, &f), EXIT_USAGE);
    if (!strstr(f.text, words))
        fail_msg("\"%s\" is not in \"%s\"", words, f.text);
    assert_int_equal(f.code, EXIT_USAGE);
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

static void nearest_of_many(void **state)
{
    (void)state;
    static const char *const known[] = {"conv1_out", "conv2_out", "conv3_out", "conv10_out",
                                        "relu",      "conv1_out", "pool"};
    static const struct {
        const char *name, *question;
    } cases[] = {
        {"conv1-out", "; did you mean 'conv1_out?"},
        {"CONV2_OUT", "; did you mean 'conv2_out?"},
        {"conv4_out", "; did you mean 'conv1_out, 'conv2_out or 'conv3_out?"},
        {"conv", "; did you mean 'conv1_out, 'conv2_out or 'conv3_out?"},
        {"rleu", "; did you mean 'relu?"},
        {"rel", "; did you mean 'relu?"},
        {"poool", "; did you mean 'pool?"},
        {"softmax", ""},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct nearest near;
        char text[NEAREST_TEXT];
        nearest_init(&near, cases[i].name);
        for (size_t k = 0; k < sizeof known / sizeof *known; k++)
            nearest_add(&near, known[k]);
        assert_string_equal(nearest_question(&near, "'", text), cases[i].question);
    }
}

static void long_names_fit(void **state)
{
    (void)state;
    struct nearest near;
    char long_name[3000], other[3000], text[NEAREST_TEXT];
    memset(long_name, 'n', sizeof long_name - 1);
    memset(other, 'n', sizeof other - 1);
    long_name[sizeof long_name - 1] = other[sizeof other - 1] = 0;
    other[50] = 'm';
    nearest_init(&near, long_name);
    nearest_add(&near, other);
    assert_int_equal(near.n, 1);
    assert_true(strlen(nearest_question(&near, "--", text)) < NEAREST_TEXT);
}

static int note_call(void *user, const char *text, struct failure *f)
{
    *(const char **)user = text;
    return text && strcmp(text, "bad") == 0 ? failure_set(f, EXIT_USAGE, "bad") : 0;
}

static void global_rows_are_every_commands(void **state)
{
    (void)state;
    struct values v = {0};
    struct failure f;
    const char *text = "";
    struct option_call call = {note_call, &text};
    const struct option_row rows[] = {{'s', "server", OPTION_CALL, &call, "URI", "", 0, 0}};
    int first;
    options_set_global(rows, 1);
    assert_int_equal(parse(&v, false, 1, 1, ARGV("m", "-s", "a", "-n", "4"), &first, &f), 0);
    assert_string_equal(text, "a");
    assert_int_equal(v.loop, 4);
    assert_int_equal(parse(&v, false, 1, 1, ARGV("m", "--server=b"), &first, &f), 0);
    assert_string_equal(text, "b");
    assert_int_equal(parse(&v, false, 1, 1, ARGV("m", "--server=bad"), &first, &f), EXIT_USAGE);
    options_set_global(NULL, 0);
    check_refused(ARGV("m", "--server=b"), "unknown option --server=b");
}

static void numbers_with_fractions(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double value;
    } good[] = {{"0", 0},  {"1.5", 1.5},   {".25", .25},
                {"3.", 3}, {"0010.0", 10}, {"99.99999", 99.99999}};
    static const char *const bad[] = {
        "",    ".",   "-1", "+1", "1,5",  "1e1",   "inf",
        "nan", "0x1", " 1", "1 ", "1.5%", "100.1", "99999999999999999999999999"};
    struct failure f;
    double n = 77;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(parse_real("n", bad[i], 0, 100, &n, &f), EXIT_USAGE);
    assert_true(n == 77);
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(parse_real("n", good[i].text, 0, 100, &n, &f), 0);
        assert_true(n > good[i].value - 1e-12 && n < good[i].value + 1e-12);
    }
}

static void a_context_is_said_once(void **state)
{
    (void)state;
    struct failure f;
    failure_set(&f, EXIT_MODEL, "model a.rknn: it is empty");
    assert_int_equal(failure_prefix(&f, "model %s", "a.rknn"), EXIT_MODEL);
    assert_string_equal(f.text, "model a.rknn: it is empty");
    failure_prefix(&f, "model %s", "a");
    assert_string_equal(f.text, "model a: model a.rknn: it is empty");
}

static void numbers_are_whole(void **state)
{
    (void)state;
    static const char *const bad[] = {"",   "-1",  "+1",  "1 ",         " 1",
                                      "1k", "0x1", "1.0", "4294967296", "99999999999999999999999"};
    struct failure f;
    uint32_t n = 77;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(parse_number("n", bad[i], 0, UINT32_MAX, &n, &f), EXIT_USAGE);
    assert_int_equal(n, 77);
    assert_int_equal(parse_number("n", "4294967295", 0, UINT32_MAX, &n, &f), 0);
    assert_true(n == UINT32_MAX);
    assert_int_equal(parse_number("n", "007", 0, 9, &n, &f), 0);
    assert_int_equal(n, 7);
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
    struct failure f;
    uint32_t mask = 0;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(parse_core_mask(good[i].text, &mask, &f), 0);
        assert_int_equal(mask, good[i].mask);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(parse_core_mask(bad[i], &mask, &f), EXIT_USAGE);
}

static void codes_become_exit_codes(void **state)
{
    (void)state;
    assert_int_equal(failure_exit_code(RKNN_SUCC), 0);
    assert_int_equal(failure_exit_code(RKNN_ERR_FAIL), 1);
    assert_int_equal(failure_exit_code(RKNN_ERR_TIMEOUT), 1);
    assert_int_equal(failure_exit_code(RKNN_ERR_PARAM_INVALID), 2);
    assert_int_equal(failure_exit_code(RKNN_ERR_DEVICE_UNAVAILABLE), 3);
    assert_int_equal(failure_exit_code(RKNN_ERR_MODEL_INVALID), 4);
    assert_int_equal(failure_exit_code(RKNN_ERR_TARGET_PLATFORM_UNMATCH), 4);
    assert_int_equal(failure_exit_code(RKNN_ERR_INPUT_INVALID), 5);
    assert_int_equal(failure_exit_code(-1000), 1);
}

static void long_words_are_cut_not_overrun(void **state)
{
    (void)state;
    struct failure f;
    char words[3000];
    memset(words, 'w', sizeof words - 1);
    words[sizeof words - 1] = 0;
    assert_int_equal(failure_set(&f, EXIT_INPUT, "%s", words), EXIT_INPUT);
    assert_int_equal(strlen(f.text), sizeof f.text - 1);
    assert_int_equal(failure_prefix(&f, "%s", "file"), EXIT_INPUT);
    assert_memory_equal(f.text, "file: www", 9);
    assert_int_equal(failure_prefix(&f, "%s", words), EXIT_INPUT);
    assert_int_equal(strlen(f.text), sizeof f.text - 1);
    assert_non_null(strstr(f.text, ": file: www"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_and_arguments_mix),
        cmocka_unit_test(parsing_starts_afresh_each_time),
        cmocka_unit_test(a_command_keeps_its_own_options),
        cmocka_unit_test(refusals_name_the_option),
        cmocka_unit_test(names_that_are_near_are_told),
        cmocka_unit_test(nearest_of_many),
        cmocka_unit_test(long_names_fit),
        cmocka_unit_test(global_rows_are_every_commands),
        cmocka_unit_test(numbers_with_fractions),
        cmocka_unit_test(a_context_is_said_once),
        cmocka_unit_test(numbers_are_whole),
        cmocka_unit_test(cores_are_names_numbers_or_masks),
        cmocka_unit_test(codes_become_exit_codes),
        cmocka_unit_test(long_words_are_cut_not_overrun),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
