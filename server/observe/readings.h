// What the machine's sensors and clocks say at present. Reading them can block, so a thread of
// libuv does it: one reading at a time, for all who ask. A driver that hangs costs that thread, and
// the answers, and nothing else.
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "base/list.h"
#include "server/observe/clocks.h"
#include "server/observe/sensors.h"

#define READINGS_FRESH_MS    1000 // so old may they be
#define READINGS_PATIENCE_MS 1000 // is a reading waited for
#define READINGS_TURN        16   // who wait for it are told in a turn of the loop

struct reading {
    rknnd_Clock clocks[CLOCKS_MAX];
    rknnd_Sensor sensors[SENSORS_MAX];
    size_t n_clocks, n_sensors;
};

// Who waits for a reading.
struct reading_waiter {
    struct list link;
    /// `now` NULL: the machine's drivers do not answer. Valid in the call. May free the waiter.
    void (*told)(struct reading_waiter *w, const struct reading *now);
};

// Embedded by the server. Loop thread only.
struct readings {
    uv_loop_t *loop;
    const char *root; // where sysfs is mounted
    uv_work_t work;
    uv_timer_t patience;
    uv_timer_t telling; // until all of `due` are told
    bool reading;       // the thread has `next`
    bool known;         // `now` is something
    bool hangs;         // those of `due` are told so
    uint64_t now_ms;
    struct reading now, next;
    struct list waiters; // for what is being read
    struct list due;     // who are to be told
};

void readings_init(struct readings *r, uv_loop_t *loop, const char *root);

/// Safe to repeat. Waiters are told nothing more.
void readings_close(struct readings *r);

/// Calls w->told() from inside when a fresh reading is there, or from the loop. list_remove() of
/// the link takes the request back.
void readings_get(struct readings *r, struct reading_waiter *w);
