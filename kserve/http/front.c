// A thread for each socket that listens, and one for each connection, since a run blocks. Where
// there are as many connections as may be, one more makes an idle one give way.
#include "kserve/http/front.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/net/discard.h"
#include "base/net/tcp.h"
#include "kserve/http/exchange.h"
#include "kserve/http/gather.h"
#include "kserve/peer_key.h"

#define STACK_BYTES (512 * 1024)
#define PAUSE_MS    100     // until descriptors or threads may be there again
#define SEAT_NS     2000000 // that who computes has a processor's seat for, if others want it

// Who listens on one socket.
struct doorman {
    struct front *front;
    int socket;
    pthread_t thread;
};

struct front {
    struct exchange_site shared;
    struct seats *seats;
    struct gather *gather;
    unsigned most; // connections
    int stop;      // an eventfd
    struct doorman doormen[FRONT_MAX_SOCKETS];
    unsigned n_doormen;
    pthread_attr_t small; // threads of connections
    pthread_mutex_t lock; // of what follows
    pthread_cond_t left;
    unsigned n; // connections
};

// ---- connections --------------------------------------------------------------------------------

// Where it ends: the thread forgets it, closes it, and only then makes room for another one, so
// that there are never more sockets than there may be.
struct stay {
    struct front *front;
    struct guest guest;
};

static void forget_one(struct front *f)
{
    pthread_mutex_lock(&f->lock);
    f->n--;
    pthread_cond_broadcast(&f->left);
    pthread_mutex_unlock(&f->lock);
}

static void *serve(void *owner)
{
    struct stay *v = owner;
    struct front *f = v->front;
    while (exchange(&f->shared, &v->guest) && gather_lend(f->gather, &v->guest))
        continue;
    seat_done(&v->guest.seat);
    connection_remove(f->shared.watch, v->guest.watched); // before its number is another's
    discard_socket(v->guest.talk.socket);
    free(v->guest.kept);
    free(v->guest.rest.bytes);
    sem_destroy(&v->guest.back);
    free(v);
    forget_one(f);
    return NULL;
}

// The thread may have ended before pthread_create() returns here, so nothing of it is touched then.
static bool start_stay(struct front *f, int socket, const struct sockaddr *address)
{
    cleanup(free_p) struct stay *v = malloc(sizeof *v);
    pthread_t thread;
    if (!v)
        return false;
    talk_init(&v->guest.talk, socket);
    const struct seat_key key = peer_key(socket, address);
    if (!seat_init(&v->guest.seat, f->seats, &key))
        return false;
    struct watched *w = connection_add(f->shared.watch, &v->guest.talk);
    if (!w) {
        seat_done(&v->guest.seat);
        return false;
    }
    v->front = f;
    v->guest.watched = w;
    v->guest.kept = NULL;
    v->guest.repeat.head = 0;
    v->guest.run.model = NULL;
    v->guest.rest = (struct reply_rest){0};
    sem_init(&v->guest.back, 0, 0);
    if (pthread_create(&thread, &f->small, serve, v) != 0) {
        connection_remove(f->shared.watch, w);
        seat_done(&v->guest.seat);
        return false;
    }
    pthread_detach(thread);
    (void)steal_ptr(v);
    return true;
}

// ---- the door -----------------------------------------------------------------------------------

// As many again as there may be come at once: for each, one that was there is told to end, and has
// yet to. False: it is the end.
static bool wait_for_place(struct front *f)
{
    pthread_mutex_lock(&f->lock);
    while (f->n >= 2 * f->most && !f->shared.ends)
        pthread_cond_wait(&f->left, &f->lock);
    f->n++;
    pthread_mutex_unlock(&f->lock);
    return !f->shared.ends;
}

// The listening socket does not block: of two who poll it, or when a peer has gone again, nobody is
// left waiting in accept().
static int accept_one(const struct doorman *d, struct sockaddr_storage *peer)
{
    socklen_t size = sizeof *peer;
    struct pollfd p[] = {{.fd = d->socket, .events = POLLIN},
                         {.fd = d->front->stop, .events = POLLIN}};
    if (poll(p, 2, -1) < 0 || p[1].revents || !p[0].revents)
        return -1;
    int fd = accept4(d->socket, (struct sockaddr *)peer, &size, SOCK_CLOEXEC);
    if (fd >= 0)
        tcp_prepare(fd, (struct sockaddr *)peer);
    else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
        poll(&p[1], 1, PAUSE_MS);
    return fd;
}

