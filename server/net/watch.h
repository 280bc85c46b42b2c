// Watching descriptors with libuv, without the end of the process where it has no way to tell of a
// failure: it calls abort() when its table of descriptors cannot grow, or when the kernel has no
// room for one more in an epoll set.
#pragma once

#include <uv.h>

#include "base/error.h"

// So many descriptors a process watches at most: what its limit is lowered to.
#define WATCH_DESCRIPTORS 65536

/// Makes libuv's table large enough for all descriptors of the process. Once, before the loop runs.
int watch_prepare(uv_loop_t *loop, struct error *e);

/// As uv_poll_start() with `events` other than 0. When the kernel has no room, the poll is as after
/// uv_poll_stop(): try again a while later.
int watch_start(uv_poll_t *poll, int events, uv_poll_cb ready, struct error *e);
