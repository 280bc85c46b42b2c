// The relay (rknnd --relay usb:): a process on the PC that owns one board and shares it among any
// number of programs. It takes connections on stream sockets and joins each to a channel of the
// link.
//
//     programs ⇄ sockets ⇄ relay ⇄ USB ⇄ rknnd on the board
//
// It does not parse what passes through; it speaks the protocol itself only to send a client away
// (GOODBYE) that came while no board was there. One thread, one loop. It ends on a signal, when it
// cannot have its socket, or, if a program started it (--adopt), when that program and all other
// clients are gone.
#include "server/usb/relay.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/net/stream.h"
#include "base/net/unix_socket.h"
#include "base/net/uri.h"
#include "base/net/usb.h"
#include "protocol/message.h"
#include "server/listen/listen_schemes.h"
#include "server/notify.h"
#include "server/signals.h"
#include "server/usb/usb_host.h"

#define PATIENCE_MS 3000 // in which a board that is not there may come
#define CHECK_MS    100

// A client that waits for the board. Owns its descriptor.
struct guest {
    struct list link;
    int fd;
    uint64_t until_ms;
};

struct relay {
    uv_loop_t loop;
    const struct options *options;
    struct listeners listeners;
    struct usb_host *usb;
    struct notify notify;
    struct list guests;
    uv_timer_t timer;
    struct signals signals;
    char shared[200]; // URI of the socket where others look for it; "": there is none (yet)
    bool orphaned, stopping;
    struct error failed; // why it ends
};

// ---- clients ------------------------------------------------------------------------------------

// Tells a client why there is no board, by an unsolicited GOODBYE, and closes. Takes the
// descriptor.
static void send_away(int fd, const struct error *why)
{
    rknnd_Goodbye m = rknnd_Goodbye_init_zero;
    message_set_text(m.reason, why->text);
    struct frame_out *f =
        message_frame(MESSAGE_GOODBYE, 0, 0, rknnd_Goodbye_fields, &m, NULL, 0, NULL, NULL);
    struct stream s;
    char dropped[64];
    stream_init(&s, fd, true);
    stream_receive(&s, dropped, sizeof dropped, NULL, NULL, 0); // says how it is to be answered
    if (f) {
        stream_send(&s, &(struct iovec){f->head, f->head_size}, 1, NULL, 0);
        frame_out_free(f);
    }
    stream_close(&s);
}

static void connect_guest(struct relay *r, int fd)
{
    struct error e;
    if (usb_host_connect(r->usb, fd, &e) < 0)
        log_warn("%s", e.text);
}

static void on_timer(uv_timer_t *timer);

// While a guest waits, or the end is waited for.
static void start_checking(struct relay *r)
{
    if (!uv_is_active((uv_handle_t *)&r->timer))
        uv_timer_start(&r->timer, on_timer, CHECK_MS, CHECK_MS);
}

// A new connection (listeners' callback); takes the descriptor. Without a board it waits
// PATIENCE_MS: the board may just be starting.
static void relay_take(struct listeners *l, int fd, const struct origin *origin)
{
    struct relay *r = container_of(l, struct relay, listeners);
    log_debug("a client (%s)", origin->text);
    if (usb_host_is_up(r->usb)) {
        connect_guest(r, fd);
        return;
    }
    struct guest *g = calloc(1, sizeof *g);
    if (!g) {
        fd_close(fd);
        return;
    }
    *g = (struct guest){.fd = fd, .until_ms = uv_now(&r->loop) + PATIENCE_MS};
    list_append(&r->guests, &g->link);
    start_checking(r);
}

static void relay_dismiss(struct guest *g)
{
    list_remove(&g->link);
    free(g);
}

// The board came or went: guests are connected when it is there.
static void on_changed(void *owner)
{
    struct relay *r = owner;
    struct guest *g;
    while (usb_host_is_up(r->usb) && (g = list_first(&r->guests, struct guest, link))) {
        connect_guest(r, g->fd);
        relay_dismiss(g);
    }
}

