// What an upgrade means to a daemon: both sides of it, as the parts in upgrade/ tell of them.
#include "base/fd.h"
#include "base/log.h"
#include "server/server.h"

// ---- the sockets of another ---------------------------------------------------------------------

// Those without an address were the service manager's.
int server_take_listeners_over(struct server *s, struct error *e)
{
    const struct options *o = s->options;
    int r = succession_receive(&s->succession, (int)o->takeover_fd, o, &s->listeners, &s->http, e);
    for (unsigned i = 0; i < listeners_count(&s->listeners); i++)
        s->reload.others = s->reload.others || !listeners_address(&s->listeners, i);
    if (r == 0)
        r = addresses_find(o, s->reload.others, &s->addresses, e);
    return r < 0 ? r : addresses_succeed(&s->addresses, &s->listeners, e);
}

static void on_begin(struct succession *n)
{
    struct server *s = container_of(n, struct server, succession);
    if (s->state != SERVER_STARTING)
        return;
    s->sessions.last_id = n->first_session;
    listeners_own(&s->listeners);
    addresses_close_others(&s->addresses, &s->listeners);
    http_own(&s->http);
    http_start_later(&s->http, s->module_dir);
    server_begin(s);
}

static void on_known(struct succession *n)
{
    server_tell_manager(container_of(n, struct server, succession));
}

static void on_met(struct succession *n, int fd, const struct origin *origin)
{
    server_take(container_of(n, struct server, succession), fd, origin);
}

static void take_prepared(struct server *s, int fd)
{
    struct origin origin;
    listeners_prepare(&s->listeners, fd, &origin);
    server_take(s, fd, &origin);
}

// Of a session that has ended; a daemon that retires itself lets the next one have it.
static void on_returned(struct succession *n, int fd)
{
    struct server *s = container_of(n, struct server, succession);
    if (upgrade_pass_back(&s->upgrade, fd))
        fd_close(fd);
    else
        take_prepared(s, fd);
}

static void on_not_handed_over(struct succession *n, const struct error *e)
{
    server_fail_to_start(container_of(n, struct server, succession), e);
}

static void on_counted(struct succession *n, int fd)
{
    struct error e;
    if (counts_add(&container_of(n, struct server, succession)->metrics, fd, &e) < 0)
        log_warn("%s", e.text);
}

// Who is not there has no account yet: to look up whose user he may be takes a thread.
static void on_unread(struct succession *n, int socket, uint64_t n_unread)
{
    struct server *s = container_of(n, struct server, succession);
    struct origin origin = {.local = true};
    struct user *user = NULL;
    struct error e;
    origin_set_peer(&origin, socket, NULL, 0);
    if (user_is_there(&s->users, &origin) && user_get(&s->users, &origin, NULL, &user, &e) < 0)
        user = NULL;
    passed_take(&s->connections.left, &s->accounts, user, origin.uid, socket, n_unread);
    user_unref(user);
    server_start_sweep(s);
}

void server_tell_unread(struct server *s, struct connection *c)
{
    if (s->state == SERVER_RETIRING)
        passed_tell(&c->passed, transport_passes(c->channel.transport), upgrade_tell_unread,
                    &s->upgrade);
}

void server_tell_left(struct server *s)
{
    if (s->state == SERVER_RETIRING)
        passed_tell_left(&s->connections.left, upgrade_tell_unread, &s->upgrade);
}

static void on_predecessor_ended(struct succession *n)
{
    struct server *s = container_of(n, struct server, succession);
    s->metrics.sessions_before = 0;
    server_check_retired(s);
}

static void on_join(struct upgrade *u, int fd)
{
    take_prepared(container_of(u, struct server, upgrade), fd);
}

static void on_retired_long(uv_timer_t *timer)
{
    struct server *s = container_of(timer, struct server, drain);
    log_warn("%u connections stay longer than retire-timeout allows", s->connections.n);
    server_drain(s);
}

static void on_retire(struct upgrade *u, pid_t to)
{
    struct server *s = container_of(u, struct server, upgrade);
    log_info("process %d serves from here on; %u connections stay here until they end", (int)to,
             s->connections.n);
    s->state = SERVER_RETIRING;
    announce_close(&s->announce);
    shelf_pins_close(&s->pins);
    uv_timer_start(&s->drain, on_retired_long, s->options->retire_timeout_s * UINT64_C(1000), 0);
    server_check_retired(s);
}

static void on_retired(uv_timer_t *timer)
{
    struct server *s = container_of(timer, struct server, drain);
    if (s->state == SERVER_RETIRING)
        server_drain(s);
}

static void on_http_ended(struct http *h)
{
    server_check_retired(container_of(h, struct server, http));
}

// Connections to sessions of an older daemon come through this one: it stays as long as that.
void server_check_retired(struct server *s)
{
    if (s->state == SERVER_RETIRING && s->connections.n == 0 && list_empty(&s->arrivals.all) &&
        s->succession.fd < 0 && !http_is_open(&s->http))
        uv_timer_start(&s->drain, on_retired, 0, 0);
}

void server_upgrade(struct server *s)
{
    if (s->state == SERVER_SERVING || s->state == SERVER_RETIRING)
        upgrade_begin(&s->upgrade);
    else
        log_warn("no upgrade while this rknnd %s", s->state == SERVER_STARTING ? "starts" : "ends");
}

void server_init_upgrade(struct server *s)
{
    succession_init(&s->succession, s->loop);
    s->succession.begin = on_begin;
    s->succession.known = on_known;
    s->succession.take = on_met;
    s->succession.returned = on_returned;
    s->succession.failed = on_not_handed_over;
    s->succession.counted = on_counted;
    s->succession.unread = on_unread;
    s->succession.ended = on_predecessor_ended;
    s->upgrade = (struct upgrade){.options = s->options,
                                  .listeners = &s->listeners,
                                  .http = &s->http,
                                  .sessions = &s->sessions,
                                  .connections = &s->connections,
                                  .notify = &s->notify,
                                  .before = &s->succession,
                                  .retire = on_retire,
                                  .take = on_join,
                                  .counts = {.services = &s->services}};
    s->http.ended = on_http_ended;
    upgrade_init(&s->upgrade, s->loop);
}
