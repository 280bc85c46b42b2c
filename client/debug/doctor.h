// rknnd_diagnose(), part by part: each looks at one hop and tells what it finds.
#pragma once

#include <stdbool.h>

#include "base/net/uri.h"
#include "client/link/server_selection.h"
#include "rknnd.h"

struct doctor {
    rknnd_check_callback *callback;
    void *user;
    uint32_t n_bad;
};

/// Tells of one check. `advice` ("": none) says what to do, the rest what was found.
void doctor_tell(struct doctor *d, rknnd_verdict verdict, const char *name, const char *advice,
                 const char *format, ...) __attribute__((format(printf, 5, 6)));

/// From the selection of a server to its greeting. A connection, or NULL: there is no way through.
struct connection *doctor_reach(struct doctor *d);

/// What the server says that it is; runs a small product on each of its cores.
void doctor_device(struct doctor *d, const rknnd_HelloReply *peer);

/// Whether the model loads.
void doctor_model(struct doctor *d, const char *path);

/// Whether the board that a usb: or adb: address means is there and can be used.
bool doctor_board(struct doctor *d, const struct uri *uri);

/// The ways to boards, and which there are: by the adb server, and by what `sysfs` (USB_SYSFS)
/// shows on USB.
void doctor_adb(struct doctor *d);
void doctor_usb(struct doctor *d, const char *sysfs);
