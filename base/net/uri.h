// Where a server is, or where it listens: unix:PATH, tcp:HOST:PORT, usb:[SERIAL], adb:[SERIAL],
// sim:[CHIP], fd:N.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define URI_DEFAULT_PORT  8910 // tcp:HOST
#define URI_SYSTEM_FOLDER "/run/rknnd"
#define URI_SYSTEM_SOCKET URI_SYSTEM_FOLDER "/rknnd.sock" // of the daemon that root runs

enum uri_kind { URI_UNIX, URI_TCP, URI_USB, URI_ADB, URI_SIM, URI_FD };

// A parsed URI. Text is terminated and fits; what a kind does not have is "" or 0.
struct uri {
    enum uri_kind kind;
    char text[256]; // path, host, serial or chip
    uint16_t port;  // tcp
    int fd;         // fd
};

/// Parses any of the forms; STATUS_PARAM_INVALID, with words that show them, for anything else.
/// HOST is a name, an IPv4 address or an IPv6 address in brackets; PORT is 1 to 65535 and may be
/// left out. A Unix path must fit sockaddr_un (107 bytes).
int uri_parse(const char *text, struct uri *ret, struct error *e);

/// Writes the URI in its normal form, which uri_parse() takes; cut when `size` is too small (300
/// bytes are always enough).
void uri_format(const struct uri *u, char *ret, size_t size);
