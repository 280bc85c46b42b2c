// Addresses: where a server is, or where it listens. An address is a scheme and what that needs to
// know: tcp:HOST:PORT, usb:SERIAL.
//
// No list of all schemes exists. Code that takes addresses has a table of those it understands:
// client/transport/transports.c of the ways to a server, server/listen/listen_schemes.c of those
// that a server can listen on.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define URI_DEFAULT_PORT  8910 // tcp:HOST
#define URI_TLS_PORT      8911 // tls:HOST
#define URI_PAIR_PORT     8912 // rknnctl pair HOST
#define URI_SYSTEM_FOLDER "/run/rknnd"
#define URI_SYSTEM_SOCKET URI_SYSTEM_FOLDER "/rknnd.sock" // of the daemon that root runs

struct uri_scheme;

// A parsed address. Text is terminated and fits; what a scheme does not have is "" or 0.
struct uri {
    const struct uri_scheme *scheme;
    char text[256]; // path, host, serial number or chip
    uint16_t port;  // tcp
    int fd;         // fd
};

// One row of such a table, or a part of one.
struct uri_scheme {
    const char *name;   // with its colon: "tcp:"
    const char *syntax; // of what follows, for people: "HOST:PORT"
    /// Puts what follows the name into *ret. NULL, or why it cannot be an address, to stand behind
    /// it in a sentence: "has no host".
    const char *(*parse)(const char *rest, struct uri *ret);
    /// Writes what follows the name, in the form that is compared and shown. NULL: it is uri.text.
    void (*format)(const struct uri *u, char *ret, size_t size);
    bool stands_alone; // the name is an address without its colon, too: "usb"
};

/// Parses an address of one of `n` schemes. For anything else STATUS_PARAM_INVALID, with words that
/// show it and the forms that there are; *ret is untouched then.
int uri_parse(const char *text, const struct uri_scheme *const *schemes, size_t n, struct uri *ret,
              struct error *e);

/// Writes an address in its normal form, which uri_parse() takes; cut when `size` is too small (300
/// bytes are always enough).
void uri_format(const struct uri *u, char *ret, size_t size);

#define URI_FORMS_SIZE 200

/// The forms of `n` schemes for people: "unix:PATH, tcp:HOST:PORT or fd:N".
void uri_forms(const struct uri_scheme *const *schemes, size_t n, char ret[static URI_FORMS_SIZE]);

// ---- what schemes are made of -------------------------------------------------------------------

/// A path of a Unix socket: 1 to 107 bytes, as sockaddr_un has room for.
const char *uri_parse_path(const char *rest, struct uri *ret);

/// HOST or HOST:PORT: a name, an IPv4 address or an IPv6 address in brackets; 1 to 65535. Without a
/// port it is that of tcp:, of tls: or of pairing.
const char *uri_parse_host(const char *rest, struct uri *ret);
const char *uri_parse_tls_host(const char *rest, struct uri *ret);
const char *uri_parse_pair_host(const char *rest, struct uri *ret);
void uri_format_host(const struct uri *u, char *ret, size_t size);

/// A name that may be missing: a serial number, a chip.
const char *uri_parse_name(const char *rest, struct uri *ret);

/// The number of a file descriptor.
const char *uri_parse_fd(const char *rest, struct uri *ret);
void uri_format_fd(const struct uri *u, char *ret, size_t size);

// What the tables of servers and clients have in common, and the same for whoever takes only that.
#define URI_SCHEME_UNIX                                                                            \
    {                                                                                              \
        .name = "unix:", .syntax = "PATH", .parse = uri_parse_path                                 \
    }
#define URI_SCHEME_TCP                                                                             \
    {                                                                                              \
        .name = "tcp:", .syntax = "HOST:PORT", .parse = uri_parse_host, .format = uri_format_host  \
    }
#define URI_SCHEME_TLS                                                                             \
    {                                                                                              \
        .name = "tls:", .syntax = "HOST:PORT", .parse = uri_parse_tls_host,                        \
        .format = uri_format_host                                                                  \
    }
extern const struct uri_scheme uri_unix, uri_tcp, uri_tls;
