#include "kserve/http/connections.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#include "base/clock.h"

#define PERIOD_MS 500

struct connection_watch {
    pthread_mutex_t lock;
    pthread_cond_t woken; // CLOCK_MONOTONIC; it is to end, or nobody is busy
    pthread_t thread;
    struct list all;
    uint64_t patience_ms;
    unsigned n, most, n_busy;
    bool ends; // somebody waits for all to be idle
    bool stop;
};

static void watch_wait(struct connection_watch *w, uint64_t until_ms)
{
    struct timespec t = {(time_t)(until_ms / 1000), (long)(until_ms % 1000) * 1000000};
    pthread_cond_timedwait(&w->woken, &w->lock, &t);
}

// Shut down, not closed: the library does that once it has seen the end.
static void end_slow(struct connection_watch *w)
{
    uint64_t now = clock_ms();
    struct watched *c;
    list_for_each (c, &w->all, link) {
        if (c->turn != TURN_WORK && now - c->since_ms > w->patience_ms)
            shutdown(c->socket, SHUT_RDWR);
    }
}

static void *watch_run(void *owner)
{
    struct connection_watch *w = owner;
    pthread_mutex_lock(&w->lock);
    while (!w->stop) {
        end_slow(w);
        watch_wait(w, clock_ms() + PERIOD_MS);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

struct connection_watch *connection_watch_new(uint32_t patience_s, unsigned most)
{
    struct connection_watch *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->woken, &monotonic);
    pthread_condattr_destroy(&monotonic);
    list_init(&w->all);
    w->patience_ms = (uint64_t)patience_s * 1000;
    w->most = most;
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
    shutdown(oldest->socket, SHUT_RDWR);
    oldest->gives_way = true;
}

struct watched *connection_add(struct connection_watch *w, int socket)
{
    struct watched *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->socket = socket;
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

void connection_wait_idle(struct connection_watch *w, uint32_t patience_s)
{
    uint64_t until = clock_ms() + (uint64_t)patience_s * 1000;
    pthread_mutex_lock(&w->lock);
    w->ends = true;
    while (w->n_busy > 0 && clock_ms() < until)
        watch_wait(w, until);
    pthread_mutex_unlock(&w->lock);
}
