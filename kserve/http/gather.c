// A connection is one thread's at a time: its own, which waits for it (`back`), or the one here,
// in whose epoll set it is meanwhile.
//
//     own thread:  exchange() -> lend, wait ........................... -> exchange() ...
//     here:                      begin all that have come -> end each, and wait for the next
//                                   | not like the last      | goes on for too long
//                                   v                        v
//                                 back                     back: its own thread ends it
//
// So nobody here waits for a peer, for memory, or for longer than a short run takes. One thread is
// enough: the daemon's, which takes longer for a run, is one as well.
#include "kserve/http/gather.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/fd.h"

#define AT_ONCE     16
#define PATIENCE_MS 2 // for each run; when it is over, the others' own threads wait for them

struct gather {
    struct exchange_site *site;
    int epoll, stop; // an eventfd, in the set without a connection
    pthread_t thread;
};

// ---- here ---------------------------------------------------------------------------------------

// Behind sem_post() it may be gone.
static void give_back(const struct gather *t, struct guest *g, bool goes_on)
{
    epoll_ctl(t->epoll, EPOLL_CTL_DEL, g->talk.socket, NULL);
    g->goes_on = goes_on;
    sem_post(&g->back);
}

// False: it goes on for too long.
static bool end_one(const struct gather *t, struct guest *g)
{
    if (!quick_run_wait(&g->run, PATIENCE_MS))
        return false;
    bool goes_on = exchange_end(t->site, g);
    if (!goes_on || g->rest.bytes)
        give_back(t, g, goes_on);
    return true;
}

static void serve_those(const struct gather *t, const struct epoll_event *come, int n)
{
    struct guest *begun[AT_ONCE];
    unsigned n_begun = 0, i = 0;
    for (int k = 0; k < n; k++) {
        struct guest *g = come[k].data.ptr;
        if (exchange_begin(t->site, g))
            begun[n_begun++] = g;
        else
            give_back(t, g, true);
    }
    while (i < n_begun && end_one(t, begun[i]))
        i++;
    while (i < n_begun)
        give_back(t, begun[i++], true);
}

static void *gather_run(void *owner)
{
    const struct gather *t = owner;
    struct epoll_event come[AT_ONCE];
    prctl(PR_SET_NAME, "kserve-gather");
    for (;;) {
        int n = epoll_wait(t->epoll, come, AT_ONCE, -1);
        for (int i = 0; i < n; i++)
            if (!come[i].data.ptr)
                return NULL; // then no connection is here
        serve_those(t, come, n);
    }
}

// ---- the connection's own thread ----------------------------------------------------------------

bool gather_lend(struct gather *t, struct guest *g)
{
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = g};
    if (g->repeat.head == 0 || epoll_ctl(t->epoll, EPOLL_CTL_ADD, g->talk.socket, &e) < 0)
        return true;
    while (sem_wait(&g->back) < 0 && errno == EINTR)
        continue;
    bool goes_on = g->goes_on;
    if (g->run.model)
        goes_on = exchange_end(t->site, g);
    return goes_on && (!g->rest.bytes || exchange_send_rest(t->site, g));
}

// ---- life ---------------------------------------------------------------------------------------

static void free_parts(struct gather *t)
{
    fd_close(t->epoll);
    fd_close(t->stop);
    free(t);
}

void gather_free(struct gather *t)
{
    if (!t)
        return;
    eventfd_write(t->stop, 1);
    pthread_join(t->thread, NULL);
    free_parts(t);
}

struct gather *gather_new(struct exchange_site *s, const pthread_attr_t *thread)
{
    struct gather *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    struct epoll_event end = {.events = EPOLLIN};
    t->site = s;
    t->epoll = epoll_create1(EPOLL_CLOEXEC);
    t->stop = eventfd(0, EFD_CLOEXEC);
    if (t->epoll >= 0 && t->stop >= 0 && epoll_ctl(t->epoll, EPOLL_CTL_ADD, t->stop, &end) == 0 &&
        pthread_create(&t->thread, thread, gather_run, t) == 0)
        return t;
    free_parts(t);
    return NULL;
}
