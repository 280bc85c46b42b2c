// Fuzzes addresses, of every form that clients and servers take: one that is taken is written in a
// form that means the same.
#include <stdlib.h>
#include <string.h>

#include "base/net/uri.h"

#define MAX_TEXT 600

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct uri_scheme usb = {
    .name = "usb:", .syntax = "[SERIAL]", .parse = uri_parse_name, .stands_alone = true};
static const struct uri_scheme fd = {
    .name = "fd:", .syntax = "N", .parse = uri_parse_fd, .format = uri_format_fd};
static const struct uri_scheme pairing = {
    .name = "pair:", .syntax = "HOST", .parse = uri_parse_pair_host, .format = uri_format_host};
static const struct uri_scheme *const schemes[] = {&uri_unix, &uri_tcp, &uri_tls,
                                                   &usb,      &fd,      &pairing};

#define N_SCHEMES (sizeof schemes / sizeof *schemes)

static void must(bool it)
{
    if (!it)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[MAX_TEXT + 1], written[300], forms[URI_FORMS_SIZE];
    struct uri u = {0}, again = {0};
    struct error e = {0};
    size = size < MAX_TEXT ? size : MAX_TEXT;
    memcpy(text, data, size);
    text[size] = 0;
    uri_forms(schemes, N_SCHEMES, forms);
    if (uri_parse(text, schemes, N_SCHEMES, &u, &e) < 0) {
        must(e.code == STATUS_PARAM_INVALID && *e.text && !u.scheme);
        return 0;
    }
    uri_format(&u, written, sizeof written);
    must(uri_parse(written, schemes, N_SCHEMES, &again, &e) == 0);
    must(again.scheme == u.scheme && strcmp(again.text, u.text) == 0);
    must(again.port == u.port && again.fd == u.fd);
    return 0;
}
