// The ways to a server: what the client library knows of unix:, tcp:, tls:, usb:, adb:, sim:,
// emu: and open:.
//
// To add one:
//   1. client/transport/transport_NAME.c defines `const struct transport transport_NAME` with the
//      operations below; most may be NULL. Backends of private daemons are in transport_private.c.
//   2. It gets a line in transports.h and a row in transports.c. Parsing, connecting, searching
//      (rknnd_list_devices, the only board), rknnd_diagnose and every text that lists the forms
//      come from the rows.
//   3. test_transports fails until the places that name all schemes by hand do it, too: rknnd.h,
//      rknnd-client(7), rknnctl(1), README.md, rknnctl's help and its shell completions.
// The server's side is server/listen/listen_schemes.h.
#pragma once

#include "base/list.h"
#include "base/net/uri.h"
#include "base/tls/stream_tls.h"
#include "client/transport/checks.h"
#include "client/transport/device_list.h"
#include "client/transport/spawn.h"

// One attempt to reach a server: connect(), then HELLO on the socket.
struct transport_attempt {
    const struct uri *address;
    const char *uri;      // the same in normal form, for words
    struct spawn *daemon; // the private daemon that this process may have for the address
    uint64_t began_ms;    // clock_ms() at the first attempt
    // connect() may change these:
    uint32_t hello_ms;      // within which HELLO has to be answered: LIMIT_HELLO_MS
    bool shares_memory;     // the other end takes shared memory (base/net/stream.h): false
    bool spawned;           // the socket leads to *daemon: false
    struct stream_tls *tls; // what goes over the socket; the caller's then. NULL
    struct spawn_ticket ticket;
    // retry() may:
    uint32_t wait_ms; // before the next attempt: 0
};

// All operations may block, but not for ever, and may come from any thread.
struct transport {
    struct uri_scheme uri;
    const char *help;         // one line: which server this is
    bool boards;              // list() finds boards; the only one is used when none is selected
    const char *hello_advice; // of rknnd_diagnose, when HELLO fails; NULL: a general one

    /// Puts the name of the only server into an address that leaves it open, so that it is one
    /// server under either name. NULL: addresses are complete.
    int (*resolve)(struct uri *address, struct error *e);

    /// Returns a non-blocking, close-on-exec stream socket, the caller's, or a negative status with
    /// words that do not name the address.
    int (*connect)(struct transport_attempt *a, struct error *e);

    /// The server hung up without a word before it answered HELLO. Whether to try again; *e may get
    /// better words. NULL: no.
    bool (*retry)(struct transport_attempt *a, struct error *e);

    /// Adds what is within reach, without asking the servers. NULL: that cannot be known.
    void (*list)(struct device_list *l);

    /// Checks the hops to a server up to HELLO. False: there is no way through, as a check has
    /// said. NULL: there are none.
    bool (*diagnose)(struct checks *c, const struct uri *address);

    /// Says what of this kind there is, whichever server is selected. NULL: nothing.
    void (*survey)(struct checks *c);
};

static inline const struct transport *transport_of(const struct uri *address)
{
    return container_of(address->scheme, struct transport, uri);
}
