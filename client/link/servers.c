// The servers that this process uses: one entry per address, shared by its connections. An entry
// has the session, which all these connections join, and, for sim: and usb:, the private
// daemon.
//
//     server_connect()   parse, resolve ─► server_get() ─► server_join(): HELLO ─► server_enlist()
//                                                           └─ retries as the transport says
//
// list_lock guards the list and the references; server.lock its session, and is held during the
// first HELLO, so that two threads do not make two sessions. Any thread.
#include "client/link/servers.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "client/limits.h"
#include "client/link/hello.h"
#include "client/link/keepalive.h"
#include "client/transport/transports.h"
#include "client/wait_end.h"

struct server {
    struct list link;
    unsigned refs;
    char uri[256];        // normal form
    struct uri address;   // the same
    pthread_mutex_t lock; // of session; held while the first connection makes it
    struct session session;
    struct spawn daemon; // of transports that start one
};

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct list servers = {&servers, &servers};

static struct server *server_find(const char *uri)
{
    struct server *s;
    list_for_each (s, &servers, link)
        if (strcmp(s->uri, uri) == 0)
            return s;
    return NULL;
}

// The entry of an address, made if need be, with a reference.
static int server_get(const struct uri *address, struct server **ret, struct error *e)
{
    char uri[sizeof((*ret)->uri)];
    uri_format(address, uri, sizeof uri);
    pthread_mutex_lock(&list_lock);
    struct server *s = server_find(uri);
    if (!s && (s = calloc(1, sizeof *s))) {
        memcpy(s->uri, uri, sizeof uri);
        s->address = *address;
        pthread_mutex_init(&s->lock, NULL);
        spawn_init(&s->daemon);
        list_append(&servers, &s->link);
    }
    if (s)
        s->refs++;
    pthread_mutex_unlock(&list_lock);
    *ret = s;
    return s ? 0 : error_no_memory(e, "a server", sizeof *s);
}

// Gives a reference back. The last one ends the private daemon, without list_lock: that may block.
static void server_put(struct server *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&list_lock);
    bool last = --s->refs == 0;
    if (last)
        list_remove(&s->link);
    pthread_mutex_unlock(&list_lock);
    if (!last)
        return;
    spawn_done(&s->daemon);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

CLEANUP_DEFINE(struct server, server_put)

// introduce_over(): the connection ended without a word from the other side. It has gone, or
// another has taken its place; trying again may help. Positive, as no status is.
#define CUT_OFF 1

// HELLO on a socket that connect() gave (an error if `fd` is negative). Takes `fd`. May return
// CUT_OFF, with *e set.
static int introduce_over(struct server *s, int fd, const struct transport_attempt *a,
                          struct session *session, struct connection **ret, struct error *e)
{
    struct connection *c = NULL;
    if (fd < 0) {
        error_prefix(e, "server %s", s->uri);
        return fd;
    }
    int r = connection_new(fd, a->shares_memory, s->uri, &c, e);
    if (r < 0) {
        stream_tls_free(a->tls);
        return r;
    }
    if (a->tls)
        stream_secure(&c->stream, a->tls);
    else if (!a->shares_memory && !fd_is_unix(fd)) // base/net/stream.h
        stream_let_wait(&c->stream);
    r = hello_exchange(c, session, a->hello_ms, e);
    if (r == 0) {
        *ret = c;
        return 0;
    }
    if (r == STATUS_DEVICE_UNAVAILABLE && !c->leaving)
        r = CUT_OFF;
    connection_free(c);
    return r;
}

