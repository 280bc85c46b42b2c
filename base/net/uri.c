// Addresses of servers, such as unix:PATH, tcp:HOST:PORT or usb:SERIAL. The table of a scheme says
// how what follows its name is parsed and printed; which schemes are allowed is the caller's
// choice. Parsers return NULL, or the reason as the end of the sentence '"ADDRESS" ...'.
#include "base/net/uri.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNIX_PATH_MAX 107 // sun_path with its end

const struct uri_scheme uri_unix = URI_SCHEME_UNIX;
const struct uri_scheme uri_tcp = URI_SCHEME_TCP;
const struct uri_scheme uri_tls = URI_SCHEME_TLS;

// ---- tables of schemes --------------------------------------------------------------------------

// Decimal digits only; strtol would also take white space and signs.
static bool parse_number(const char *text, long low, long high, long *ret)
{
    char *end;
    long n = strtol(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || strlen(text) > 9 || n < low || n > high)
        return false;
    *ret = n;
    return true;
}

// What follows the scheme's name; NULL: another scheme. A name that stands alone may lack its
// colon.
static const char *after_name(const char *text, const struct uri_scheme *s)
{
    size_t length = strlen(s->name);
    if (strncmp(text, s->name, length) == 0)
        return text + length;
    bool alone = s->stands_alone && strlen(text) == length - 1;
    return alone && strncmp(text, s->name, length - 1) == 0 ? text + length - 1 : NULL;
}

// "unix:PATH, tcp:HOST:PORT or usb": for error texts and usage.
void uri_forms(const struct uri_scheme *const *schemes, size_t n, char ret[static URI_FORMS_SIZE])
{
    size_t used = 0;
    *ret = 0;
    for (size_t i = 0; i < n && used < URI_FORMS_SIZE; i++) {
        const char *between = i == 0 ? "" : i + 1 < n ? ", " : " or ";
        used += (size_t)snprintf(ret + used, URI_FORMS_SIZE - used, "%s%s%s", between,
                                 schemes[i]->name, schemes[i]->syntax);
    }
}

int uri_parse(const char *text, const struct uri_scheme *const *schemes, size_t n, struct uri *ret,
              struct error *e)
{
    char forms[URI_FORMS_SIZE];
    const char *why = "is not the URI of a server", *rest = NULL;
    struct uri u = {0};
    for (size_t i = 0; i < n && !rest; i++)
        if ((rest = after_name(text, schemes[i]))) {
            u.scheme = schemes[i];
            why = u.scheme->parse(rest, &u);
        }
    if (!why) {
        *ret = u;
        return 0;
    }
    uri_forms(schemes, n, forms);
    return error_set(e, STATUS_PARAM_INVALID, "\"%.200s\" %s (it should be %s)", text, why, forms);
}

void uri_format(const struct uri *u, char *ret, size_t size)
{
    char rest[300];
    if (u->scheme->format)
        u->scheme->format(u, rest, sizeof rest);
    snprintf(ret, size, "%s%s", u->scheme->name, u->scheme->format ? rest : u->text);
}

// ---- names and paths ----------------------------------------------------------------------------

const char *uri_parse_name(const char *rest, struct uri *ret)
{
    if (strlen(rest) >= sizeof ret->text)
        return "is too long";
    strcpy(ret->text, rest);
    return NULL;
}

const char *uri_parse_path(const char *rest, struct uri *ret)
{
    size_t length = strlen(rest);
    if (length == 0 || length > UNIX_PATH_MAX)
        return "has no path, or one of more than 107 bytes";
    return uri_parse_name(rest, ret);
}

// ---- hosts --------------------------------------------------------------------------------------

// Splits HOST[:PORT] or [IPV6][:PORT] without copying. *port is NULL if there is none. An IPv6
// address needs brackets, since its colons could not be told from the port's.
static const char *split_host(const char *rest, const char **host, size_t *length,
                              const char **port)
{
    bool bracket = *rest == '[';
    *host = rest + bracket;
    *length = strcspn(*host, bracket ? "]" : ":");
    const char *after = *host + *length;
    if (bracket && (*after != ']' || (after[1] && after[1] != ':')))
        return "has an IPv6 address without its closing bracket";
    after += bracket;
    *port = *after ? after + 1 : NULL;
    if (*port && strchr(*port, ':'))
        return "has more than one colon; put an IPv6 address in [brackets]";
    if (bracket && !memchr(*host, ':', *length))
        return "has brackets around something that is not an IPv6 address";
    if (strcspn(*host, "/[] \t\r\n") < *length)
        return "has characters that no host has";
    return NULL;
}

static const char *parse_host(const char *rest, long number, struct uri *ret)
{
    const char *host, *port;
    size_t length;
    const char *why = split_host(rest, &host, &length, &port);
    if (why)
        return why;
    if (length == 0 || length >= sizeof ret->text)
        return "has no host, or one that is too long";
    if (port && !parse_number(port, 1, 65535, &number))
        return "has a port that is not 1 to 65535";
    memcpy(ret->text, host, length);
    ret->port = (uint16_t)number;
    return NULL;
}

// The ports default to rknnd's own.
const char *uri_parse_host(const char *rest, struct uri *ret)
{
    return parse_host(rest, URI_DEFAULT_PORT, ret);
}

const char *uri_parse_tls_host(const char *rest, struct uri *ret)
{
    return parse_host(rest, URI_TLS_PORT, ret);
}

const char *uri_parse_pair_host(const char *rest, struct uri *ret)
{
    return parse_host(rest, URI_PAIR_PORT, ret);
}

void uri_format_host(const struct uri *u, char *ret, size_t size)
{
    snprintf(ret, size, strchr(u->text, ':') ? "[%s]:%u" : "%s:%u", u->text, u->port);
}

// ---- file descriptors ---------------------------------------------------------------------------

const char *uri_parse_fd(const char *rest, struct uri *ret)
{
    long fd;
    if (!parse_number(rest, 0, 1 << 20, &fd))
        return "has no file descriptor's number";
    ret->fd = (int)fd;
    return NULL;
}

void uri_format_fd(const struct uri *u, char *ret, size_t size)
{
    snprintf(ret, size, "%d", u->fd);
}
