// Boards behind the adb server that runs on this machine. It is never started or ended here.
#pragma once

#include "base/error.h"

struct adb_device {
    char serial[128];
    char state[32]; // "device" when it is usable; "offline", "unauthorized", …
};

/// A stream to the rknnd on the board (serial "": the only one): by its Unix socket, or its TCP
/// port on the loopback interface, whichever is there. Bounded in time. Returns a non-blocking,
/// close-on-exec fd; words say what the adb server answered and what to do.
int adb_connect(const char *serial, struct error *e);

/// The boards that the adb server knows. Returns how many there are, also when that is more than
/// `max`; negative when there is no adb server.
int adb_list(struct adb_device *ret, int max, struct error *e);

/// The version of the adb server. STATUS_DEVICE_UNAVAILABLE: there is none; STATUS_FAIL: what is at
/// its address is something else.
int adb_version(unsigned *ret, struct error *e);

/// What to do about a state, or about what the adb server says.
const char *adb_advice(const char *said);
