// cmocka for the tests of this tree, which find this file before the system's: checks that fail say
// what is written there, what came, and what was expected.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include_next <cmocka.h>

#include "tests/support/checks/scalar.h"

// cmocka leaves the test there, which compilers are told so that they do not look beyond.
__attribute__((noinline, noreturn, unused)) static void check_fail(const char *file, int line)
{
    _fail(file, line);
    __builtin_unreachable();
}

__attribute__((noinline, noreturn, unused)) static void check_say(struct scalar got, const char *op,
                                                                  struct scalar expected,
                                                                  const char *expression,
                                                                  const char *file, int line)
{
    print_error("%s: got %s, %s\n", expression, scalar_text(got).text,
                scalar_expected(op, expected).text);
    check_fail(file, line);
}

SCALAR_FAST void check_compare(struct scalar got, const char *op, struct scalar expected,
                               const char *expression, const char *file, int line)
{
    if (!scalar_holds(got, op, expected))
        check_say(got, op, expected, expression, file, line);
}

__attribute__((noinline, unused)) static void check_string(const char *got, const char *expected,
                                                           const char *expression, const char *file,
                                                           int line)
{
    if (got && expected && strcmp(got, expected) == 0)
        return;
    print_error("%s: got \"%s\", expected \"%s\"\n", expression, got ? got : "(NULL)",
                expected ? expected : "(NULL)");
    check_fail(file, line);
}

__attribute__((noinline, unused)) static void check_memory(const void *got, const void *expected,
                                                           size_t size, const char *expression,
                                                           const char *file, int line)
{
    const uint8_t *a = got, *b = expected;
    size_t at = 0;
    while (at < size && a[at] == b[at])
        at++;
    if (at == size)
        return;
    print_error("%s: got 0x%02x, expected 0x%02x, in byte %zu of %zu\n", expression, a[at], b[at],
                at, size);
    check_fail(file, line);
}

__attribute__((noinline, noreturn, unused)) static void
check_refuse(const char *expression, const char *expected, const char *file, int line)
{
    print_error("%s: expected %s\n", expression, expected);
    check_fail(file, line);
}

// Decided where it is written: who reads the caller alone sees that nothing follows a failure.
#define check_condition(good, expression, expected)                                                \
    ((good) ? (void)0 : check_refuse(expression, expected, __FILE__, __LINE__))

/// Compares numbers or pointers of any types, by one of C's six operators: assert_cmp(n, <, 3).
#define assert_cmp(got, op, expected)                                                              \
    check_compare(SCALAR(got), #op, SCALAR(expected), #got " " #op " " #expected, __FILE__,        \
                  __LINE__)

#undef assert_int_equal
#undef assert_int_not_equal
#undef assert_ptr_equal
#undef assert_ptr_not_equal
#undef assert_string_equal
#undef assert_memory_equal
#undef assert_true
#undef assert_false
#undef assert_non_null
#undef assert_null

#define assert_int_equal(got, expected)                                                            \
    check_compare(SCALAR_INT(got), "==", SCALAR_INT(expected), #got " == " #expected, __FILE__,    \
                  __LINE__)
#define assert_int_not_equal(got, expected)                                                        \
    check_compare(SCALAR_INT(got), "!=", SCALAR_INT(expected), #got " != " #expected, __FILE__,    \
                  __LINE__)
#define assert_ptr_equal(got, expected)     assert_cmp(got, ==, expected)
#define assert_ptr_not_equal(got, expected) assert_cmp(got, !=, expected)
#define assert_string_equal(got, expected)                                                         \
    check_string((const char *)(got), (const char *)(expected), #got, __FILE__, __LINE__)
#define assert_memory_equal(got, expected, size)                                                   \
    check_memory(got, expected, size, #got " and " #expected, __FILE__, __LINE__)
/// What holds or does not, without values that could be shown.
#define assert_true(c)     check_condition(c, #c, "true")
#define assert_false(c)    check_condition(!(c), #c, "false")
#define assert_non_null(p) check_condition((p) != NULL, #p, "a pointer, got NULL")
#define assert_null(p)     assert_cmp(p, ==, NULL)
