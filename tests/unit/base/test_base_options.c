// Options from tables: what is taken, what is refused and in which words, on the command line and
// from a file; numbers; names that are nearly right.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/options/nearest.h"
#include "base/options/number.h"
#include "base/options/option_table.h"

struct values {
    bool raw;
    const char *text;
    uint32_t count;
    uint64_t bytes;
    double real;
    int64_t called;
};

// A text is noted by its length; "bad" is refused, and without a text the parsing ends.
static int note_call(void *target, const char *text, struct error *e)
{
    *(int64_t *)target = text ? (int64_t)strlen(text) : -1;
    if (text && strcmp(text, "bad") == 0)
        return error_set(e, STATUS_INPUT_INVALID, "it is bad");
    return text ? 0 : OPTION_TABLE_END;
}

static struct option_table table_of(struct values *v, struct option_row rows[8])
{
    const struct option_row all[] = {
        {'r', "raw", OPTION_FLAG, &v->raw, NULL, "as it is", 0, 0, NULL},
        {'o', "output", OPTION_TEXT, &v->text, "FILE", "where to", 0, 0, NULL},
        {0, "count", OPTION_NUMBER, &v->count, "N", "how many", 1, 50, NULL},
        {0, "max-size", OPTION_BYTES, &v->bytes, "BYTES", "how large", 1, 1 << 20, NULL},
        {0, "max-error", OPTION_REAL, &v->real, "PERCENT", "how wrong", 0, 100, NULL},
        {'c', "call", OPTION_CALL, &v->called, "TEXT", "anything", 0, 0, note_call},
        {0, "end", OPTION_CALL, &v->called, NULL, "end", 0, 0, note_call},
        {0, "worker", OPTION_NUMBER, &v->count, "N", NULL, 0, 9, NULL},
    };
    memcpy(rows, all, sizeof all);
    return (struct option_table){.rows = rows, .n_rows = 8};
}

static int parse(struct values *v, char **argv, int *first, struct error *e)
{
    struct option_row rows[8];
    struct option_table t = table_of(v, rows);
    int argc = 0;
    while (argv[argc])
        argc++;
    return option_table_parse(&t, argc, argv, first, e);
}

static int set(struct values *v, const char *name, const char *text, struct error *e)
{
    struct option_row rows[8];
    struct option_table t = table_of(v, rows);
    return option_table_set(&t, name, text, e);
}

#define ARGV(...) ((char *[]){"test", __VA_ARGS__, NULL})

static void every_kind_is_taken(void **state)
{
    (void)state;
    struct values v = {0};
    struct error e = {0};
    int first;
    char **argv =
        ARGV("-ro", "x", "one", "--count=7", "--max-s", "3K", "--max-error", "1.5", "-cabc", "two");
    assert_int_equal(parse(&v, argv, &first, &e), 0);
    assert_string_equal(argv[first], "one");
    assert_string_equal(argv[first + 1], "two");
    assert_true(v.raw);
    assert_string_equal(v.text, "x");
    assert_int_equal(v.count, 7);
    assert_int_equal(v.bytes, 3072);
    assert_cmp(v.real, ==, 1.5);
    assert_int_equal(v.called, 3);
}

// What stands behind it is not looked at.
static void a_call_may_end_the_parsing(void **state)
{
    (void)state;
    struct values v = {0};
    int first;
    assert_int_equal(parse(&v, ARGV("--end", "--nothing"), &first, NULL), OPTION_TABLE_END);
    assert_int_equal(v.called, -1);
}

static void check_refused(char **argv, int code, const char *words)
{
    struct values v = {.count = 3};
    struct error e = {0};
    int first;
    assert_int_equal(parse(&v, argv, &first, &e), code);
    assert_string_equal(e.text, words);
    assert_int_equal(parse(&v, argv, &first, NULL), code);
    assert_int_equal(v.count, 3);
}