// Connects and says HELLO until it is answered or the transport's retry() gives up. A private
// daemon that did not answer is forgotten, so that the next attempt starts another.
static int server_introduce(struct server *s, struct session *session, struct connection **ret,
                            struct error *e)
{
    const struct transport *t = transport_of(&s->address);
    uint64_t began = clock_ms();
    for (;;) {
        struct transport_attempt a = {.address = &s->address,
                                      .uri = s->uri,
                                      .daemon = &s->daemon,
                                      .began_ms = began,
                                      .hello_ms = LIMIT_HELLO_MS};
        int fd = t->connect(&a, e);
        int r = introduce_over(s, fd, &a, session, ret, e);
        bool again = r == CUT_OFF && t->retry && !interrupt_asked() && t->retry(&a, e);
        if (fd >= 0 && a.spawned && (r == CUT_OFF || r == STATUS_DEVICE_UNAVAILABLE))
            spawn_forget(&s->daemon, &a.ticket);
        if (!again)
            return r == STATUS_TIMEOUT || r == CUT_OFF ? e->code = STATUS_DEVICE_UNAVAILABLE : r;
        if (a.wait_ms > 0)
            poll(NULL, 0, (int)a.wait_ms);
    }
}

// The first connection to a server makes the session while server.lock is held; others that come
// meanwhile wait for it. A server that does not know the session any more (it is another daemon by
// now) answers with a new one, which replaces ours.
static int server_join(struct server *s, struct connection **ret, struct error *e)
{
    pthread_mutex_lock(&s->lock);
    struct session session = s->session;
    bool first = session.id == 0;
    if (!first)
        pthread_mutex_unlock(&s->lock);
    int r = server_introduce(s, &session, ret, e);
    if (!first)
        pthread_mutex_lock(&s->lock);
    if (r == 0)
        s->session = session;
    pthread_mutex_unlock(&s->lock);
    return r;
}

// Hands a connection after its HELLO to the keep-alive thread; it takes over the reference *s.
static int server_enlist(struct connection *c, struct server **s, struct connection **ret,
                         struct error *e)
{
    int r = keepalive_add(c, e);
    if (r < 0) {
        connection_free(c);
        return r;
    }
    c->server = steal_ptr(*s);
    *ret = c;
    return 0;
}

int server_connect(const char *uri, struct connection **ret, struct error *e)
{
    struct uri address;
    cleanup(server_put_p) struct server *s = NULL;
    struct connection *c = NULL;
    int r = transports_parse(uri, &address, e);
    if (r == 0 && transport_of(&address)->resolve)
        r = transport_of(&address)->resolve(&address, e);
    if (r == 0)
        r = server_get(&address, &s, e);
    if (r == 0)
        r = server_join(s, &c, e);
    return r < 0 ? r : server_enlist(c, &s, ret, e);
}

// Memories of `other` are known to its session only, so a connection in another one is of no use.
int server_connect_beside(const struct connection *other, struct connection **ret, struct error *e)
{
    cleanup(server_put_p) struct server *s = NULL;
    struct connection *c = NULL;
    struct session session = {.id = other->peer.session};
    memcpy(session.secret, other->peer.session_secret.bytes, sizeof session.secret);
    int r = server_get(&other->server->address, &s, e);
    if (r == 0)
        r = server_introduce(s, &session, &c, e);
    if (r < 0)
        return r;
    if (session.id != other->peer.session ||
        memcmp(session.secret, other->peer.session_secret.bytes, sizeof session.secret) != 0) {
        connection_free(c);
        return error_set(
            e, STATUS_DEVICE_UNAVAILABLE,
            "server %s no longer knows the session: another daemon has taken its place", s->uri);
    }
    return server_enlist(c, &s, ret, e);
}

// A connection inherited over fork() is freed on this side only: its server entry is the parent's.
void server_disconnect(struct connection *c)
{
    if (!c)
        return;
    struct server *s = c->server;
    bool inherited = keepalive_is_inherited(c);
    if (!inherited)
        keepalive_remove(c);
    connection_free(c);
    if (!inherited)
        server_put(s);
}

void server_before_fork(void)
{
    pthread_mutex_lock(&list_lock);
}

void server_after_fork(bool child)
{
    struct server *s, *after;
    if (child) { // the parent's sessions and daemons stay the parent's
        // Closing the control socket's copy does not end the daemon: the parent still has it open.
        list_for_each_safe (s, after, &servers, link) {
            s->daemon.control = fd_close(s->daemon.control);
            list_remove(&s->link);
        }
    }
    pthread_mutex_unlock(&list_lock);
}
