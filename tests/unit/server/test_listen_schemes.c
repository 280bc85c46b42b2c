// The table of what a server can listen on, and the manual page that describes it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "server/listen/listen_schemes.h"
#include "tests/support/manual.h"

static void rows_are_complete(void **state)
{
    (void)state;
    const struct listen_scheme *s;
    char forms[URI_FORMS_SIZE];
    listen_forms(forms);
    for (unsigned i = 0; (s = listen_scheme(i)); i++) {
        assert_int_equal(s->uri.name[strlen(s->uri.name) - 1], ':');
        assert_non_null(s->uri.syntax);
        assert_non_null(s->uri.parse);
        assert_non_null(s->help);
        assert_non_null(s->listen);
        assert_non_null(strstr(forms, s->uri.name));
    }
}

static void manual_describes_every_row(void **state)
{
    (void)state;
    cleanup(free_p) char *manual = manual_read("docs/rknnd.8");
    const struct listen_scheme *s;
    char form[80];
    for (unsigned i = 0; (s = listen_scheme(i)); i++) {
        manual_form(s->uri.name, s->uri.syntax, form);
        if (!strstr(manual, form))
            fail_msg("rknnd(8) does not describe %s", form);
    }
}

static void other_addresses_are_refused(void **state)
{
    (void)state;
    struct listeners l;
    struct error e;
    listeners_init(&l, NULL);
    assert_int_equal(listen_at(&l, "adb:", &e), STATUS_PARAM_INVALID);
    assert_non_null(strstr(e.text, "tcp:HOST:PORT"));
    assert_int_equal(listen_at(&l, "usb", &e), STATUS_PARAM_INVALID); // by a relay
    assert_non_null(strstr(e.text, "relay"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_complete),
        cmocka_unit_test(manual_describes_every_row),
        cmocka_unit_test(other_addresses_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
