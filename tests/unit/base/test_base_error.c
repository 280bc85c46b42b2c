// Errors are cut to fit, keep their code, and carry words from the inside out.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>

#include "base/error.h"

static void contexts_come_in_front(void **state)
{
    (void)state;
    struct error e;
    assert_int_equal(error_set_errno(&e, STATUS_FAIL, ENOENT, "open %s", "x"), STATUS_FAIL);
    assert_int_equal(error_prefix(&e, "model %d", 7), STATUS_FAIL);
    assert_string_equal(e.text, "model 7: open x: No such file or directory");
}

static void a_context_is_said_once(void **state)
{
    (void)state;
    struct error e;
    error_set(&e, STATUS_MODEL_INVALID, "model a.rknn: it is empty");
    assert_int_equal(error_prefix(&e, "model %s", "a.rknn"), STATUS_MODEL_INVALID);
    assert_string_equal(e.text, "model a.rknn: it is empty");
    error_prefix(&e, "model %s", "a");
    assert_string_equal(e.text, "model a: model a.rknn: it is empty");
}

// What went wrong is seen behind a long context, too.
static void a_long_context_leaves_room(void **state)
{
    (void)state;
    struct error e;
    char words[3000];
    memset(words, 'w', sizeof words - 1);
    words[sizeof words - 1] = 0;
    error_set(&e, STATUS_INPUT_INVALID, "%s", words);
    assert_int_equal(error_prefix(&e, "%s", "file"), STATUS_INPUT_INVALID);
    assert_memory_equal(e.text, "file: www", 9);
    assert_int_equal(error_prefix(&e, "%s", words), STATUS_INPUT_INVALID);
    assert_int_equal(strlen(e.text), sizeof e.text - 1);
    assert_non_null(strstr(e.text, ": file: www"));
}

static void long_words_are_cut(void **state)
{
    (void)state;
    struct {
        struct error e;
        char guard;
    } box = {.guard = 'g'};
    char longer[2 * sizeof box.e.text];
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    error_set_errno(&box.e, STATUS_TIMEOUT, EIO, "%s", longer);
    assert_int_equal(strlen(box.e.text), sizeof box.e.text - 1);
    assert_int_equal(error_prefix(&box.e, "%s", longer + sizeof box.e.text), STATUS_TIMEOUT);
    assert_int_equal(strlen(box.e.text), sizeof box.e.text - 1);
    assert_int_equal(box.guard, 'g');
}

static void nobody_needs_the_words(void **state)
{
    (void)state;
    assert_int_equal(error_set(NULL, STATUS_TIMEOUT, "x"), STATUS_TIMEOUT);
    assert_int_equal(error_no_memory(NULL, "x", 1), STATUS_MALLOC_FAIL);
    assert_int_equal(error_prefix(NULL, "x"), STATUS_FAIL);
}

static void peers_cannot_invent_codes(void **state)
{
    (void)state;
    static const int known[] = {-1, -7, -13}, invented[] = {0, 1, -14, INT32_MIN};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        assert_int_equal(status_from_peer(known[i]), known[i]);
    for (size_t i = 0; i < sizeof invented / sizeof *invented; i++)
        assert_int_equal(status_from_peer(invented[i]), STATUS_FAIL);
    assert_string_equal(status_text(-14), "unknown status");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contexts_come_in_front),     cmocka_unit_test(a_context_is_said_once),
        cmocka_unit_test(a_long_context_leaves_room), cmocka_unit_test(long_words_are_cut),
        cmocka_unit_test(nobody_needs_the_words),     cmocka_unit_test(peers_cannot_invent_codes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
