// URIs of servers: every form, its edges, and what people write by mistake.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/net/uri.h"

// The schemes of servers and clients in one table.
static const struct uri_scheme
    usb = {.name = "usb:", .syntax = "[SERIAL]", .parse = uri_parse_name, .stands_alone = true},
    adb = {.name = "adb:", .syntax = "[SERIAL]", .parse = uri_parse_name},
    sim = {.name = "sim:", .syntax = "[CHIP]", .parse = uri_parse_name},
    fds = {.name = "fd:", .syntax = "N", .parse = uri_parse_fd, .format = uri_format_fd};
static const struct uri_scheme *const schemes[] = {&uri_unix, &uri_tcp, &usb, &adb, &sim, &fds};
#define N_SCHEMES (sizeof schemes / sizeof *schemes)

static int parse(const char *text, struct uri *ret, struct error *e)
{
    return uri_parse(text, schemes, N_SCHEMES, ret, e);
}

static void good_uris_are_understood(void **state)
{
    (void)state;
    static const struct {
        const char *uri;
        struct uri parsed;
        const char *normal; // NULL: as it was
    } good[] = {
        {"unix:/run/rknnd/rknnd.sock", {&uri_unix, "/run/rknnd/rknnd.sock", 0, 0}, NULL},
        {"unix:a b:c", {&uri_unix, "a b:c", 0, 0}, NULL},
        {"tcp:board.local:1", {&uri_tcp, "board.local", 1, 0}, NULL},
        {"tcp:10.0.0.1:65535", {&uri_tcp, "10.0.0.1", 65535, 0}, NULL},
        {"tcp:board", {&uri_tcp, "board", 8910, 0}, "tcp:board:8910"},
        {"tcp:[::1]:80", {&uri_tcp, "::1", 80, 0}, NULL},
        {"tcp:[fe80::1%eth0]", {&uri_tcp, "fe80::1%eth0", 8910, 0}, "tcp:[fe80::1%eth0]:8910"},
        {"usb:", {&usb, "", 0, 0}, NULL},
        {"usb", {&usb, "", 0, 0}, "usb:"},
        {"usb:0123:ab", {&usb, "0123:ab", 0, 0}, NULL},
        {"adb:10.0.0.1:5555", {&adb, "10.0.0.1:5555", 0, 0}, NULL},
        {"sim:", {&sim, "", 0, 0}, NULL},
        {"sim:rk3588", {&sim, "rk3588", 0, 0}, NULL},
        {"fd:3", {&fds, "", 0, 3}, NULL},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct uri u;
        char text[300];
        assert_int_equal(parse(good[i].uri, &u, NULL), 0);
        assert_ptr_equal(u.scheme, good[i].parsed.scheme);
        assert_string_equal(u.text, good[i].parsed.text);
        assert_int_equal(u.port, good[i].parsed.port);
        assert_int_equal(u.fd, good[i].parsed.fd);
        uri_format(&u, text, sizeof text);
        assert_string_equal(text, good[i].normal ? good[i].normal : good[i].uri);
    }
}

static void check_refused(const char *text, const char *words)
{
    struct uri u = {.port = 77};
    struct error e = {0};
    assert_int_equal(parse(text, &u, &e), STATUS_PARAM_INVALID);
    assert_non_null(strstr(e.text, words));
    assert_non_null(strstr(e.text, "tcp:HOST:PORT"));
    assert_int_equal(u.port, 77);
}

static void mistakes_are_named(void **state)
{
    (void)state;
    check_refused("", "not the URI");
    check_refused("/run/rknnd.sock", "not the URI");
    check_refused("TCP:host:1", "not the URI");
    check_refused("usbx", "not the URI");
    check_refused("us", "not the URI");
    check_refused("adb", "not the URI");
    check_refused("unix:", "path");
    check_refused("tcp:", "host");
    check_refused("tcp::80", "host");
    check_refused("tcp://host:80", "characters");
    check_refused("tcp:ho st:80", "characters");
    check_refused("tcp:host:", "port");
    check_refused("tcp:host:0", "port");
    check_refused("tcp:host:65536", "port");
    check_refused("tcp:host:+80", "port");
    check_refused("tcp:host:80x", "port");
    check_refused("tcp:host:99999999999999999999", "port");
    check_refused("tcp:::1:80", "[brackets]");
    check_refused("tcp:[::1", "closing bracket");
    check_refused("tcp:[::1]80", "closing bracket");
    check_refused("tcp:[]:80", "IPv6");
    check_refused("tcp:[host]:80", "IPv6");
    check_refused("fd:", "descriptor");
    check_refused("fd:-1", "descriptor");
    check_refused("fd:3 ", "descriptor");
}

static void forms_are_listed(void **state)
{
    (void)state;
    char forms[URI_FORMS_SIZE];
    uri_forms(schemes, N_SCHEMES, forms);
    assert_string_equal(forms,
                        "unix:PATH, tcp:HOST:PORT, usb:[SERIAL], adb:[SERIAL], sim:[CHIP] or fd:N");
    uri_forms(schemes, 1, forms);
    assert_string_equal(forms, "unix:PATH");
}

static void long_uris_fit_or_are_refused(void **state)
{
    (void)state;
    char text[400], back[300];
    struct uri u;
    memset(text, 'p', sizeof text);
    memcpy(text, "unix:", 5);
    text[5 + 107] = 0;
    assert_int_equal(parse(text, &u, NULL), 0);
    assert_int_equal(strlen(u.text), 107);
    text[5 + 107] = 'p';
    text[5 + 108] = 0;
    check_refused(text, "107");

    memcpy(text, "sim:p", 5);
    memset(text + 5, 'p', 300);
    text[4 + 255] = 0;
    assert_int_equal(parse(text, &u, NULL), 0);
    uri_format(&u, back, sizeof back);
    assert_string_equal(back, text);
    text[4 + 255] = 'p';
    text[4 + 256] = 0;
    check_refused(text, "too long");
    memcpy(text, "tcp:", 4);
    check_refused(text, "too long");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_uris_are_understood),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(forms_are_listed),
        cmocka_unit_test(long_uris_fit_or_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