static void the_command_line_refuses_by_name(void **state)
{
    (void)state;
    const int bad = STATUS_PARAM_INVALID;
    check_refused(ARGV("--nothing=1"), bad, "unknown option --nothing=1 (see --help)");
    check_refused(ARGV("--cuont", "1"), bad,
                  "unknown option --cuont; did you mean --count? (see --help)");
    check_refused(ARGV("--wroker=1"), bad, "unknown option --wroker=1 (see --help)");
    check_refused(ARGV("--max=1"), bad, "option --max=1 may be --max-size or --max-error");
    check_refused(ARGV("-rx"), bad, "unknown option -x (see --help)");
    check_refused(ARGV("--output"), bad, "option --output needs a value (see --help)");
    check_refused(ARGV("-ro"), bad, "option -o needs a value (see --help)");
    check_refused(ARGV("--raw=yes"), bad, "option --raw takes no value");
    check_refused(ARGV("--count", "51"), bad, "--count: \"51\" is not a number from 1 to 50");
    check_refused(ARGV("--max-error=x"), bad,
                  "--max-error: \"x\" is not a number from 0 to 100 (like 1.5)");
    check_refused(ARGV("-c", "bad"), STATUS_INPUT_INVALID, "--call: it is bad");
}

static void a_file_sets_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text, *words;
    } bad[] = {{"raw", "true", "raw: \"true\" is neither yes nor no"},
               {"count", "0", "count: \"0\" is not a number from 1 to 50"},
               {"max-size", "2M",
                "max-size: \"2M\" is not a number from 1 to 1048576 (with K, M or G behind it, or "
                "nothing)"},
               {"cuont", "1", "unknown option \"cuont\"; did you mean count?"},
               {"coun", "1", "unknown option \"coun\"; did you mean count?"},
               {"", "1", "unknown option \"\""}};
    struct values v = {0};
    struct error e = {0};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(set(&v, bad[i].name, bad[i].text, &e), STATUS_PARAM_INVALID);
        assert_string_equal(e.text, bad[i].words);
    }
    assert_int_equal(set(&v, "raw", "yes", &e), 0);
    assert_true(v.raw);
    assert_int_equal(set(&v, "raw", "no", &e), 0);
    assert_false(v.raw);
    assert_int_equal(set(&v, "call", "bad", NULL), STATUS_INPUT_INVALID);
}

static void numbers_are_whole(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "-1",
                                      "+1",
                                      "1 ",
                                      " 1",
                                      "1k",
                                      "1K",
                                      "0x1",
                                      "1.0",
                                      "4294967296",
                                      "99999999999999999999999"};
    uint64_t n = 77;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(number_parse(bad[i], 0, UINT32_MAX, &n, NULL), STATUS_PARAM_INVALID);
    assert_int_equal(n, 77);
    assert_int_equal(number_parse("4294967295", 0, UINT32_MAX, &n, NULL), 0);
    assert_int_equal(n, UINT32_MAX);
    assert_int_equal(number_parse("007", 0, 9, &n, NULL), 0);
    assert_int_equal(n, 7);
}

static void bytes_have_units(void **state)
{
    (void)state;
    static const char *const bad[] = {"",  "K", "1KB", "1 K", "1k", "-1", "18014398509481984K",
                                      "5G"};
    uint64_t n = 77;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(number_parse_bytes(bad[i], 0, UINT32_MAX, &n, NULL), STATUS_PARAM_INVALID);
    assert_int_equal(n, 77);
    assert_int_equal(number_parse_bytes("3M", 0, UINT32_MAX, &n, NULL), 0);
    assert_int_equal(n, 3 << 20);
    assert_int_equal(number_parse_bytes("1G", 0, UINT32_MAX, &n, NULL), 0);
    assert_int_equal(n, 1 << 30);
    assert_int_equal(number_parse_bytes("1023", 0, UINT32_MAX, &n, NULL), 0);
    assert_int_equal(n, 1023);
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
    double n = 77;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(number_parse_real(bad[i], 0, 100, &n, NULL), STATUS_PARAM_INVALID);
    assert_cmp(n, ==, 77);
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(number_parse_real(good[i].text, 0, 100, &n, NULL), 0);
        assert_cmp(n, >, good[i].value - 1e-12);
        assert_cmp(n, <, good[i].value + 1e-12);
    }
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
    assert_cmp(strlen(nearest_question(&near, "--", text)), <, NEAREST_TEXT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_is_taken),
        cmocka_unit_test(a_call_may_end_the_parsing),
        cmocka_unit_test(the_command_line_refuses_by_name),
        cmocka_unit_test(a_file_sets_by_name),
        cmocka_unit_test(numbers_are_whole),
        cmocka_unit_test(bytes_have_units),
        cmocka_unit_test(numbers_with_fractions),
        cmocka_unit_test(nearest_of_many),
        cmocka_unit_test(long_names_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
