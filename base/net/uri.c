// URIs of servers.
#include "base/net/uri.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNIX_PATH_MAX 107 // sun_path with its end

static const char *const schemes[] = {
    [URI_UNIX] = "unix:", [URI_TCP] = "tcp:", [URI_USB] = "usb:",
    [URI_ADB] = "adb:",   [URI_SIM] = "sim:", [URI_FD] = "fd:",
};
#define N_SCHEMES (sizeof schemes / sizeof *schemes)

static int bad(const char *uri, const char *why, struct error *e)
{
    return error_set(e, STATUS_PARAM_INVALID,
                     "\"%.200s\" %s (the forms are unix:PATH, tcp:HOST:PORT, sim:[CHIP], "
                     "usb:[SERIAL], adb:[SERIAL] and, to listen, fd:N)",
                     uri, why);
}

static bool parse_number(const char *text, long low, long high, long *ret)
{
    char *end;
    long n = strtol(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || strlen(text) > 9 || n < low || n > high)
        return false;
    *ret = n;
    return true;
}

// Finds the end of the host and, behind it, the text of the port (NULL: none). Returns why not.
static const char *split_tcp(const char *rest, const char **host, size_t *length, const char **port)
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

static int parse_tcp(const char *uri, const char *rest, struct uri *u, struct error *e)
{
    const char *host, *port;
    size_t length;
    long number = URI_DEFAULT_PORT;
    const char *why = split_tcp(rest, &host, &length, &port);
    if (why)
        return bad(uri, why, e);
    if (length == 0 || length >= sizeof u->text)
        return bad(uri, "has no host, or one that is too long", e);
    if (port && !parse_number(port, 1, 65535, &number))
        return bad(uri, "has a port that is not 1 to 65535", e);
    memcpy(u->text, host, length);
    u->port = (uint16_t)number;
    return 0;
}

int uri_parse(const char *text, struct uri *ret, struct error *e)
{
    struct uri u = {0};
    size_t kind = 0;
    while (kind < N_SCHEMES && strncmp(text, schemes[kind], strlen(schemes[kind])) != 0)
        kind++;
    if (kind == N_SCHEMES)
        return bad(text, "is not the URI of a server", e);
    const char *rest = text + strlen(schemes[kind]);
    size_t length = strlen(rest);
    u.kind = (enum uri_kind)kind;
    if (u.kind == URI_TCP) {
        int r = parse_tcp(text, rest, &u, e);
        if (r < 0)
            return r;
    } else if (u.kind == URI_FD) {
        long fd;
        if (!parse_number(rest, 0, 1 << 20, &fd))
            return bad(text, "has no file descriptor's number", e);
        u.fd = (int)fd;
    } else {
        if (u.kind == URI_UNIX && (length == 0 || length > UNIX_PATH_MAX))
            return bad(text, "has no path, or one of more than 107 bytes", e);
        if (length >= sizeof u.text)
            return bad(text, "is too long", e);
        memcpy(u.text, rest, length + 1);
    }
    *ret = u;
    return 0;
}

void uri_format(const struct uri *u, char *ret, size_t size)
{
    if (u->kind == URI_TCP)
        snprintf(ret, size, strchr(u->text, ':') ? "tcp:[%s]:%u" : "tcp:%s:%u", u->text, u->port);
    else if (u->kind == URI_FD)
        snprintf(ret, size, "fd:%d", u->fd);
    else
        snprintf(ret, size, "%s%s", schemes[u->kind], u->text);
}
