// All connections are in one list under one lock, since a turn takes it for a few instructions
// only. A thread looks twice a second for those whose peers have had their time. What ends one is
// shutdown(): the thread that serves it, wherever it waits, sees the end and closes the socket
// itself, so no number of a descriptor is used by two.
//
// Memory that lacks is waited for, as most who have some are done with it soon. Who is not, since
// his bytes do not come, or those of his answer do not go, has a second.
#include "kserve/http/connections.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#include "base/clock.h"

#define PERIOD_MS  500
#define SLOW_BYTES 50000 // that a peer is slow with who sends or takes less in a period
#define SLOW       2     // periods after which he gives way

struct connection_watch {
    pthread_mutex_t lock;
    pthread_cond_t woken; // CLOCK_MONOTONIC; it is to end, or nobody is busy
    pthread_t thread;
    struct list all;
    uint64_t patience_ms;
    struct memory memory;
    pthread_cond_t freed;  // memory
    atomic_uint n_waiting; // for that
    unsigned n, most, n_busy;
    bool ends; // somebody waits for all to be idle
    bool stop;
};

static void watch_wait(struct connection_watch *w, pthread_cond_t *what, uint64_t until_ms)
{
    struct timespec t = {(time_t)(until_ms / 1000), (long)(until_ms % 1000) * 1000000};
    pthread_cond_timedwait(what, &w->lock, &t);
}

// Who computes for its peer is not slow.
static void end_slow(struct connection_watch *w)
{
    uint64_t now = clock_ms();
    struct watched *c;
    list_for_each (c, &w->all, link) {
        if (c->turn != TURN_WORK && now - c->since_ms > w->patience_ms)
            shutdown(c->talk->socket, SHUT_RDWR);
    }
}

static void note_pace(struct connection_watch *w)
{
    struct watched *c;
    list_for_each (c, &w->all, link) {
        uint64_t moved = c->talk->moved;
        bool slow = c->turn != TURN_WORK && !c->waits && moved - c->moved < SLOW_BYTES;
        c->n_slow = slow ? c->n_slow + 1 : 0;
        c->moved = moved;
    }
}

static void *watch_run(void *owner)
{
    struct connection_watch *w = owner;
    pthread_mutex_lock(&w->lock);
    while (!w->stop) {
        end_slow(w);
        note_pace(w);
        watch_wait(w, &w->woken, clock_ms() + PERIOD_MS);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

// ---- memory -------------------------------------------------------------------------------------

// The one with most memory of those that are slow with theirs.
static void make_slow_give_way(struct connection_watch *w)
{
    struct watched *c, *most = NULL;
    list_for_each (c, &w->all, link) {
        bool may = c->n_slow >= SLOW && c->share.held > 0 && !c->gives_way;
        if (may && (!most || c->share.held > most->share.held))
            most = c;
    }
    if (!most)
        return;
    shutdown(most->talk->socket, SHUT_RDWR);
    most->gives_way = true;
}

// Looks again once a period even if nobody gives anything back: somebody may have become slow.
static void make_room(struct memory *m, struct memory_share *wanted_by)
{
    struct connection_watch *w = container_of(m, struct connection_watch, memory);
    struct watched *c = container_of(wanted_by, struct watched, share);
    pthread_mutex_lock(&w->lock);
    c->waits = true;
    w->n_waiting++;
    make_slow_give_way(w);
    watch_wait(w, &w->freed, clock_ms() + PERIOD_MS / 2);
    w->n_waiting--;
    c->waits = false;
    pthread_mutex_unlock(&w->lock);
}

static void on_freed(struct memory *m)
{
    struct connection_watch *w = container_of(m, struct connection_watch, memory);
    if (w->n_waiting == 0)
        return;
    pthread_mutex_lock(&w->lock);
    pthread_cond_broadcast(&w->freed);
    pthread_mutex_unlock(&w->lock);
}

// ---- life ---------------------------------------------------------------------------------------

struct connection_watch *connection_watch_new(const struct front_limits *limits)
{
    struct connection_watch *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->woken, &monotonic);
    pthread_cond_init(&w->freed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    list_init(&w->all);
    w->patience_ms = (uint64_t)limits->request_s * 1000;
    w->most = limits->connections;
    w->memory = (struct memory){.most = limits->memory, .make_room = make_room, .freed = on_freed};
    if (pthread_create(&w->thread, NULL, watch_run, w) != 0) {
        free(w);
        return NULL;
    }
    return w;
}

void connection_watch_free(struct connection_watch *w)
{
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_broadcast(&w->woken);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->woken);
    pthread_cond_destroy(&w->freed);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

// The one that has been at its request for longest.
static void make_way(struct connection_watch *w)
{
    struct watched *c, *oldest = NULL;
    list_for_each (c, &w->all, link) {
        if (c->turn == TURN_ASK && !c->gives_way && (!oldest || c->since_ms < oldest->since_ms))
            oldest = c;
    }
    if (!oldest)
        return;
    shutdown(oldest->talk->socket, SHUT_RDWR);
    oldest->gives_way = true;
}

struct watched *connection_add(struct connection_watch *w, struct talk *talk)
{
    struct watched *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->talk = talk;
    c->share.of = &w->memory;
    c->since_ms = clock_ms();
    pthread_mutex_lock(&w->lock);
    if (++w->n > w->most)
        make_way(w);
    list_append(&w->all, &c->link);
    pthread_mutex_unlock(&w->lock);
    return c;
}

void connection_remove(struct connection_watch *w, struct watched *c)
{
    watched_turn(w, c, TURN_ASK);
    pthread_mutex_lock(&w->lock);
    list_remove(&c->link);
    w->n--;
    pthread_mutex_unlock(&w->lock);
    free(c);
}

void watched_turn(struct connection_watch *w, struct watched *c, enum turn turn)
{
    pthread_mutex_lock(&w->lock);
    bool was_busy = c->turn != TURN_ASK, is_busy = turn != TURN_ASK;
    if (was_busy != is_busy)
        w->n_busy += is_busy ? 1U : -1U;
    c->turn = turn;
    c->since_ms = clock_ms();
    if (w->n_busy == 0 && w->ends)
        pthread_cond_broadcast(&w->woken);
    pthread_mutex_unlock(&w->lock);
}

void connection_end_all(struct connection_watch *w)
{
    struct watched *c;
    pthread_mutex_lock(&w->lock);
    list_for_each (c, &w->all, link)
        shutdown(c->talk->socket, SHUT_RDWR);
    pthread_mutex_unlock(&w->lock);
}

void connection_wait_idle(struct connection_watch *w, uint32_t patience_s)
{
    uint64_t until = clock_ms() + (uint64_t)patience_s * 1000;
    pthread_mutex_lock(&w->lock);
    w->ends = true;
    while (w->n_busy > 0 && clock_ms() < until)
        watch_wait(w, &w->woken, until);
    pthread_mutex_unlock(&w->lock);
}
