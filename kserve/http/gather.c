// A connection is one thread's at a time: its own, which waits for it (`back`), or one here,
// in whose epoll set it is meanwhile.
//
//     own thread:  exchange() -> lend, wait ........................... -> exchange() ...
//     here:                      begin all that have come -> end each, and wait for the next
//                                   | not like the last      | goes on for too long
//                                   v                        v
//                                 back                     back: its own thread ends it
//
// So nobody here waits for a peer, for memory, or for longer than a short run takes. The fewer such
// threads, the more each of them gathers; a second one is for machines where the first could be
// what all wait for.
#include "kserve/http/gather.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/fd.h"

#define FEW         2  // processors, which the daemon and its workers need as well
#define AT_ONCE     16 // of all gatherers: contexts of a model
#define PATIENCE_MS 2  // for each run; when it is over, the others' own threads wait for them

struct gatherer {
    struct gather *of;
    int epoll;
    pthread_t thread;
};

struct gather {
    struct exchange_site *site;
    int stop; // an eventfd, in each set without a connection
    unsigned n, n_threads;
    atomic_uint next; // who is lent to
    struct gatherer gatherers[2];
};

// ---- here ---------------------------------------------------------------------------------------

// Behind sem_post() it may be gone.
static void give_back(const struct gatherer *t, struct guest *g, bool goes_on)
{
    epoll_ctl(t->epoll, EPOLL_CTL_DEL, g->talk.socket, NULL);
    g->goes_on = goes_on;
    sem_post(&g->back);
}

// False: it goes on for too long.
static bool end_one(const struct gatherer *t, struct guest *g)
{
    if (!quick_run_wait(&g->run, PATIENCE_MS))
        return false;
    bool goes_on = exchange_end(t->of->site, g);
    if (!goes_on || g->rest.bytes)
        give_back(t, g, goes_on);
    return true;
}

static void serve_those(const struct gatherer *t, const struct epoll_event *come, int n)
{
    struct guest *begun[AT_ONCE];
    unsigned n_begun = 0, i = 0;
    for (int k = 0; k < n; k++) {
        struct guest *g = come[k].data.ptr;
        if (exchange_begin(t->of->site, g))
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
    const struct gatherer *t = owner;
    const int most = AT_ONCE / (int)t->of->n;
    struct epoll_event come[AT_ONCE];
    prctl(PR_SET_NAME, "kserve-gather");
    for (;;) {
        int n = epoll_wait(t->epoll, come, most, -1);
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
    if (g->repeat.head == 0 || g->talk.begin < g->talk.end) // no epoll set tells of what is here
        return true;
    const struct gatherer *to = &t->gatherers[t->next++ % t->n];
    if (epoll_ctl(to->epoll, EPOLL_CTL_ADD, g->talk.socket, &e) < 0)
        return true;
    while (sem_wait(&g->back) < 0 && errno == EINTR)
        continue;
    bool goes_on = g->goes_on;
    if (g->run.model)
        goes_on = exchange_end(t->site, g);
    return goes_on && (!g->rest.bytes || exchange_send_rest(t->site, g));
}

// ---- life ---------------------------------------------------------------------------------------

void gather_free(struct gather *t)
{
    if (!t)
        return;
    eventfd_write(t->stop, 1);
    for (unsigned i = 0; i < t->n; i++) {
        if (i < t->n_threads)
            pthread_join(t->gatherers[i].thread, NULL);
        fd_close(t->gatherers[i].epoll);
    }
    fd_close(t->stop);
    free(t);
}

static bool start_one(struct gather *t, unsigned i, const pthread_attr_t *thread)
{
    struct gatherer *g = &t->gatherers[i];
    struct epoll_event end = {.events = EPOLLIN};
    bool started = g->epoll >= 0 && epoll_ctl(g->epoll, EPOLL_CTL_ADD, t->stop, &end) == 0 &&
                   pthread_create(&g->thread, thread, gather_run, g) == 0;
    t->n_threads += started;
    return started;
}

struct gather *gather_new(struct exchange_site *s, unsigned processors,
                          const pthread_attr_t *threads)
{
    struct gather *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->site = s;
    t->n = processors > FEW ? 2 : 1;
    t->stop = eventfd(0, EFD_CLOEXEC);
    for (unsigned i = 0; i < t->n; i++)
        t->gatherers[i] = (struct gatherer){.of = t, .epoll = epoll_create1(EPOLL_CLOEXEC)};
    bool ready = t->stop >= 0;
    for (unsigned i = 0; i < t->n && ready; i++)
        ready = start_one(t, i, threads);
    if (ready)
        return t;
    gather_free(t);
    return NULL;
}
