// Certificates of a peer that are too many, or bring a curve, are not read; those of others are,
// and what is broken is left to OpenSSL.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/tls/certificate_message.h"

// A message with n certificates of these bytes.
static size_t make(uint8_t *to, unsigned n, const char *bytes, size_t size, size_t context)
{
    size_t at = 4;
    to[at++] = (uint8_t)context;
    memset(to + at, 'c', context);
    at += context + 3;
    for (unsigned i = 0; i < n; i++) {
        to[at] = to[at + 1] = 0;
        to[at + 2] = (uint8_t)size;
        memcpy(to + at + 3, bytes, size);
        at += 3 + size;
        to[at] = to[at + 1] = 0;
        at += 2;
    }
    return at;
}

static void as_many_as_there_may_be(void **state)
{
    uint8_t m[1024] = {11};
    (void)state;
    for (size_t context = 0; context < 3; context++) {
        assert_null(certificate_message_fault(m, make(m, 0, "x", 1, context)));
        assert_null(certificate_message_fault(m, make(m, 8, "abc", 3, context)));
        assert_non_null(certificate_message_fault(m, make(m, 9, "abc", 3, context)));
    }
}

static void a_curve_is_found_anywhere(void **state)
{
    static const char named[] = "\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07",
                      own[] = "\x06\x07\x2a\x86\x48\xce\x3d\x01\x01";
    uint8_t m[1024] = {11};
    (void)state;
    assert_null(certificate_message_fault(m, make(m, 2, named, sizeof named - 1, 0)));
    assert_non_null(certificate_message_fault(m, make(m, 1, own, sizeof own - 1, 0)));
}

// Those that came before it breaks off have been counted: OpenSSL reads no more.
static void what_breaks_off_is_counted_so_far(void **state)
{
    uint8_t m[1024] = {11};
    (void)state;
    size_t whole = make(m, 10, "abc", 3, 0), one = 8;
    for (size_t size = 0; size <= whole; size++) {
        size_t there = size < 8 ? 0 : (size - 8 + 2) / one; // without their extensions, too
        assert_int_equal(certificate_message_fault(m, size) != NULL, there > CERTIFICATES_SENT_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_many_as_there_may_be),
        cmocka_unit_test(a_curve_is_found_anywhere),
        cmocka_unit_test(what_breaks_off_is_counted_so_far),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
