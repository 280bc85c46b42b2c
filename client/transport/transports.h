// The table of transports.
#pragma once

#include "client/transport/transport.h"
#include "rknnd.h"

extern const struct transport transport_unix, transport_tcp, transport_tls, transport_usb,
    transport_adb, transport_sim;

/// Row `i`; NULL behind the last.
const struct transport *transports_row(unsigned i);

/// Parses the address of a server, of any transport; as uri_parse().
int transports_parse(const char *text, struct uri *ret, struct error *e);

/// The forms of addresses, for people.
void transports_forms(char ret[static URI_FORMS_SIZE]);

/// Adds what is within reach; boards only: of those transports whose `boards` is set.
void transports_list(struct device_list *l, bool boards_only);