// ---- one relay for each board -------------------------------------------------------------------
//
// Who wants the board takes the socket where others look for it first. A relay that finds it taken
// ends, and clients that it was started for go to the other one.

// The folder for this user's relay sockets; those of root and the service manager are below /run.
// NULL: there is none that is writable.
static const char *own_folder(void)
{
    const char *folder = geteuid() == 0 ? "/run" : getenv("XDG_RUNTIME_DIR");
    return folder && *folder && access(folder, W_OK | X_OK) == 0 ? folder : NULL;
}

// Listens on the well-known socket of this board's serial number. Failing because it is taken is
// what makes two relays for one board impossible.
static int listen_where_others_look(struct relay *r, const char *folder, const char *serial,
                                    struct error *e)
{
    char path[sizeof r->shared], uri[sizeof r->shared];
    snprintf(path, sizeof path, "%s/rknnd", folder);
    if (mkdir(path, 0755) < 0 && errno != EEXIST)
        return error_set_errno(e, STATUS_FAIL, errno, "%s", path);
    if ((size_t)usb_relay_uri(folder, serial, uri, sizeof uri) >= sizeof uri)
        return error_set(e, STATUS_PARAM_INVALID, "the socket's path is too long");
    int n = listen_at(&r->listeners, uri, e);
    if (n == 0)
        memcpy(r->shared, uri, sizeof uri);
    return n;
}

// The service manager's relay serves every user, so a user's own gives way to it.
static int give_way(const struct relay *r, const char *serial, struct error *e)
{
    char uri[sizeof r->shared];
    if (geteuid() == 0 || (size_t)usb_relay_uri("/run", serial, uri, sizeof uri) >= sizeof uri ||
        !unix_is_taken(uri + strlen(uri_unix.name)))
        return 0;
    return error_set(e, STATUS_DEVICE_UNAVAILABLE, "another relay has the board: %s", uri);
}

// Makes the board's well-known socket. Does nothing where the user named the sockets with --listen.
static int relay_share(struct relay *r, const char *serial, struct error *e)
{
    const char *folder = own_folder();
    if (r->options->n_listen > 0)
        return 0;
    if (!folder && r->options->adopt_fd < 0)
        return error_set(
            e, STATUS_PARAM_INVALID,
            "no address to listen on: give --listen, or set XDG_RUNTIME_DIR to a folder");
    int n = give_way(r, serial, e);
    return n < 0 || !folder || *r->shared ? n : listen_where_others_look(r, folder, serial, e);
}

// A board is about to be claimed. Now its serial number is known, and with it the socket's name.
// The relay cannot be stopped from inside this callback of usb_host, so the timer does it.
static int on_found(void *owner, const char *serial, struct error *e)
{
    struct relay *r = owner;
    int n = relay_share(r, serial, e);
    if (n == 0) {
        listeners_start(&r->listeners);
        return 0;
    }
    r->failed = *e;
    uv_timer_start(&r->timer, on_timer, 0, CHECK_MS);
    return n;
}

static const struct usb_host_owner usb_calls = {.found = on_found, .changed = on_changed};

// Opens what is known at the start. Without a serial number the well-known socket has to wait for
// on_found().
static int open_listeners(struct relay *r, const char *serial, struct error *e)
{
    const struct options *o = r->options;
    int n = 0;
    for (uint32_t i = 0; i < o->n_listen && n == 0; i++)
        n = listen_at(&r->listeners, o->listen[i], e);
    if (n == 0 && *serial)
        n = relay_share(r, serial, e);
    return n == 0 && o->adopt_fd >= 0 ? listener_adopt(&r->listeners, (int)o->adopt_fd, e) : n;
}

// ---- life ---------------------------------------------------------------------------------------

// Closes every handle; uv_run() returns when the last one is closed. Safe to repeat.
static void relay_stop(struct relay *r)
{
    struct guest *g;
    if (r->stopping)
        return;
    r->stopping = true;
    listeners_close(&r->listeners);
    while ((g = list_first(&r->guests, struct guest, link))) {
        fd_close(g->fd);
        relay_dismiss(g);
    }
    usb_host_close(steal_ptr(r->usb));
    notify_close(&r->notify);
    uv_close((uv_handle_t *)&r->timer, NULL);
    signals_close(&r->signals);
}

