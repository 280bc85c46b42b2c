// The relay: sockets here, channels of the cable there.
#include "server/relay.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/uri.h"
#include "base/usb.h"
#include "protocol/message.h"
#include "server/listener.h"
#include "server/notify.h"
#include "server/signals.h"
#include "server/usb_host.h"

#define PATIENCE_MS 3000 // in which a board that is not there may come
#define CHECK_MS    100

// A client that came before the board.
struct guest {
    struct list link;
    int fd;
    uint64_t until_ms;
};

struct relay {
    uv_loop_t loop;
    struct listeners listeners;
    struct usb_host *usb;
    struct notify notify;
    struct list guests;
    uv_timer_t timer;
    struct signals signals;
    bool orphaned, stopping;
};

// ---- clients ------------------------------------------------------------------------------------

// The answer to a client that nothing has been read from.
static void send_away(int fd, const struct error *why)
{
    rknnd_Goodbye m = rknnd_Goodbye_init_zero;
    message_set_text(m.reason, why->text);
    struct frame_out *f =
        message_frame(MESSAGE_GOODBYE, 0, 0, rknnd_Goodbye_fields, &m, NULL, 0, NULL, NULL);
    if (f) {
        fd_send(fd, &(struct iovec){f->head, f->head_size}, 1, NULL, 0);
        frame_out_free(f);
    }
    fd_close(fd);
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

static void take(struct listeners *l, int fd, const struct origin *origin)
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

static void dismiss(struct guest *g)
{
    list_remove(&g->link);
    free(g);
}

static void on_changed(void *owner)
{
    struct relay *r = owner;
    struct guest *g;
    while (usb_host_is_up(r->usb) && (g = list_first(&r->guests, struct guest, link))) {
        connect_guest(r, g->fd);
        dismiss(g);
    }
}

// ---- life ---------------------------------------------------------------------------------------

static void stop(struct relay *r)
{
    struct guest *g;
    if (r->stopping)
        return;
    r->stopping = true;
    listeners_close(&r->listeners);
    while ((g = list_first(&r->guests, struct guest, link))) {
        fd_close(g->fd);
        dismiss(g);
    }
    usb_host_close(steal_ptr(r->usb));
    notify_close(&r->notify);
    uv_close((uv_handle_t *)&r->timer, NULL);
    signals_close(&r->signals);
}

static void on_timer(uv_timer_t *timer)
{
    struct relay *r = container_of(timer, struct relay, timer);
    struct guest *g;
    while ((g = list_first(&r->guests, struct guest, link)) && g->until_ms <= uv_now(&r->loop)) {
        send_away(g->fd, usb_host_why(r->usb));
        dismiss(g);
    }
    if (!list_empty(&r->guests))
        return;
    if (!r->orphaned)
        uv_timer_stop(timer);
    else if (usb_host_connections(r->usb) == 0)
        stop(r);
}

static void on_end(void *owner)
{
    stop(owner);
}

static void on_orphaned(struct listeners *l)
{
    struct relay *r = container_of(l, struct relay, listeners);
    r->orphaned = true;
    listeners_close(l);
    start_checking(r);
}

// The socket at which the client library looks for a relay of this board.
static int default_socket(const char *serial, char *ret, size_t size, struct error *e)
{
    const char *folder = geteuid() == 0 ? "/run" : getenv("XDG_RUNTIME_DIR");
    if (!folder || !*folder)
        return error_set(e, STATUS_PARAM_INVALID,
                         "no --listen, and XDG_RUNTIME_DIR is not set: where to listen?");
    snprintf(ret, size, "%s/rknnd", folder);
    if (mkdir(ret, 0755) < 0 && errno != EEXIST)
        return error_set_errno(e, STATUS_FAIL, errno, "%s", ret);
    if ((size_t)usb_relay_uri(folder, serial, ret, size) >= size)
        return error_set(e, STATUS_PARAM_INVALID, "the socket's path is too long");
    return 0;
}

static int listen_by_default(struct relay *r, const char *serial, struct error *e)
{
    char uri[200];
    int n = default_socket(serial, uri, sizeof uri, e);
    return n < 0 ? n : listener_open(&r->listeners, uri, e);
}

static int open_listeners(struct relay *r, const struct options *o, const char *serial,
                          struct error *e)
{
    struct error other;
    int n = 0;
    for (uint32_t i = 0; i < o->n_listen && n == 0; i++)
        n = listener_open(&r->listeners, o->listen[i], e);
    if (n < 0)
        return n;
    if (o->adopt_fd < 0)
        return o->n_listen > 0 ? 0 : listen_by_default(r, serial, e);
    if (listen_by_default(r, serial, &other) < 0)
        log_info("only for the program that started it: %s", other.text);
    return listener_adopt(&r->listeners, (int)o->adopt_fd, e);
}

static void init(struct relay *r, const struct options *o)
{
    r->listeners =
        (struct listeners){.loop = &r->loop, .options = o, .take = take, .orphaned = on_orphaned};
    list_init(&r->listeners.all);
    list_init(&r->guests);
    uv_timer_init(&r->loop, &r->timer);
    signals_init(&r->signals, &r->loop, on_end, r);
}

static int begin(struct relay *r, const struct options *o, struct error *e)
{
    struct uri uri;
    int n = uri_parse(o->relay, &uri, e);
    if (n == 0 && uri.kind != URI_USB)
        n = error_set(e, STATUS_PARAM_INVALID, "--relay %s: only usb:[SERIAL] can be relayed",
                      o->relay);
    if (n == 0)
        n = notify_init(&r->notify, &r->loop, e);
    if (n == 0)
        n = open_listeners(r, o, uri.text, e);
    if (n == 0)
        n = usb_host_new(&r->usb, &r->loop, uri.text, on_changed, r, e);
    if (n == 0) {
        listeners_start(&r->listeners);
        notify_send(&r->notify, "READY=1\nSTATUS=Relaying %s", o->relay);
    }
    return n;
}

int relay_run(const struct options *o, struct error *e)
{
    struct relay r = {0};
    int n = uv_loop_init(&r.loop);
    if (n < 0)
        return error_set(e, STATUS_FAIL, "no event loop: %s", uv_strerror(n));
    init(&r, o);
    n = begin(&r, o, e);
    if (n < 0)
        stop(&r);
    uv_run(&r.loop, UV_RUN_DEFAULT);
    int left = uv_loop_close(&r.loop);
    if (left < 0)
        log_error("at the end: %s", uv_strerror(left));
    return n;
}
