// Texts that grow in memory: all that was written, or none of it.
#include <cmocka.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/growing_text.h"

static void what_is_written_is_there(void **state)
{
    (void)state;
    for (int lines = 0; lines < 3000; lines = 2 * lines + 1) {
        struct growing_text m;
        char *text = NULL, *at;
        size_t size;
        assert_int_equal(growing_text_open(&m, NULL), 0);
        for (int i = 0; i < lines; i++)
            fprintf(m.file, "line %d, %g\n", i, i / 4.0);
        assert_int_equal(growing_text_close(&m, "lines", &text, &size, NULL), 0);
        assert_int_equal(strlen(text), size);
        at = text;
        for (int i = 0; i < lines; i++) {
            char expected[64];
            size_t n = (size_t)snprintf(expected, sizeof expected, "line %d, %g\n", i, i / 4.0);
            assert_memory_equal(at, expected, n);
            at += n;
        }
        assert_int_equal(*at, 0);
        free(text);
    }
}

// More than there is room for, in the middle; what comes behind it would fit.
static void a_gap_is_told(void **state)
{
    (void)state;
    struct growing_text m;
    struct error e;
    char *text = NULL;
    size_t size = 7;
    assert_int_equal(growing_text_open(&m, &e), 0);
    fputs("first\n", m.file);
    fflush(m.file);
    size_t has = m.size;
    m.size = PTRDIFF_MAX; // as if that much had been written
    fputs("second\n", m.file);
    fflush(m.file);
    m.size = has;
    fputs("third\n", m.file);
    assert_int_equal(growing_text_close(&m, "lines", &text, &size, &e), STATUS_MALLOC_FAIL);
    assert_null(text);
    assert_int_equal(size, 7);
    assert_non_null(strstr(e.text, "lines"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_there),
        cmocka_unit_test(a_gap_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
