// Whether the daemon is there, and how busy it is: one thread asks it every second, so that nobody
// else waits for one that is silent.
#pragma once

#include <stdbool.h>

#include "base/error.h"

struct pulse;

/// load() is called from its thread when the daemon answers for the first time. Nothing is ready
/// before it returns. False says that the daemon went meanwhile: it is called again once that
/// answers, ever more seldom.
struct pulse *pulse_start(bool (*load)(void *user), void *user, struct error *e);
/// The caller's own load() has found no daemon: the thread is to do it when there is one.
void pulse_load_again(struct pulse *p);
/// Does not wait for a daemon that is silent. False: its thread still does, and may use what it was
/// given.
bool pulse_stop(struct pulse *p);

/// From now on it is not ready, whatever the daemon says.
void pulse_end_service(struct pulse *p);

/// Whether load() has been through. Until then it is not known what models there are.
bool pulse_has_begun(const struct pulse *p);

/// Whether the daemon answers now, and this service is not about to end. Where the last answer is
/// not of just now, asks again and waits for that, for up to 1.5 s.
bool pulse_is_ready(struct pulse *p);

/// Of 100, how much of the device is free; 0: it is not ready.
unsigned pulse_free(const struct pulse *p);
