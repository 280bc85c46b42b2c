// The table of transports, and the places that name all schemes by hand: they name the same.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "client/transport/transports.h"
#include "tests/support/manual.h"

static void rows_are_complete(void **state)
{
    (void)state;
    const struct transport *t;
    for (unsigned i = 0; (t = transports_row(i)); i++) {
        assert_cmp(strlen(t->uri.name), >, 1);
        assert_int_equal(t->uri.name[strlen(t->uri.name) - 1], ':');
        assert_non_null(t->uri.syntax);
        assert_non_null(t->uri.parse);
        assert_non_null(t->help);
        assert_non_null(t->connect);
        assert_true(t->list || !t->boards);
        for (unsigned k = 0; k < i; k++)
            assert_string_not_equal(t->uri.name, transports_row(k)->uri.name);
    }
}

static void addresses_find_their_row(void **state)
{
    (void)state;
    const struct transport *t;
    struct uri uri;
    char text[40];
    for (unsigned i = 0; (t = transports_row(i)); i++) {
        snprintf(text, sizeof text, "%sname", t->uri.name);
        assert_int_equal(transports_parse(text, &uri, NULL), 0);
        assert_ptr_equal(transport_of(&uri), t);
        assert_string_equal(uri.text, "name");
    }
    assert_int_equal(transports_parse("fd:3", &uri, NULL), STATUS_PARAM_INVALID);
}

static void words_list_every_form(void **state)
{
    (void)state;
    const struct transport *t;
    struct uri uri;
    struct error e;
    char forms[URI_FORMS_SIZE], form[80];
    transports_forms(forms);
    assert_int_equal(transports_parse("nothing", &uri, &e), STATUS_PARAM_INVALID);
    assert_non_null(strstr(e.text, forms));
    for (unsigned i = 0; (t = transports_row(i)); i++) {
        snprintf(form, sizeof form, "%s%s", t->uri.name, t->uri.syntax);
        assert_non_null(strstr(forms, form));
    }
}

// `whole`: with what follows the scheme.
static void check_names_all(const char *path, bool whole)
{
    cleanup(free_p) char *text = manual_read(path);
    const struct transport *t;
    char form[80];
    assert_non_null(text);
    for (unsigned i = 0; (t = transports_row(i)); i++) {
        manual_form(t->uri.name, whole ? t->uri.syntax : "", form);
        if (!strstr(text, form))
            fail_msg("%s does not name %s", path, form);
    }
}

static void texts_name_every_scheme(void **state)
{
    (void)state;
    check_names_all("client/include/rknnd.h", true);
    check_names_all("docs/rknnd-client.7", true);
    check_names_all("docs/rknnctl.1", true);
    check_names_all("README.md", false);
    check_names_all("tools/rknnctl.c", false); // the completions are made of it
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_complete),
        cmocka_unit_test(addresses_find_their_row),
        cmocka_unit_test(words_list_every_form),
        cmocka_unit_test(texts_name_every_scheme),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