static void *watch_door(void *owner)
{
    struct doorman *d = owner;
    struct front *f = d->front;
    struct sockaddr_storage peer;
    while (wait_for_place(f)) {
        int fd = accept_one(d, &peer);
        if (fd >= 0 && start_stay(f, fd, (struct sockaddr *)&peer))
            continue;
        forget_one(f);
        if (fd >= 0)
            log_warn("no memory, or no thread, for another connection");
        fd_close(fd);
    }
    forget_one(f);
    return NULL;
}

// ---- life ---------------------------------------------------------------------------------------

static int front_listen(struct front *f, int socket, struct error *e)
{
    struct doorman *d = &f->doormen[f->n_doormen];
    *d = (struct doorman){.front = f, .socket = socket};
    fd_unblock(socket); // who connected may be gone when it is accepted
    if (pthread_create(&d->thread, &f->small, watch_door, d) != 0)
        return error_set(e, STATUS_FAIL, "a thread does not start");
    f->n_doormen++;
    return 0;
}

// That this process may use.
static unsigned processors(void)
{
    cpu_set_t set;
    bool known = sched_getaffinity(0, sizeof set, &set) == 0;
    return known ? (unsigned)CPU_COUNT(&set) : (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
}

static struct front *front_new(const struct site *site, const struct front_limits *limits)
{
    struct front *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->shared.site = site;
    f->shared.max_body = limits->body;
    f->most = limits->connections;
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->left, NULL);
    pthread_attr_init(&f->small);
    pthread_attr_setstacksize(&f->small, STACK_BYTES);
    f->shared.watch = connection_watch_new(limits);
    f->seats = seats_new(processors(), SEAT_NS, clock_ns);
    f->gather = gather_new(&f->shared, processors(), &f->small);
    f->stop = eventfd(0, EFD_CLOEXEC);
    return f;
}

int front_start(const struct site *site, const struct front_limits *limits, const int *sockets,
                unsigned n_sockets, struct front **ret, struct error *e)
{
    struct front *f = front_new(site, limits);
    int r = f && f->shared.watch && f->seats && f->gather && f->stop >= 0
                ? 0
                : error_no_memory(e, "a server", sizeof *f);
    for (unsigned i = 0; i < n_sockets && r == 0; i++)
        r = front_listen(f, sockets[i], e);
    if (r == 0)
        *ret = f;
    else if (f)
        front_stop(f, 0);
    return r;
}

// The doors first: else somebody could come in while those inside are told to go. Whoever is just
// coming in is counted already, so end_guests() waits for him.
static void end_doors(struct front *f)
{
    pthread_mutex_lock(&f->lock);
    f->shared.ends = true;
    pthread_cond_broadcast(&f->left);
    pthread_mutex_unlock(&f->lock);
    eventfd_write(f->stop, 1);
    for (unsigned i = 0; i < f->n_doormen; i++) {
        pthread_join(f->doormen[i].thread, NULL);
        fd_close(f->doormen[i].socket);
    }
}

// First those that are answered now may end well, then all are told. A run that never ends keeps
// its thread, and this waits: who wants an end then kills the process.
static void end_guests(struct front *f, uint32_t patience_s)
{
    connection_wait_idle(f->shared.watch, patience_s);
    connection_end_all(f->shared.watch);
    pthread_mutex_lock(&f->lock);
    while (f->n > 0)
        pthread_cond_wait(&f->left, &f->lock);
    pthread_mutex_unlock(&f->lock);
    connection_watch_free(f->shared.watch);
}

void front_stop(struct front *f, uint32_t patience_s)
{
    end_doors(f);
    if (f->shared.watch)
        end_guests(f, patience_s);
    gather_free(f->gather);
    seats_free(f->seats);
    fd_close(f->stop);
    pthread_attr_destroy(&f->small);
    pthread_cond_destroy(&f->left);
    pthread_mutex_destroy(&f->lock);
    free(f);
}
