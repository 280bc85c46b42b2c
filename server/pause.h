// A run that waits, in its own thread, until the loop lets it go on.
#pragma once

#include <pthread.h>
#include <stdbool.h>

struct pause {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    enum { PAUSE_NOT, PAUSE_WAITS, PAUSE_STOPPED } state;
};

void pause_init(struct pause *p);
void pause_done(struct pause *p);

/// A run begins.
void pause_start(struct pause *p);

/// Calls post(owner) and waits for pause_end(). False: the run is to end.
bool pause_wait(struct pause *p, void (*post)(void *owner), void *owner);

/// From any thread, once for each post(): the run goes on, or (`stop`) ends.
void pause_end(struct pause *p, bool stop);
