// Lists of inputs: what is a name, what is refused, and with which line.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tools/input/input_list.h"

// All names of all sets, "|" between sets.
static char *read_text(const char *text, size_t size)
{
    struct input_list l = {0};
    struct error e = {0};
    char *ret = NULL;
    size_t room;
    FILE *out = open_memstream(&ret, &room);
    assert_non_null(out);
    int r = input_list_parse(&l, text, size, "f", &e);
    if (r < 0) {
        fprintf(out, "%s", e.text);
        assert_int_equal(r, STATUS_INPUT_INVALID);
    }
    for (size_t i = 0; r == 0 && i < l.n; i++) {
        fprintf(out, "%s%u:", i ? "|" : "", l.lines[i]);
        for (size_t k = 0; k < l.sets[i].n; k++)
            fprintf(out, "<%s>", l.sets[i].items[k]);
    }
    fclose(out);
    input_list_done(&l);
    return ret;
}

static void expect(const char *text, const char *expected)
{
    char *got = read_text(text, strlen(text));
    assert_string_equal(got, expected);
    free(got);
}

static void names(void **state)
{
    (void)state;
    expect("a.npy b.npy\nc.npy", "1:<f/a.npy><f/b.npy>|2:<f/c.npy>");
    expect("\r\n a.npy\t/b.npy  \r\n\n \t\nc.npy\r\n", "2:<f/a.npy></b.npy>|5:<f/c.npy>");
    expect("\xef\xbb\xbf# pictures\n  # more\na\n", "3:<f/a>");
    expect("a #b\n", "1:<f/a><f/#b>");
    expect("\"my cat.jpg\" 'it is.npy' it's.npy\n", "1:<f/my cat.jpg><f/it is.npy><f/it's.npy>");
    expect("\"it's\" '\"'\n\"#a\"", "1:<f/it's><f/\">|2:<f/#a>");
    expect("\xff\xfe.npy", "1:<f/\xff\xfe.npy>");
}

static void refusals(void **state)
{
    (void)state;
    expect("", "there is no line with files");
    expect("\n# a\n \r\n", "there is no line with files");
    expect("a\n\"b\nc\"\n", "line 2: the quotes around a name do not end");
    expect("'", "line 1: the quotes around a name do not end");
    expect("\n\"\"", "line 2: a name in quotes is empty");
    expect("\"a\"b", "line 1: something follows the quotes around a name without a space");
    char *got = read_text("a\n\xff\xfe"
                          "b\0\n\0",
                          8);
    assert_string_equal(got,
                        "line 2: it is no text; give a list of files, in UTF-8, not a file itself");
    free(got);
    static char wide[5000];
    memset(wide, 'a', sizeof wide);
    got = read_text(wide, sizeof wide);
    assert_string_equal(got, "line 1: a name is longer than a path can be");
    free(got);
}

static void many_lines(void **state)
{
    (void)state;
    size_t n = 100000, size;
    char *text = NULL;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    for (size_t i = 0; i < n; i++)
        fprintf(out, "%zu.npy\n", i);
    fclose(out);
    struct input_list l = {0};
    struct error e = {0};
    assert_int_equal(input_list_parse(&l, text, size, "f", &e), 0);
    assert_int_equal(l.n, n);
    assert_string_equal(l.sets[n - 1].items[0], "f/99999.npy");
    input_list_done(&l);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(names), cmocka_unit_test(refusals),
                                       cmocka_unit_test(many_lines)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
