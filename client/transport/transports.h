// The table of transports.
#pragma once

#include "client/transport/transport.h"
#include "rknnd.h"

// A row each: the rest of the name of a struct transport. In the order in which they are searched,
// listed and shown; a board that is both at a USB cable and behind adb is used by USB.
// clang-format off
#define TRANSPORTS(X) \
    X(unix) \
    X(tcp) \
    X(tls) \
    X(usb) \
    X(adb) \
    X(sim) \
    X(emu) \
    X(open)
// clang-format on

#define X(name) extern const struct transport transport_##name;
TRANSPORTS(X)
#undef X

/// Row `i`; NULL behind the last.
const struct transport *transports_row(unsigned i);

/// Parses the address of a server, of any transport; as uri_parse().
int transports_parse(const char *text, struct uri *ret, struct error *e);

/// The forms of addresses, for people.
void transports_forms(char ret[static URI_FORMS_SIZE]);

/// Adds what is within reach; boards only: of those transports whose `boards` is set.
void transports_list(struct device_list *l, bool boards_only);