// Runs only while something is waited for: ends a relay that failed, sends guests away whose time
// is over, and ends an orphaned relay when its last connection is gone.
static void on_timer(uv_timer_t *timer)
{
    struct relay *r = container_of(timer, struct relay, timer);
    struct guest *g;
    if (r->failed.code < 0) {
        relay_stop(r);
        return;
    }
    while ((g = list_first(&r->guests, struct guest, link)) && g->until_ms <= uv_now(&r->loop)) {
        send_away(g->fd, usb_host_why(r->usb));
        relay_dismiss(g);
    }
    if (!list_empty(&r->guests))
        return;
    if (!r->orphaned)
        uv_timer_stop(timer);
    else if (usb_host_connections(r->usb) == 0)
        relay_stop(r);
}

static void on_end(void *owner)
{
    relay_stop(owner);
}

static void on_hangup(void *owner)
{
    (void)owner;
    log_info("a relay has no configuration that it could read again; it goes on");
}

static void on_upgrade(void *owner)
{
    (void)owner;
    log_info("a relay has a cable, which cannot be handed over; it goes on");
}

// The program that started the relay is gone. Other programs may still use the board, so the relay
// stays until they are gone, too.
static void on_orphaned(struct listeners *l)
{
    struct relay *r = container_of(l, struct relay, listeners);
    r->orphaned = true;
    start_checking(r);
}

static int relay_begin(struct relay *r, struct error *e)
{
    const struct options *o = r->options;
    static const struct uri_scheme usb = {
        .name = "usb:", .syntax = "[SERIAL]", .parse = uri_parse_name};
    const struct uri_scheme *const boards[] = {&usb};
    struct uri uri;
    int n = uri_parse(o->relay, boards, 1, &uri, NULL);
    if (n < 0)
        n = error_set(e, STATUS_PARAM_INVALID, "--relay %s: only usb:[SERIAL] can be relayed",
                      o->relay);
    if (n == 0)
        n = notify_init(&r->notify, &r->loop, e);
    if (n == 0)
        n = open_listeners(r, uri.text, e);
    if (n == 0)
        n = usb_host_new(&r->usb, &r->loop, uri.text, &usb_calls, r, e);
    if (n == 0) {
        listeners_start(&r->listeners);
        manager_tell(&r->notify.manager, "READY=1\nSTATUS=Relaying %s", o->relay);
    }
    return n;
}

static int relay_init(struct relay *r, const struct options *o, struct error *e)
{
    r->options = o;
    listeners_init(&r->listeners, &r->loop);
    r->listeners.take = relay_take;
    r->listeners.orphaned = on_orphaned;
    r->listeners.socket_group = o->socket_group;
    r->listeners.insecure = o->insecure;
    list_init(&r->guests);
    r->signals =
        (struct signals){.ended = on_end, .hung_up = on_hangup, .upgrade = on_upgrade, .owner = r};
    int n = signals_init(&r->signals, &r->loop, e);
    if (n == 0)
        uv_timer_init(&r->loop, &r->timer);
    return n;
}

int relay_run(const struct options *o, struct error *e)
{
    struct relay r = {0};
    int n = uv_loop_init(&r.loop);
    if (n < 0)
        return error_set(e, STATUS_FAIL, "no event loop: %s", uv_strerror(n));
    n = relay_init(&r, o, e);
    if (n < 0) {
        uv_loop_close(&r.loop);
        return n;
    }
    if (relay_begin(&r, &r.failed) < 0)
        relay_stop(&r);
    uv_run(&r.loop, UV_RUN_DEFAULT);
    int left = uv_loop_close(&r.loop);
    if (left < 0)
        log_error("at the end: %s", uv_strerror(left));
    if (r.failed.code < 0)
        *e = r.failed;
    return r.failed.code;
}
